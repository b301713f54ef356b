"""The draws of a placement, compiled by Numba: those of `segpaste.seeding` and `segpaste.augmentation.placement`.

Equal to them bit for bit: what is drawn does not depend on where it is drawn.
"""

from __future__ import annotations

import numpy as np

from segpaste import seeding
from segpaste.kernels._cpu_compile import compiled, entry
from segpaste.kernels._cpu_layout import scaled_edge
from segpaste.kernels._cpu_weights import count_alike, weighted

_GOLDEN = np.uint64(seeding.GOLDEN)
_SALT = np.uint64(seeding.INDEX_SALT)
_FIRST, _SECOND = (np.uint64(m) for m in seeding.MULTIPLIERS)
_FAR = 1 << 44
_LONGEST_SIDE = 1 << 20
_NAMES = ("source", "scale", "size", "hflip", "paste", "count", "slot", "layer", "translate")
_SOURCE, _SCALE, _SIZE, _HFLIP, _PASTE, _COUNT, _SLOT, _LAYER, _TRANSLATE = (
    np.uint64(seeding.name_key(name) % (1 << 64)) for name in _NAMES
)


@compiled
def _mixed(z):
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def _keyed(seed, name):
    return _mixed(np.uint64(seed) ^ name)


@compiled
def _indexed(state, index):
    return _mixed(state + (np.uint64(index) ^ _SALT) * _GOLDEN)


@compiled
def _integer(state, low, high):
    """Uniform over ``low`` to ``high``, by the upper half of the bits."""
    span = max(high - low + 1, 1)
    return low + np.int64(((state >> np.uint64(32)) * np.uint64(span)) >> np.uint64(32))


@compiled
def _happens(state, threshold):
    return np.int64(state >> np.uint64(32)) < threshold


@entry
def _choose_rows(seeds, eligible, source_idx, layer_valid):
    """Another row of the batch for each layer, uniform over those that have an eligible instance.

    Args:
        seeds: [B] int64.
        eligible: [B, K] bool.
        source_idx: [B, L] int64, written.
        layer_valid: [B, L] bool, written.
    """
    num_rows, num_layers = source_idx.shape
    offers, twins = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.int64)
    for s in range(num_rows):
        for k in range(eligible.shape[1]):
            offers[s] |= eligible[s, k]
        for other in range(s):
            twins[s] += seeds[other] == seeds[s]
    for b in range(num_rows):
        for j in range(num_layers):
            best, chosen = np.int64(-1), 0
            for s in range(num_rows):
                if not offers[s] or s == b:
                    continue
                state = _indexed(_indexed(_indexed(_keyed(seeds[b], _SOURCE), j), seeds[s]), twins[s])
                priority = np.int64(state >> np.uint64(2))
                if priority > best:
                    best, chosen = priority, s
            source_idx[b, j] = chosen
            layer_valid[b, j] = best >= 0


@entry
def draw_rows(seeds, found, tables, ranges, source_idx, layer_valid, out):
    """A source among the other rows, slots, scale, flip and place for every layer of every row.

    Args:
        seeds: [B] int64.
        found: `segpaste.kernels.whole_operands.Survey` of arrays.
        tables: `segpaste.kernels.whole_operands.DrawTables` of arrays.
        ranges: `segpaste.kernels.whole_operands.DrawRanges`.
        source_idx: [B, L] int64, written.
        layer_valid: [B, L] bool, written.
        out: `segpaste.kernels.whole_operands.Draws` of arrays, written.
    """
    _choose_rows(seeds, found.eligible, source_idx, layer_valid)
    num_layers, num_slots = out.carried.shape[1], out.carried.shape[2]
    priority = np.empty((num_layers, num_slots), np.int64)
    boxes = np.empty((num_slots, 4), np.int64)
    num_alike = np.empty(found.labels.shape, np.int64)
    count_alike(found.eligible, found.labels, tables.limits[3], num_alike)
    for b in range(len(seeds)):
        _prioritise(b, seeds[b], source_idx, layer_valid, num_alike, tables, ranges.one_each, priority)
        _choose_slots(b, seeds[b], layer_valid, found.num_free[b], tables.limits, priority, out)
        num_fitting = 0
        for j in range(num_layers):
            s = source_idx[b, j]
            flip = _happens(_indexed(_keyed(seeds[b], _HFLIP), j), ranges.flip_threshold)
            out.hflip[b, j] = flip
            for k in range(num_slots):
                for i in range(4):
                    boxes[k, i] = found.occupied[s, k, i]
                if flip:
                    left, right = boxes[k, 0], boxes[k, 2]
                    boxes[k, 0], boxes[k, 2] = found.extent[s, 0] - right, found.extent[s, 0] - left
            _scale(b, j, seeds[b], boxes, found.labels[s], found.extent[b], tables.size_table, ranges, out)
            _place(b, j, seeds[b], boxes, found.extent[b], found.occupied[b], ranges, out)
            for k in range(num_slots):
                num_fitting += out.carried[b, j, k]
        out.does_not_fit[b] -= num_fitting


