"""Pasted pixels in Triton: each program writes one tile, and returns at once if no layer is visible there.

`segpaste.engine.triton._tiles` describes the arguments that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton import _packed_slots
from segpaste.engine.triton._surfaces import is_number, read_depth, read_normals
from segpaste.engine.triton._tiles import (
    in_box,
    nearest_source,
    next_of,
    on_canvas,
    pixel_offsets,
    tile_at,
    touches,
)
from segpaste.engine.triton.pixels._colours import paste_colours


@triton.jit
def paste(
    out,
    target,
    source,
    plan,
    slots,
    visible,
    held,
    num_listed,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    TAPS: tl.constexpr,
    SLOTS: tl.constexpr,
    IS_EXCLUSIVE: tl.constexpr,
    WAITS: tl.constexpr,
):
    """Write the pasted pixels of one tile into every plane but the masks.

    Waiting pixels are stored where no paste reads: in the planes of ``out``, or in spare bits of the target's masks if
    ``out`` lacks the plane. Classes wait in the panoptic map if there is one, since no paste reads it. The sign of a
    waiting depth is its validity, since no depth is negative.

    Own arguments:
        held: `segpaste.engine.triton.packed_slots.HeldArguments`.
        num_listed: slots of an image in ``slots.paste_layer``, at least those of the masks.
        TAPS: a power of two, at least the taps of the image filter.
        SLOTS: 0, or in place a power of two, at least the slots of the target. In place, the masks of pastes are
            written into those of the target. In the slot of an instance that loses its row, the paste gets the second
            bit, and the first bit stays, since other tiles may read it. An empty slot is no source, so its mask gets
            its final value.
        IS_EXCLUSIVE: True if a pixel belongs to the mask of its owner only.
        WAITS: True if the pixels wait for `segpaste.engine.triton.pixels._write`.
    """
    height, width = target.height, target.width
    b, top, left = tile_at(tl.program_id(0), height, width, ROWS, COLS)
    b, rows, cols = b.to(tl.int64), top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    place, there = pixel_offsets(rows, cols, width), on_canvas(rows, cols, height, width)
    seen, whose = _packed_slots.load_visible(visible, target, b, place, there)
    j = next_of(seen, -1, plan.num_layers)
    if SLOTS > 0:
        is_pasted = j < plan.num_layers
        if is_pasted:
            _paste_masks(
                target, source, plan, slots, num_listed, b, top, left, seen, whose, ROWS, COLS, SLOTS, IS_EXCLUSIVE
            )
            if WAITS:
                tl.debug_barrier()  # the same bytes take digits
    while j < plan.num_layers:
        at = b * plan.num_layers + j
        row = tl.load(plan.source_idx + at)
        shown = seen == j
        # Labels before colours: Triton 3.6 does not compile the other order for channels_last images.
        _paste_labels(out, target, source, plan, slots, held, b, at, row, rows, cols, whose, shown, WAITS)
        paste_colours(out, target, source, plan, held, b, at, row, rows, cols, shown, TAPS)
        _paste_surfaces(out, target, source, plan, held, b, at, row, rows, cols, shown, WAITS)
        j = next_of(seen, j, plan.num_layers)


@triton.jit
def _paste_labels(out, target, source, plan, slots, held, b, at, row, rows, cols, whose, shown, WAITS: tl.constexpr):
    """Write classes and ids; ids that wait are not written, for they follow from layer and owner."""
    here, index = b * target.size + pixel_offsets(rows, cols, target.width), at * plan.num_slots + whose
    if target.semantic is not None:
        if source.semantic is not None:
            nearest, _ = nearest_source(plan, at, source, rows, cols, target.height, target.width)
            label = tl.load(source.semantic + row * source.size + nearest, mask=shown, other=0)
        else:
            label = tl.load(slots.paste_class + index, mask=shown, other=0)
        if WAITS and target.panoptic is not None:
            tl.store(target.panoptic + here, label, mask=shown)
        elif out.semantic is not None:
            tl.store(out.semantic + here, label, mask=shown)
        else:
            to = _packed_slots.slot_at(target, b, held.semantic, pixel_offsets(rows, cols, target.width))
            num = held.word_digits
            _packed_slots.put(to, target.size, label.to(tl.int32), shown, num)
            to += num * tl.cast(target.size, tl.int64)
            _packed_slots.put(to, target.size, (label >> 32).to(tl.int32), shown, num)
    if not WAITS and target.panoptic is not None:
        tl.store(out.panoptic + here, tl.load(slots.fresh_id + index, mask=shown, other=0), mask=shown)


@triton.jit
def _paste_surfaces(out, target, source, plan, held, b, at, row, rows, cols, shown, WAITS: tl.constexpr):
    """Write depth, which is valid where the target's is too, and normals; zeros where the source has none."""
    place = pixel_offsets(rows, cols, target.width)
    here = b * target.size + place
    num = held.word_digits
    if target.depth is not None:
        depth, ok = tl.zeros(shown.shape, tl.float32), shown & False
        if source.depth is not None:
            nearest, _ = nearest_source(plan, at, source, rows, cols, target.height, target.width)
            depth, ok = read_depth(plan, at, row, source, rows, cols, target.height, target.width, nearest, shown, 0)
        ok &= tl.load(target.depth_valid + here, mask=shown, other=0) != 0
        ok &= is_number(tl.load(target.depth + here, mask=shown, other=0.0))
        if not WAITS:
            tl.store(out.depth + here, depth, mask=shown)
            tl.store(out.depth_valid + here, ok.to(tl.uint8), mask=shown)
        else:
            bits = _packed_slots.signed(depth, ok)
            if out.depth is not None:
                tl.store(out.depth + here, bits.to(tl.float32, bitcast=True), mask=shown)
            else:
                _packed_slots.put(_packed_slots.slot_at(target, b, held.depth, place), target.size, bits, shown, num)
    if target.normals is not None:
        x = tl.zeros(shown.shape, tl.float32)
        y, z = x, x
        if source.normals is not None:
            nearest, _ = nearest_source(plan, at, source, rows, cols, target.height, target.width)
            x, y, z = read_normals(plan, at, row, source, rows, cols, target.height, target.width, nearest, shown)
        if out.normals is not None:
            to = out.normals + 2 * b * target.size + here
            tl.store(to, x, mask=shown)
            tl.store(to + target.size, y, mask=shown)
            tl.store(to + target.size + target.size, z, mask=shown)
        else:
            x, y, z = _packed_slots.as_bits(x), _packed_slots.as_bits(y), _packed_slots.as_bits(z)
            to = _packed_slots.slot_at(target, b, held.normals, place)
            _packed_slots.put_three(to, target.size, x, y, z, shown, (shown, shown), num)


