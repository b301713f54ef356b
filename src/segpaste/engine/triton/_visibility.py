"""Resolve and measure kernels in Triton: a program reads only masks whose boxes touch its tiles.

`segpaste.engine.triton._tiles` describes the arguments that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._surfaces import is_number, read_depth
from segpaste.engine.triton._tiles import in_box, nearest_source, next_of, on_canvas, pixel_offsets, tile_at, touching


@triton.jit
def resolve(
    layer,
    owner,
    target,
    source,
    plan,
    protected,
    num_classes,
    ranks,
    ignore_index,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Write the layer that is seen at each pixel of one tile, and its slot that owns the pixel.

    Arguments of its own:
        layer: written, as is ``owner``.
        protected: [B, num_classes] bytes.
        num_classes: number of classes in that table.
        ranks: `segpaste.engine.triton.pixels.RankArguments`.
        ignore_index: semantic class that is neither pasted nor pasted over.
        SLOTS: a power of two, at least the slots of a source row.
    """
    height, width = target.height, target.width
    b, top, left = tile_at(tl.program_id(0), height, width, ROWS, COLS)
    b, rows, cols = b.to(tl.int64), top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    here = b * target.size + pixel_offsets(rows, cols, width)
    seen = tl.full([ROWS, COLS], -1, tl.int32)
    whose = tl.full([ROWS, COLS], -1, tl.int32)
    depth = tl.zeros([ROWS, COLS], tl.float32)
    depth_ok = tl.full([ROWS, COLS], 0, tl.int1)
    seen_rank = tl.zeros([ROWS, COLS], tl.int32)
    if ranks.of_class is not None and target.semantic is not None:
        seen_rank = _target_ranks(target, here, on_canvas(rows, cols, height, width), ranks)
    for j in range(plan.num_layers):
        at = b * plan.num_layers + j
        first = at * source.num_slots
        slots = touching(plan.carried, plan.paste_box, first, source.num_slots, top, left, ROWS, COLS, SLOTS)
        k = next_of(slots, -1, source.num_slots)
        if k < source.num_slots:
            row = tl.load(plan.source_idx + at)
            nearest, reached = nearest_source(plan, at, source, rows, cols, height, width)
            foremost = tl.full([ROWS, COLS], -1, tl.int32)
            top_rank = seen_rank
            while k < source.num_slots:
                looked = reached & in_box(plan.paste_box, first + k, rows, cols)
                if ranks.of_class is not None:
                    rank = tl.load(ranks.of_slot + row * source.num_slots + k).to(tl.int32)
                    looked &= (rank > top_rank) | ((rank == top_rank) & (foremost < 0))
                else:
                    looked &= foremost < 0
                mask = source.masks + (row * source.num_slots + k) * source.size
                covered = tl.load(mask + nearest, mask=looked, other=0) != 0
                foremost = tl.where(covered, k, foremost)
                if ranks.of_class is not None:
                    top_rank = tl.where(covered, rank, top_rank)
                k = next_of(slots, k, source.num_slots)
            shown = _open(foremost >= 0, b, here, target, protected, num_classes, ignore_index)
            shown = _has_something(shown, row * source.size + nearest, source, ignore_index)
            if target.depth is not None and source.depth is not None:
                behind, behind_ok = _target_depth(target, here, shown & (seen < 0))
                behind = tl.where(seen < 0, behind, depth)
                behind_ok = tl.where(seen < 0, behind_ok, depth_ok)
                front, front_ok = read_depth(plan, at, row, source, rows, cols, height, width, nearest, shown)
                shown &= ~behind_ok | (front_ok & (front < behind))
                depth = tl.where(shown, front, depth)
                depth_ok = tl.where(shown, front_ok, depth_ok)
            seen = tl.where(shown, j, seen)
            whose = tl.where(shown, foremost, whose)
            if ranks.of_class is not None:
                seen_rank = tl.where(shown, top_rank, seen_rank)
    written = on_canvas(rows, cols, height, width)
    tl.store(layer + here, seen.to(tl.int16), mask=written)
    if owner is not None:
        tl.store(owner + here, whose.to(tl.int16), mask=written)


@triton.jit
def _target_ranks(target, here, asked, ranks):
    """Return the ranks of the target's classes, int32, 0 for unknown classes."""
    label = tl.load(target.semantic + here, mask=asked, other=-1)
    known = (label >= 0) & (label < ranks.num_classes)
    return tl.load(ranks.of_class + label, mask=known, other=0).to(tl.int32)


@triton.jit
def _open(asked, b, here, target, protected, num_classes, ignore_index):
    """Return the asked pixels where the target may be pasted over: no padding, ignored or protected class."""
    if target.padding is not None:
        asked &= tl.load(target.padding + here, mask=asked, other=1) == 0
    if target.semantic is not None:
        label = tl.load(target.semantic + here, mask=asked, other=0)
        known = asked & (label >= 0) & (label < num_classes)
        closed = tl.load(protected + b * num_classes + label, mask=known, other=0) != 0
        asked &= (label != ignore_index) & ~closed
    return asked


