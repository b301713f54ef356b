"""Render kernels in Triton: a program owns a tile of an output, and writes each of its bytes once.

`segpaste.engine.triton._tiles` describes the arguments that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._surfaces import is_number, read_depth, read_normals
from segpaste.engine.triton._tiles import (
    in_box,
    nearest_source,
    next_of,
    on_canvas,
    pixel_offsets,
    tile_at,
    touches,
    touching,
)
from segpaste.types import sampling

_BITS = tl.constexpr(2 * sampling.WEIGHT_BITS)
_HALF = tl.constexpr(1 << (2 * sampling.WEIGHT_BITS - 1))
_STEP = tl.constexpr(2.0 ** (-2 * sampling.WEIGHT_BITS))


@triton.jit
def render_masks(out, target, source, plan, slots, layer, owner, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Write one tile of the mask of one output slot."""
    height, width = out.height, out.width
    slot, top, left = tile_at(tl.program_id(0), height, width, ROWS, COLS)
    b, k, slot = (slot // out.num_slots).to(tl.int64), slot % out.num_slots, slot.to(tl.int64)
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    there = on_canvas(rows, cols, height, width)
    here = pixel_offsets(rows, cols, width)
    value = tl.full([ROWS, COLS], 0, tl.int1)
    kept = b * target.num_slots + k
    survives = tl.load(slots.survives + kept, mask=k < target.num_slots, other=0) != 0
    if touches(plan.target_box, kept, survives, top, left, ROWS, COLS):
        uncovered = tl.load(layer + b * out.size + here, mask=there, other=0) < 0
        mask = tl.load(target.masks + kept * out.size + here, mask=there, other=0) != 0
        value = mask & uncovered & in_box(plan.target_box, kept, rows, cols)
    j = tl.load(slots.paste_layer + slot)
    at = b * plan.num_layers + j
    pasted = tl.load(slots.paste_slot + slot)
    box = at * plan.num_slots + pasted
    if touches(plan.paste_box, box, j >= 0, top, left, ROWS, COLS):
        shown = tl.load(layer + b * out.size + here, mask=there, other=-1) == j
        shown &= in_box(plan.paste_box, box, rows, cols)
        if owner is not None:
            shown &= tl.load(owner + b * out.size + here, mask=there, other=-1) == pasted
        else:
            nearest, reached = nearest_source(plan, at, source, rows, cols, height, width)
            mask = source.masks + (tl.load(plan.source_idx + at) * source.num_slots + pasted) * source.size
            shown &= tl.load(mask + nearest, mask=shown & reached, other=0) != 0
        value |= shown
    tl.store(out.masks + slot * out.size + here, value.to(tl.uint8), mask=there)


@triton.jit
def render(
    out,
    target,
    source,
    plan,
    slots,
    layer,
    owner,
    num_classes,
    ignore_index,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    TAPS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Write one tile of every plane except the masks.

    Arguments of its own:
        num_classes: size of the table of ignored classes.
        ignore_index: semantic class of pixels that lose their label.
        TAPS: a power of two, at least the taps of the image filter.
        SLOTS: a power of two, at least the slots of the target.
    """
    height, width = out.height, out.width
    b, top, left = tile_at(tl.program_id(0), height, width, ROWS, COLS)
    b, rows, cols = b.to(tl.int64), top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    there = on_canvas(rows, cols, height, width)
    here = b * out.size + pixel_offsets(rows, cols, width)
    seen = tl.load(layer + here, mask=there, other=-1).to(tl.int32)
    j = next_of(seen, -1, plan.num_layers)
    orphan = there & False
    if out.panoptic is not None:
        orphan = _orphans(target, plan, slots, b, top, left, there & (seen < 0), ROWS, COLS, SLOTS)
    if j == plan.num_layers:  # most tiles: a mask that is the same along a row lets stores be wide
        _keep(out, target, slots, b, rows, cols, here, there, orphan, num_classes, ignore_index)
    else:
        _keep(out, target, slots, b, rows, cols, here, there & (seen < 0), orphan, num_classes, ignore_index)
    while j < plan.num_layers:
        at = b * plan.num_layers + j
        row = tl.load(plan.source_idx + at)
        shown = seen == j
        nearest, _ = nearest_source(plan, at, source, rows, cols, height, width)
        # Labels before colours: Triton 3.6 does not compile the other order for channels_last images.
        _paste_labels(out, source, plan, slots, at, row, here, nearest, owner, shown)
        _paste_colours(out, source, plan, b, at, row, rows, cols, shown, TAPS)
        if out.depth is not None:
            valid = tl.load(target.depth_valid + here, mask=shown, other=0) != 0
            valid &= is_number(tl.load(target.depth + here, mask=shown, other=0.0))
            depth, ok = tl.zeros([ROWS, COLS], tl.float32), shown & False
            if source.depth is not None:
                depth, ok = read_depth(plan, at, row, source, rows, cols, height, width, nearest, shown)
            tl.store(out.depth + here, depth, mask=shown)
            tl.store(out.depth_valid + here, (ok & valid).to(tl.uint8), mask=shown)
        if out.normals is not None:
            to = out.normals + 2 * b * out.size + here
            x = tl.zeros([ROWS, COLS], tl.float32)
            y, z = x, x
            if source.normals is not None:
                x, y, z = read_normals(plan, at, row, source, rows, cols, height, width, nearest, shown)
            tl.store(to, x, mask=shown)
            tl.store(to + out.size, y, mask=shown)
            tl.store(to + out.size + out.size, z, mask=shown)
        j = next_of(seen, j, plan.num_layers)


@triton.jit
def _orphans(
    target,
    plan,
    slots,
    b,
    top,
    left,
    kept,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Return the kept pixels of instances that lost their row, which belong to no instance."""
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    first = b * target.num_slots
    orphan = kept & False
    dropped = touching(slots.dropped, plan.target_box, first, target.num_slots, top, left, ROWS, COLS, SLOTS)
    k = next_of(dropped, -1, target.num_slots)
    while k < target.num_slots:
        mask = target.masks + (first + k) * target.size + pixel_offsets(rows, cols, target.width)
        inside = kept & in_box(plan.target_box, first + k, rows, cols)
        orphan |= tl.load(mask, mask=inside, other=0) != 0
        k = next_of(dropped, k, target.num_slots)
    return orphan


@triton.jit
def _keep(out, target, slots, b, rows, cols, here, kept, orphan, num_classes, ignore_index):
    """Write the kept pixels of the target; lost labels become ignore, depth that is not finite becomes invalid."""
    for c in range(out.num_channels):
        value = tl.load(_colours(target, b, c, rows, cols), mask=kept)
        tl.store(_colours(out, b, c, rows, cols), value, mask=kept)
    if out.semantic is not None:
        label = tl.load(target.semantic + here, mask=kept, other=0)
        known = kept & (label >= 0) & (label < num_classes)
        ignored = tl.load(slots.ignored_class + b * num_classes + label, mask=known, other=0) != 0
        tl.store(out.semantic + here, tl.where(ignored | orphan, ignore_index, label), mask=kept)
    if out.panoptic is not None:
        thing = tl.load(target.panoptic + here, mask=kept, other=0)
        tl.store(out.panoptic + here, tl.where(orphan, 0, thing), mask=kept)
    if out.depth is not None:
        depth = tl.load(target.depth + here, mask=kept, other=0.0)
        valid = tl.load(target.depth_valid + here, mask=kept, other=0) != 0
        tl.store(out.depth + here, tl.where(is_number(depth), depth, 0.0), mask=kept)
        tl.store(out.depth_valid + here, (valid & is_number(depth)).to(tl.uint8), mask=kept)
    if out.normals is not None:
        for i in tl.static_range(3):
            at = here + (2 * b + i) * out.size
            tl.store(out.normals + at, tl.load(target.normals + at, mask=kept, other=0.0), mask=kept)


@triton.jit
def _paste_labels(out, source, plan, slots, at, row, here, nearest, owner, shown):
    if owner is not None:
        held = at * plan.num_slots + tl.load(owner + here, mask=shown, other=0)
    if out.semantic is not None:
        if source.semantic is not None:
            label = tl.load(source.semantic + row * source.size + nearest, mask=shown, other=0)
        else:
            label = tl.load(slots.paste_class + held, mask=shown, other=0)
        tl.store(out.semantic + here, label, mask=shown)
    if out.panoptic is not None:
        tl.store(out.panoptic + here, tl.load(slots.fresh_id + held, mask=shown, other=0), mask=shown)


@triton.jit
def _colours(planes, b, c, rows, cols):
    """Return pointers to one channel at rows and columns, such as those of a tile, for any layout of the images."""
    picture = planes.images + b * planes.batch_stride + tl.cast(c, tl.int64) * planes.channel_stride
    picture += rows[:, None].to(tl.int64) * planes.row_stride
    return picture + cols[None, :].to(tl.int64) * planes.col_stride


@triton.jit
def _paste_colours(out, source, plan, b, at, row, rows, cols, shown, TAPS: tl.constexpr):
    """Write filtered source pixels, summed down the columns first; a weight of 0 adds nothing, not even a NaN."""
    y_first, x_first = at * plan.num_taps * out.height + rows, at * plan.num_taps * out.width + cols
    on_row, on_col = rows < out.height, cols < out.width
    num_down = _num_used(plan.y_filter_weight, y_first, on_row, out.height, plan.num_taps, TAPS)
    num_across = _num_used(plan.x_filter_weight, x_first, on_col, out.width, plan.num_taps, TAPS)
    for c in range(out.num_channels):
        total = _no_colour(out.images, shown)
        for j in range(num_across):
            x = tl.load(plan.x_filter_idx + x_first + j * out.width, mask=on_col, other=0)
            across = tl.load(plan.x_filter_weight + x_first + j * out.width, mask=on_col, other=0)
            column = _no_colour(out.images, shown)
            for i in range(num_down):
                y = tl.load(plan.y_filter_idx + y_first + i * out.height, mask=on_row, other=0)
                down = tl.load(plan.y_filter_weight + y_first + i * out.height, mask=on_row, other=0)
                used = shown & (down != 0)[:, None] & (across != 0)[None, :]
                tap = tl.load(_colours(source, row, c, y, x), mask=used, other=0).to(total.dtype)
                column += tap * down[:, None].to(total.dtype)
            total += column * across[None, :].to(total.dtype)
        tl.store(_colours(out, b, c, rows, cols), _finished(total, out.images.dtype.element_ty), mask=shown)


@triton.jit
def _num_used(weights, first, there, size, num_taps, TAPS: tl.constexpr):
    """Return the number of taps that a tile needs along one axis, at least 1."""
    taps = tl.arange(0, TAPS)
    asked = (taps < num_taps)[:, None] & there[None, :]
    weight = tl.load(weights + first[None, :] + taps[:, None] * size, mask=asked, other=0)
    return tl.max(tl.where(weight != 0, taps[:, None] + 1, 1))


@triton.jit
def _no_colour(images, like):
    """Return zeros to add colours to: int32 for uint8 images, else float32."""
    if images.dtype.element_ty == tl.uint8:
        return tl.zeros(like.shape, tl.int32)
    else:
        return tl.zeros(like.shape, tl.float32)


@triton.jit
def _finished(total, dtype: tl.constexpr):
    """Return the colour of a sum whose weights add up to 2 ** 22: uint8 rounded half up, floats half to even."""
    if dtype == tl.uint8:
        return ((total + _HALF) >> _BITS).to(tl.uint8)
    elif dtype == tl.bfloat16:  # by hand, for Triton's interpreter cuts off; all ones, a GPU's NaN, would overflow
        value = total * _STEP
        bits = value.to(tl.int32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        bits = tl.where(value == value, bits >> 16, 0x7FC0)
        return bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        return (total * _STEP).to(dtype)
