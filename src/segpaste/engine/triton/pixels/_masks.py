"""The masks of an output in Triton: zeros at write bandwidth, then the boxes of survivors and pastes.

`segpaste.engine.triton._tiles` describes the arguments that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._tiles import nearest_source, pixel_offsets


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
