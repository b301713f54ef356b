"""The draws of a placement, compiled by Numba: those of `segpaste.seeding` and `segpaste.augmentation.placement`.

Equal to them bit for bit: what is drawn does not depend on where it is drawn.
"""

from __future__ import annotations

import numpy as np

from segpaste import seeding
from segpaste.kernels._cpu_layout import scaled_edge
from segpaste.kernels._cpu_surfaces import compiled

_GOLDEN = np.uint64(seeding.GOLDEN)
_SALT = np.uint64(seeding.INDEX_SALT)
_FIRST, _SECOND = (np.uint64(m) for m in seeding.MULTIPLIERS)
_FAR = 1 << 44
_NAMES = ("source", "scale", "hflip", "paste", "count", "slot", "translate")
_SOURCE, _SCALE, _HFLIP, _PASTE, _COUNT, _SLOT, _TRANSLATE = (
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


@compiled
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


@compiled
def draw_rows(seeds, found, ranges, source_idx, layer_valid, out):
    """A source among the other rows, slots, scale, flip and place for every layer of every row.

    Args:
        seeds: [B] int64.
        found: `segpaste.kernels.whole_operands.Survey` of arrays.
        ranges: `segpaste.kernels.whole_operands.DrawRanges`.
        source_idx: [B, L] int64, written.
        layer_valid: [B, L] bool, written.
        out: `segpaste.kernels.whole_operands.Draws` of arrays, written.
    """
    eligible, boxes, extent = found.eligible, found.occupied, found.extent
    _choose_rows(seeds, eligible, source_idx, layer_valid)
    num_layers, num_slots = out.carried.shape[1], out.carried.shape[2]
    priority = np.empty(num_layers * num_slots, np.int64)
    scaled = np.empty((num_layers, num_slots, 4), np.int64)
    for b in range(len(seeds)):
        seed = seeds[b]
        for j in range(num_layers):
            s = source_idx[b, j]
            num = _integer(_indexed(_keyed(seed, _SCALE), j), ranges.low_scale, ranges.high_scale)
            flip = _happens(_indexed(_keyed(seed, _HFLIP), j), ranges.flip_threshold)
            out.scale_num[b, j], out.hflip[b, j] = num, flip
            for k in range(num_slots):
                left, right = boxes[s, k, 0], boxes[s, k, 2]
                if flip:
                    left, right = extent[s, 0] - right, extent[s, 0] - left
                scaled[j, k, 0] = scaled_edge(left, num, ranges.scale_den)
                scaled[j, k, 1] = scaled_edge(boxes[s, k, 1], num, ranges.scale_den)
                scaled[j, k, 2] = scaled_edge(right, num, ranges.scale_den)
                scaled[j, k, 3] = scaled_edge(boxes[s, k, 3], num, ranges.scale_den)
        _choose_slots(b, seed, source_idx, layer_valid, eligible, found.num_free[b], ranges, priority, out)
        for j in range(num_layers):
            _place(b, j, seed, scaled, extent, boxes, ranges, out)
        num_fitting = 0
        for j in range(num_layers):
            for k in range(num_slots):
                num_fitting += out.carried[b, j, k]
        out.does_not_fit[b] -= num_fitting


@compiled
def _choose_slots(b, seed, source_idx, layer_valid, eligible, num_free, ranges, priority, out):
    """A uniformly random subset of the eligible slots: into ``carried``, counted in ``does_not_fit`` for now."""
    num_layers, num_slots = out.carried.shape[1], out.carried.shape[2]
    available, has_source = 0, False
    for j in range(num_layers):
        has_source |= layer_valid[b, j]
        for k in range(num_slots):
            if layer_valid[b, j] and eligible[source_idx[b, j], k]:
                state = _indexed(_indexed(_keyed(seed, _SLOT), j), k)
                priority[j * num_slots + k] = np.int64(state >> np.uint64(2))
                available += 1
            else:
                priority[j * num_slots + k] = -1
    tries = _happens(_keyed(seed, _PASTE), ranges.paste_threshold)
    wanted = _integer(_keyed(seed, _COUNT), ranges.low_count, ranges.high_count) if tries else 0
    num_tried = min(wanted, available)
    num_chosen = min(num_tried, num_free)
    if num_chosen >= available:
        for i in range(len(priority)):
            out.carried[b, i // num_slots, i % num_slots] = priority[i] >= 0
    else:
        order = np.argsort(-priority, kind="mergesort")  # of equal ones the first
        out.carried[b] = False
        for i in order[:num_chosen]:
            out.carried[b, i // num_slots, i % num_slots] = True
    no_source = 1 if tries and not has_source else 0
    out.tried[b], out.no_source[b] = num_tried + no_source, no_source
    out.no_free_slot[b], out.does_not_fit[b] = num_tried - num_chosen, num_chosen


@compiled
def _place(b, j, seed, scaled, extents, occupied, ranges, out):
    """A place for layer ``j``; ``carried`` keeps the chosen slots that lie inside the picture there."""
    num_slots, width, height = out.carried.shape[2], extents[b, 0], extents[b, 1]
    x1, y1, x2, y2, is_empty = _FAR, _FAR, -_FAR, -_FAR, True
    for k in range(num_slots):
        if out.carried[b, j, k]:
            is_empty = False
            x1, y1 = min(x1, scaled[j, k, 0]), min(y1, scaled[j, k, 1])
            x2, y2 = max(x2, scaled[j, k, 2]), max(y2, scaled[j, k, 3])
    first_x, last_x, first_y, last_y = -x1, width - x2, -y1, height - y2
    if is_empty:
        first_x, last_x, first_y, last_y = 0, 0, 0, 0
    best_score, best_x, best_y = np.int64(0), np.int64(0), np.int64(0)
    for attempt in range(ranges.max_attempts):
        state = _indexed(_indexed(_keyed(seed, _TRANSLATE), j), attempt)
        x = _integer(_indexed(state, 0), min(first_x, last_x), max(first_x, last_x))
        y = _integer(_indexed(state, 1), min(first_y, last_y), max(first_y, last_y))
        score = np.int64(0)
        if ranges.max_attempts > 1:
            for k in range(num_slots):
                if out.carried[b, j, k] and _fits(scaled[j, k], x, y, width, height):
                    score += _FAR - _overlap(scaled[j, k], x, y, occupied[b])
        if attempt == 0 or score > best_score:
            best_score, best_x, best_y = score, x, y
    out.translate[b, j, 0], out.translate[b, j, 1] = best_x, best_y
    for k in range(num_slots):
        out.carried[b, j, k] &= _fits(scaled[j, k], best_x, best_y, width, height)


@compiled
def _fits(box, x, y, width, height):
    return box[0] + x >= 0 and box[1] + y >= 0 and box[2] + x <= width and box[3] + y <= height


@compiled
def _overlap(box, x, y, others):
    """Pixels that a moved box shares with each of the others, summed."""
    total = np.int64(0)
    for k in range(others.shape[0]):
        width = min(box[2] + x, others[k, 2]) - max(box[0] + x, others[k, 0])
        height = min(box[3] + y, others[k, 3]) - max(box[1] + y, others[k, 1])
        total += max(width, 0) * max(height, 0)
    return total