@compiled
def _prioritise(b, seed, source_idx, layer_valid, num_alike, tables, one_each, priority):
    """A random number for each slot that may be chosen, -1 for the others, into ``priority`` [L, K].

    Where each layer carries ``one_each``, layers of one source take its slots in random order, each another one.
    """
    num_layers, num_slots = priority.shape
    for j in range(num_layers):
        first, turn = j, 0
        if one_each:
            first, turn = _turn(b, j, seed, source_idx, layer_valid, tables.limits[3])
        for k in range(num_slots):
            priority[j, k] = -1
            if layer_valid[b, j] and num_alike[source_idx[b, j], k] > 0:
                state = _indexed(_indexed(_keyed(seed, _SLOT), first), k)
                priority[j, k] = weighted(np.int64(state >> np.uint64(2)), num_alike[source_idx[b, j], k], tables)
        if one_each:
            order = _descending(priority[j])
            kept = order[turn] if turn < num_slots else -1
            for k in range(num_slots):
                if k != kept or priority[j, k] < 0:
                    priority[j, k] = -1
                else:
                    priority[j, k] = np.int64(_indexed(_keyed(seed, _LAYER), j) >> np.uint64(2))


@compiled
def _turn(b, j, seed, source_idx, layer_valid, temperature):
    """The first of the layers that have the source of layer ``j``, and how many of them take a slot before it."""
    first, turn = j, 0
    own = np.int64(_indexed(_keyed(seed, _LAYER), j) >> np.uint64(2))
    for i in range(source_idx.shape[1]):
        if source_idx[b, i] == source_idx[b, j]:
            first = min(first, i)
            other = np.int64(_indexed(_keyed(seed, _LAYER), i) >> np.uint64(2)) if layer_valid[b, i] else -1
            is_before = i < j if temperature == 0 or other == own else other > own
            turn += is_before
    return first, turn