@triton.jit
def _has_something(asked, there, source, ignore_index):
    """Return the asked pixels where the source may be shown: neither padding nor ignored."""
    if source.padding is not None:
        asked &= tl.load(source.padding + there, mask=asked, other=1) == 0
    if source.semantic is not None:
        asked &= tl.load(source.semantic + there, mask=asked, other=0) != ignore_index
    return asked


@triton.jit
def _target_depth(target, here, asked):
    """Return the target's depth, and where it is valid, finite and positive."""
    depth = tl.load(target.depth + here, mask=asked, other=0.0)
    valid = tl.load(target.depth_valid + here, mask=asked, other=0) != 0
    return depth, valid & is_number(depth) & (depth > 0)


@triton.jit
def measure(
    found, layer, owner, target, source, plan, num_images, PARTS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """Add up the area and the extent of what is visible in one part of the box of one slot.

    Arguments of its own:
        found: [B * K_t + B * L * K_s, 6] int32, zero at first: the area before the paste, the visible area, the width
            less the left edge, the height less the top edge, the right and the lower edge.
        num_images: B.
        PARTS: programs that share a slot; each takes every PARTS-th of the tiles that its box touches.
    """
    slot, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    found += slot.to(tl.int64) * 6
    num_kept = num_images * target.num_slots
    if slot < num_kept:
        _measure_kept(found, slot, part, layer, target, plan, PARTS, ROWS, COLS)
    else:
        _measure_pasted(found, slot - num_kept, part, layer, owner, target, source, plan, PARTS, ROWS, COLS)


@triton.jit
def _box_tiles(box, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Return the first row and column of tiles that a box touches, the number of tiles across, and in total."""
    left, top = (tl.load(box) // COLS).to(tl.int32), (tl.load(box + 1) // ROWS).to(tl.int32)
    right = tl.cdiv(tl.load(box + 2), COLS).to(tl.int32)
    lower = tl.cdiv(tl.load(box + 3), ROWS).to(tl.int32)
    across = tl.maximum(right - left, 0)
    return top, left, across, across * tl.maximum(lower - top, 0)


@triton.jit
def _measure_kept(found, slot, part, layer, target, plan, PARTS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    b, slot = (slot // target.num_slots).to(tl.int64), slot.to(tl.int64)
    top, left, across, num_tiles = _box_tiles(plan.target_box + slot * 4, ROWS, COLS)
    before = tl.zeros([ROWS, COLS], tl.int32)
    seen = _nothing_seen(ROWS, COLS)
    for tile in range(part, num_tiles, PARTS):
        rows = (top + tile // across) * ROWS + tl.arange(0, ROWS)
        cols = (left + tile % across) * COLS + tl.arange(0, COLS)
        there = on_canvas(rows, cols, target.height, target.width)
        here = pixel_offsets(rows, cols, target.width)
        mask = tl.load(target.masks + slot * target.size + here, mask=there, other=0) != 0
        mask &= in_box(plan.target_box, slot, rows, cols)
        before += mask.to(tl.int32)
        uncovered = tl.load(layer + b * target.size + here, mask=there, other=0) < 0
        seen = _see(seen, mask & uncovered, rows, cols, target)
    area = tl.sum(before)
    if area > 0:
        tl.atomic_add(found, area, sem="relaxed")
        _add_seen(found, seen)


@triton.jit
def _measure_pasted(
    found,
    slot,
    part,
    layer,
    owner,
    target,
    source,
    plan,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    at, k = slot // source.num_slots, slot % source.num_slots
    b, j = (at // plan.num_layers).to(tl.int64), at % plan.num_layers
    at, slot = at.to(tl.int64), slot.to(tl.int64)
    top, left, across, num_tiles = _box_tiles(plan.paste_box + slot * 4, ROWS, COLS)
    num_tiles = tl.where(tl.load(plan.carried + slot) != 0, num_tiles, 0)
    plane = source.masks + (tl.load(plan.source_idx + at) * source.num_slots + k) * source.size
    seen = _nothing_seen(ROWS, COLS)
    for tile in range(part, num_tiles, PARTS):
        rows = (top + tile // across) * ROWS + tl.arange(0, ROWS)
        cols = (left + tile % across) * COLS + tl.arange(0, COLS)
        there = on_canvas(rows, cols, target.height, target.width)
        here = b * target.size + pixel_offsets(rows, cols, target.width)
        shown = tl.load(layer + here, mask=there, other=-1) == j
        shown &= in_box(plan.paste_box, slot, rows, cols)
        if owner is not None:
            shown &= tl.load(owner + here, mask=there, other=-1) == k
        else:
            nearest, reached = nearest_source(plan, at, source, rows, cols, target.height, target.width)
            shown &= tl.load(plane + nearest, mask=shown & reached, other=0) != 0
        seen = _see(seen, shown, rows, cols, target)
    _add_seen(found, seen)


@triton.jit
def _nothing_seen(ROWS: tl.constexpr, COLS: tl.constexpr):
    none = tl.zeros([ROWS, COLS], tl.int32)
    return none, none, none, none, none


@triton.jit
def _see(seen, shown, rows, cols, target):
    """Count shown pixels at each position in a tile, and keep their farthest edges; 0 where there is none yet."""
    area, left, top, right, lower = seen
    area += shown.to(tl.int32)
    left = tl.maximum(left, tl.where(shown, target.width - cols[None, :], 0))
    top = tl.maximum(top, tl.where(shown, target.height - rows[:, None], 0))
    right = tl.maximum(right, tl.where(shown, cols[None, :] + 1, 0))
    lower = tl.maximum(lower, tl.where(shown, rows[:, None] + 1, 0))
    return area, left, top, right, lower


@triton.jit
def _add_seen(found, seen):
    area = tl.sum(seen[0])
    if area > 0:
        tl.atomic_add(found + 1, area, sem="relaxed")
        for i in tl.static_range(1, 5):
            tl.atomic_max(found + 1 + i, tl.max(seen[i]), sem="relaxed")


@triton.jit
def write_measures(found, out, num_kept, num_pasted, width, height, SLOTS: tl.constexpr):
    """Convert the results of `measure` to areas and boxes; a box is zero where its area is.

    Args:
        found: the results of `measure`.
        out: `segpaste.engine.reference.plan.Measures`, written except for the classes.
        num_kept: slots of the target in the whole batch.
        num_pasted: slots of the layers in the whole batch.
        width: width of the target's canvas.
        height: height of the target's canvas.
        SLOTS: slots that one program converts.
    """
    slot = tl.program_id(0).to(tl.int64) * SLOTS + tl.arange(0, SLOTS)
    is_kept, is_pasted = slot < num_kept, (slot >= num_kept) & (slot < num_kept + num_pasted)
    exists, pasted = is_kept | is_pasted, slot - num_kept
    tl.store(out.area_before + slot, tl.load(found + slot * 6, mask=is_kept, other=0).to(tl.int64), mask=is_kept)
    area = tl.load(found + slot * 6 + 1, mask=exists, other=0)
    tl.store(out.area + slot, area.to(tl.int64), mask=is_kept)
    tl.store(out.paste_area + pasted, area.to(tl.int64), mask=is_pasted)
    for i in tl.static_range(4):
        edge = tl.load(found + slot * 6 + 2 + i, mask=exists, other=0)
        if i == 0:
            edge = width - edge
        if i == 1:
            edge = height - edge
        edge = tl.where(area > 0, edge, 0).to(tl.int64)
        tl.store(out.box + slot * 4 + i, edge, mask=is_kept)
        tl.store(out.paste_box + pasted * 4 + i, edge, mask=is_pasted)


@triton.jit
def count_classes(before, after, semantic, layer, size, num_classes, PIXELS: tl.constexpr, BINS: tl.constexpr):
    """Count the pixels of each class in a stretch of one image, before the paste and where no layer hides them.

    Args:
        before: [B, num_classes] int64, added to.
        after: [B, num_classes] int64, added to.
        semantic: [B, H, W] int64.
        layer: [B, H, W] int16.
        size: H * W.
        num_classes: number of classes in the counts.
        PIXELS: pixels of a stretch.
        BINS: classes counted at once.
    """
    num_parts = tl.cdiv(size, PIXELS)
    b = (tl.program_id(0) // num_parts).to(tl.int64)
    pixel = tl.program_id(0) % num_parts * PIXELS + tl.arange(0, PIXELS)
    there = pixel < size
    label = tl.load(semantic + b * size + pixel, mask=there, other=-1)
    uncovered = tl.load(layer + b * size + pixel, mask=there, other=0) < 0
    bins = tl.arange(0, BINS)
    for first in range(0, num_classes, BINS):
        known = there & (label >= first) & (label < num_classes) & (label < first + BINS)
        index = tl.where(known, label - first, 0).to(tl.int32)
        counted = first + bins < num_classes
        to = b * num_classes + first + bins
        num_before = tl.histogram(index, BINS, mask=known).to(tl.int64)
        num_after = tl.histogram(index, BINS, mask=known & uncovered).to(tl.int64)
        tl.atomic_add(before + to, num_before, mask=counted & (num_before > 0), sem="relaxed")
        tl.atomic_add(after + to, num_after, mask=counted & (num_after > 0), sem="relaxed")