@triton.jit
def _paste_masks(
    target,
    source,
    plan,
    slots,
    num_listed,
    b,
    top,
    left,
    seen,
    whose,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    IS_EXCLUSIVE: tl.constexpr,
):
    """Write the masks of the pastes that touch a tile; the bit depends on what their slot held: see `paste`."""
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    place, number = pixel_offsets(rows, cols, target.width), tl.arange(0, SLOTS)
    layers = tl.load(slots.paste_layer + b * num_listed + number, mask=number < target.num_slots, other=-1)
    pasted = tl.load(slots.paste_slot + b * num_listed + number, mask=layers >= 0, other=0)
    boxes = (b * plan.num_layers + layers) * plan.num_slots + pasted
    touching = touches(plan.paste_box, boxes, layers >= 0, top, left, ROWS, COLS)
    number = tl.where(touching, number, target.num_slots)
    k = next_of(number, -1, target.num_slots)
    while k < target.num_slots:
        j, pasted_slot = tl.load(slots.paste_layer + b * num_listed + k), tl.load(slots.paste_slot + b * num_listed + k)
        at = b * plan.num_layers + j
        inside = (seen == j) & in_box(plan.paste_box, at * plan.num_slots + pasted_slot, rows, cols)
        if IS_EXCLUSIVE:
            inside &= whose == pasted_slot
        else:
            nearest, reached = nearest_source(plan, at, source, rows, cols, target.height, target.width)
            mask = source.masks + (tl.load(plan.source_idx + at) * source.num_slots + pasted_slot) * source.size
            inside &= _packed_slots.holds(tl.load(mask + nearest, mask=inside & reached, other=0))
        slot = b * target.num_slots + k
        to = target.masks + slot * target.size + place
        before = tl.load(to, mask=inside, other=0)
        had = tl.load(slots.dropped + slot) != 0
        tl.store(to, (before | tl.where(had, 2, 1)).to(tl.uint8), mask=inside)
        k = next_of(number, k, target.num_slots)