@compiled
def _choose_slots(b, seed, layer_valid, num_free, limits, priority, out):
    """The eligible slots of highest priority: into ``carried``, counted in ``does_not_fit`` for now."""
    num_slots, flat = priority.shape[1], priority.reshape(priority.size)
    available, has_source = 0, False
    for i in range(len(flat)):
        available += flat[i] >= 0
    for j in range(layer_valid.shape[1]):
        has_source |= layer_valid[b, j]
    tries = _happens(_keyed(seed, _PASTE), limits[0])
    wanted = _integer(_keyed(seed, _COUNT), limits[1], limits[2]) if tries else 0
    num_tried = min(wanted, available)
    num_chosen = min(num_tried, num_free)
    if num_chosen >= available:
        for i in range(len(flat)):
            out.carried[b, i // num_slots, i % num_slots] = flat[i] >= 0
    else:
        order = _descending(flat)
        out.carried[b] = False
        for i in order[:num_chosen]:
            out.carried[b, i // num_slots, i % num_slots] = True
    no_source = 1 if tries and not has_source else 0
    out.tried[b], out.no_source[b] = num_tried + no_source, no_source
    out.no_free_slot[b], out.does_not_fit[b] = num_tried - num_chosen, num_chosen


@compiled
def _descending(priority):
    """The order of the priorities, the highest first, of equal ones the first."""
    return np.argsort(-priority, kind="mergesort")


@compiled
def _scale(b, j, seed, boxes, labels, extent, size_table, ranges, out):
    """The scales of layer ``j``, and its ``boxes`` scaled by them."""
    state = _indexed(_keyed(seed, _SCALE), j)
    num = _integer(state, ranges.low_scale, ranges.high_scale)
    den, slot = ranges.scale_den, 0
    if ranges.on_grid:
        num = num * ranges.patch
    out.scale_num[b, j], out.scale_den[b, j] = num, den
    if ranges.one_each and len(boxes) > 0:
        while slot < len(boxes) - 1 and not out.carried[b, j, slot]:
            slot += 1
        if not out.carried[b, j, slot]:
            slot = 0
        sides = max(boxes[slot, 2] - boxes[slot, 0], 1), max(boxes[slot, 3] - boxes[slot, 1], 1)
        label, others = labels[slot], len(size_table) - 1
        row = label if 0 <= label <= others else others
        low, high = size_table[row, 0], size_table[row, 1]
        if low > 0:
            size = _integer(_indexed(_keyed(seed, _SIZE), j), low, high)
            wanted = size * den // (ranges.size_den * max(sides[0], sides[1]))
            num = min(max(wanted, ranges.low_scale), ranges.high_scale)
            out.scale_num[b, j] = num
        if ranges.whole_patches:
            for axis in range(2):
                half = den * ranges.patch
                count = max((2 * sides[axis] * num + half) // (2 * half), 1)
                count = max(min(count, max(extent[axis] // ranges.patch, count - 1)), 1)
                out.scale_num[b, j, axis], out.scale_den[b, j, axis] = count * ranges.patch, sides[axis]
    for k in range(len(boxes)):
        for i in range(4):
            boxes[k, i] = scaled_edge(boxes[k, i], out.scale_num[b, j, i % 2], out.scale_den[b, j, i % 2])


@compiled
def _place(b, j, seed, scaled, extent, occupied, ranges, out):
    """A place for layer ``j``; ``carried`` keeps the chosen slots that may be pasted there."""
    x1, y1, x2, y2, is_empty = _FAR, _FAR, -_FAR, -_FAR, np.bool_(True)
    for k in range(len(scaled)):
        if out.carried[b, j, k]:
            is_empty = False
            x1, y1 = min(x1, scaled[k, 0]), min(y1, scaled[k, 1])
            x2, y2 = max(x2, scaled[k, 2]), max(y2, scaled[k, 3])
    if is_empty:
        x1, y1, x2, y2 = 0, 0, extent[0], extent[1]
    best_score, best_x, best_y = np.int64(0), np.int64(0), np.int64(0)
    for attempt in range(ranges.max_attempts):
        state = _indexed(_indexed(_keyed(seed, _TRANSLATE), j), attempt)
        x = _offset(_indexed(state, np.int64(0)), x1, x2, extent[0], is_empty, ranges)
        y = _offset(_indexed(state, np.int64(1)), y1, y2, extent[1], is_empty, ranges)
        score = np.int64(0)
        if ranges.max_attempts > 1:
            for k in range(len(scaled)):
                if out.carried[b, j, k] and _fits(scaled[k], x, y, extent, ranges):
                    score += _FAR - _overlap(scaled[k], x, y, occupied)
        if attempt == 0 or score > best_score:
            best_score, best_x, best_y = score, x, y
    out.translate[b, j, 0], out.translate[b, j, 1] = best_x, best_y
    for k in range(len(scaled)):
        out.carried[b, j, k] &= _fits(scaled[k], best_x, best_y, extent, ranges)


@compiled
def _offset(state, corner, opposite, size, is_empty, ranges):
    """How far to move along one axis what reaches from ``corner`` to ``opposite``."""
    low, high = min(-corner, size - opposite), max(-corner, size - opposite)
    if ranges.clips and not is_empty:
        side = min(max(opposite - corner, 0), _LONGEST_SIDE)
        hidden = side * (ranges.seen_den - ranges.seen_num) // ranges.seen_den
        low, high = low - hidden, high + hidden
    if not (ranges.on_grid or ranges.whole_patches):
        return _integer(state, low, high)
    phase = corner if ranges.whole_patches else 0
    return _integer(state, -((-low - phase) // ranges.patch), (high + phase) // ranges.patch) * ranges.patch - phase


@compiled
def _fits(box, x, y, extent, ranges):
    x1, y1, x2, y2 = box[0] + x, box[1] + y, box[2] + x, box[3] + y
    if x1 >= 0 and y1 >= 0 and x2 <= extent[0] and y2 <= extent[1]:
        return True
    if not ranges.clips:
        return False
    area = _side(max(x1, 0), min(x2, extent[0])) * _side(max(y1, 0), min(y2, extent[1]))
    return area > 0 and area * ranges.seen_den >= _side(x1, x2) * _side(y1, y2) * ranges.seen_num


@compiled
def _side(first, end):
    return min(max(end - first, 0), _LONGEST_SIDE)


@compiled
def _overlap(box, x, y, others):
    """Pixels that a moved box shares with each of the others, summed."""
    total = np.int64(0)
    for k in range(others.shape[0]):
        width = min(box[2] + x, others[k, 2]) - max(box[0] + x, others[k, 0])
        height = min(box[3] + y, others[k, 3]) - max(box[1] + y, others[k, 1])
        total += max(width, 0) * max(height, 0)
    return total
