"""The scale and the place of a layer, compiled by Numba: `segpaste.augmentation.draw_scales` and `draw_places`."""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled
from segpaste.kernels._cpu_layout import scaled_edge
from segpaste.kernels._cpu_random import SCALE, SIZE, STRATUM, TRANSLATE, indexed, integer, keyed, within

_FAR = 1 << 44
_LONGEST_SIDE = 1 << 20


@compiled
def draw_scale(b, j, seed, boxes, labels, extent, size_table, ranges, out):
    """The scales of layer ``j``, and its ``boxes`` scaled by them."""
    den, slot = ranges.scale_den, 0
    if ranges.on_grid:
        num = _grid_scale(b, j, seed, boxes, extent, ranges, out)
    else:
        num = integer(indexed(keyed(seed, SCALE), j), ranges.low_scale, ranges.high_scale)
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
            size = integer(indexed(keyed(seed, SIZE), j), low, high)
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
def _grid_scale(b, j, seed, boxes, extent, ranges, out):
    """The numerator of a scale on the canvas' grid: the first try with room for the chosen boxes, else the smallest."""
    x1, y1, x2, y2, is_empty = _around(b, j, boxes, out)
    for attempt in range(ranges.grid_tries):
        state = indexed(indexed(keyed(seed, SCALE), j), attempt)
        num = integer(state, ranges.low_scale, ranges.high_scale) * ranges.patch
        if is_empty or (_has_room(x1, x2, extent[0], num, ranges) and _has_room(y1, y2, extent[1], num, ranges)):
            return num
    return ranges.low_scale * ranges.patch


@compiled
def _around(b, j, boxes, out):
    """The rectangle around the chosen boxes of a layer, and whether there is none."""
    x1, y1, x2, y2, is_empty = _FAR, _FAR, -_FAR, -_FAR, np.bool_(True)
    for k in range(len(boxes)):
        if out.carried[b, j, k]:
            is_empty = False
            x1, y1 = min(x1, boxes[k, 0]), min(y1, boxes[k, 1])
            x2, y2 = max(x2, boxes[k, 2]), max(y2, boxes[k, 3])
    return x1, y1, x2, y2, is_empty


@compiled
def _has_room(corner, opposite, size, num, ranges):
    """Whether, scaled, some translation by whole patches keeps what reaches from ``corner`` to ``opposite`` inside."""
    first = -(scaled_edge(corner, num, ranges.scale_den) // ranges.patch)
    return first <= (size - scaled_edge(opposite, num, ranges.scale_den)) // ranges.patch


@compiled
def draw_place(b, j, seed, scaled, extent, occupied, ranges, out):
    """A place for layer ``j``; ``carried`` keeps the chosen slots that may be pasted there."""
    x1, y1, x2, y2, is_empty = _around(b, j, scaled, out)
    if is_empty:
        x1, y1, x2, y2 = 0, 0, extent[0], extent[1]
    best_score, best_x, best_y = np.int64(0), np.int64(0), np.int64(0)
    for attempt in range(ranges.max_attempts):
        state = indexed(indexed(keyed(seed, TRANSLATE), j), attempt)
        x_part = _fraction(state, seed, j, attempt, np.int64(0), out, ranges)
        y_part = _fraction(state, seed, j, attempt, np.int64(1), out, ranges)
        x = _offset(x_part, x1, x2, extent[0], is_empty, ranges)
        y = _offset(y_part, y1, y2, extent[1], is_empty, ranges)
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
def _fraction(state, seed, j, attempt, axis, out, ranges):
    """Where along its range a place lies, out of 2**32; on patches each layer of an image in a part of its own."""
    fraction = np.int64(indexed(state, axis) >> np.uint64(32))
    if not (ranges.on_grid or ranges.whole_patches):
        return fraction
    num_layers, turn = out.carried.shape[1], np.int64(0)
    own = np.int64(_stratum(seed, j, attempt, axis))
    for i in range(num_layers):
        other = np.int64(_stratum(seed, i, attempt, axis))
        turn += other < own or (other == own and i < j)
    return ((turn << 32) + fraction) // num_layers


@compiled
def _stratum(seed, j, attempt, axis):
    return indexed(indexed(indexed(keyed(seed, STRATUM), j), attempt), axis) >> np.uint64(2)


@compiled
def _offset(fraction, corner, opposite, size, is_empty, ranges):
    """How far to move along one axis what reaches from ``corner`` to ``opposite``."""
    low, high = min(-corner, size - opposite), max(-corner, size - opposite)
    if ranges.clips and not is_empty:
        side = min(max(opposite - corner, 0), _LONGEST_SIDE)
        hidden = side * (ranges.seen_den - ranges.seen_num) // ranges.seen_den
        low, high = low - hidden, high + hidden
    if not (ranges.on_grid or ranges.whole_patches):
        return within(fraction, low, high)
    phase = corner if ranges.whole_patches else 0
    first, last = -((-low - phase) // ranges.patch), (high + phase) // ranges.patch
    return within(fraction, first, last) * ranges.patch - phase


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
