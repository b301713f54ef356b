"""Pasted pixels in Triton, and the masks of an output.

Each program of a paste writes one tile, and returns at once if no layer is visible there. Masks are zeros at write
bandwidth, then the boxes of survivors and pastes. `segpaste.engine.triton._tiles` describes the arguments that kernels
share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton import _packed_slots
from segpaste.engine.triton._interpolation import is_number, paste_colours, read_depth, read_normals
from segpaste.engine.triton._tiles import in_box, nearest_source, next_of, on_canvas, pixel_offsets, tile_at, touches


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
        WAITS: True if the pixels wait for `segpaste.engine.triton._write`.
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


@triton.jit
def fill_masks(
    out,
    target,
    source,
    plan,
    slots,
    layer,
    owner,
    num_listed,
    total,
    CHUNK: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Write one stretch of the masks of all slots, which are one flat array; a stretch may begin or end within a slot.

    Zeros are written first, 16 bytes per store, then the boxes that reach into the stretch, one byte per store.

    Own arguments:
        num_listed: slots of an image in ``slots.paste_layer``, at least those of the masks.
        total: number of bytes of all masks.
        CHUNK: bytes of a stretch.
        ROWS, COLS: size of the tiles into which boxes are divided.
    """
    first = tl.program_id(0).to(tl.int64) * CHUNK
    end = tl.minimum(first + CHUNK, total)
    place = first + tl.arange(0, CHUNK)
    zeros = tl.zeros([CHUNK], tl.uint8)
    if first + CHUNK <= total:  # no mask, so that stores are wide
        tl.store(out.masks + place, zeros)
    else:
        tl.store(out.masks + place, zeros, mask=place < total)
    for slot in range(first // out.size, (end - 1) // out.size + 1):
        b, k = slot // out.num_slots, slot % out.num_slots
        survives = tl.load(slots.survives + slot) != 0
        j = tl.load(slots.paste_layer + b * num_listed + k)
        if survives | (j >= 0):
            at = b * plan.num_layers + tl.maximum(j, 0)
            pasted = tl.load(slots.paste_slot + b * num_listed + k)
            box = tl.where(survives, slot, at * plan.num_slots + tl.maximum(pasted, 0)) * 4
            left = _edge(plan, survives, j >= 0, box)
            right = _edge(plan, survives, j >= 0, box + 2)
            low = tl.maximum(first - slot * out.size, 0)
            high = tl.minimum(end - slot * out.size, out.size)
            top = tl.maximum(_edge(plan, survives, j >= 0, box + 1), (low // out.width).to(tl.int32))
            lower = tl.minimum(_edge(plan, survives, j >= 0, box + 3), ((high - 1) // out.width).to(tl.int32) + 1)
            if (top < lower) & (left < right):
                tl.debug_barrier()  # the zeros of other threads have to be there
                for tile in range(tl.cdiv(lower - top, ROWS) * tl.cdiv(right - left, COLS)):
                    across = tl.cdiv(right - left, COLS)
                    rows = top + tile // across * ROWS + tl.arange(0, ROWS)
                    cols = left + tile % across * COLS + tl.arange(0, COLS)
                    here = pixel_offsets(rows, cols, out.width)
                    inside = (rows < lower)[:, None] & (cols < right)[None, :] & (here >= low) & (here < high)
                    seen = tl.load(layer + b * out.size + here, mask=inside, other=0).to(tl.int32)
                    if survives:
                        shown = inside & (seen < 0)
                        shown &= tl.load(target.masks + slot * out.size + here, mask=shown, other=0) != 0
                    else:
                        shown = inside & (seen == j)
                        shown = _pasted(plan, source, layer, owner, b, at, pasted, rows, cols, here, shown, out)
                    tl.store(out.masks + slot * out.size + here, shown.to(tl.uint8), mask=inside)


@triton.jit
def _edge(plan, survives, is_paste, index):
    """Return one edge of the box of a survivor or of a paste; a slot holds one of them."""
    kept = tl.load(plan.target_box + index, mask=survives, other=0)
    return (kept + tl.load(plan.paste_box + index, mask=is_paste, other=0)).to(tl.int32)


@triton.jit
def _pasted(plan, source, layer, owner, b, at, pasted, rows, cols, here, shown, out):
    """Return the visible pixels of a layer that belong to its instance ``pasted``."""
    if owner is not None:
        shown &= tl.load(owner + b * out.size + here, mask=shown, other=-1) == pasted
    else:
        nearest, reached = nearest_source(plan, at, source, rows, cols, out.height, out.width)
        mask = source.masks + (tl.load(plan.source_idx + at) * source.num_slots + pasted) * source.size
        shown &= tl.load(mask + nearest, mask=shown & reached, other=0) != 0
    return shown
