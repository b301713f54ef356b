"""A row's layers laid out: where each object lies and where each pixel reads, compiled by Numba.

The integers of `segpaste.augmentation.geometry`, filled in only where a carried object lies; divisions by the scale are
carried on from pixel to pixel.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled, entry
from segpaste.types import sampling

_ONE = sampling.WEIGHT_ONE
_FARTHEST = sampling.FARTHEST_EDGE


@entry
def survey_rows(boxes, labels, valid, padding, is_thing, eligible, occupied, num_free, extent):
    """What a placement must know of a batch.

    Args:
        boxes: [B, K, 4] float32.
        labels: [B, K] int64.
        valid: [B, K] bool.
        padding: [B, H, W] bool, or of length 0.
        is_thing: [num_classes] bool, or of length 0 where every class may be pasted.
        eligible: [B, K] bool, written: instances that may be pasted.
        occupied: [B, K, 4] int64, written: boxes rounded outwards to whole pixels.
        num_free: [B] int64, written.
        extent: [B, 2] int64, (width, height) of the canvas, cut to that of the picture.
    """
    find_extents(padding, extent)
    for b in range(len(valid)):
        num_free[b] = 0
        for k in range(valid.shape[1]):
            left, top, right, bottom = boxes[b, k, 0], boxes[b, k, 1], boxes[b, k, 2], boxes[b, k, 3]
            label = labels[b, k]
            is_pasted = len(is_thing) == 0 or (0 <= label < len(is_thing) and is_thing[label])
            eligible[b, k] = valid[b, k] and right > left and bottom > top and is_pasted
            num_free[b] += not valid[b, k]
            occupied[b, k, 0], occupied[b, k, 1] = _floor(left), _floor(top)
            occupied[b, k, 2], occupied[b, k, 3] = _ceil(right), _ceil(bottom)


@entry
def find_extents(padding, extent):
    """Cut (width, height) [S, 2] to the picture: what lies before the last column and row without padding."""
    for s in range(padding.shape[0]):
        width, height = 0, 0
        for y in range(padding.shape[1]):
            x = padding.shape[2]
            while x > width and padding[s, y, x - 1]:
                x -= 1
            if x > width or not padding[s, y, :x].all():
                width, height = max(width, x), y + 1
        extent[s, 0], extent[s, 1] = width, height


@compiled
def lay_out(b, plan, given, height, width):
    """Fill boxes and tables of row ``b``; tables hold nothing where no carried object lies.

    Args:
        b: the row.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`, with ``source_idx``, ``carried`` and ``hflip`` given.
        given: `segpaste.kernels.cpu.Given` of arrays.
        height: H of the target.
        width: W.
    """
    translate, extent, source_boxes = given.translate, given.extent, given.source_boxes
    target_boxes = given.target_rows.boxes
    for k in range(target_boxes.shape[1]):
        plan.target_box[b, k, 0] = min(max(_floor(target_boxes[b, k, 0]), 0), width)
        plan.target_box[b, k, 1] = min(max(_floor(target_boxes[b, k, 1]), 0), height)
        plan.target_box[b, k, 2] = min(max(_ceil(target_boxes[b, k, 2]), 0), width)
        plan.target_box[b, k, 3] = min(max(_ceil(target_boxes[b, k, 3]), 0), height)
        plan.target_box[b, k, 2] = max(plan.target_box[b, k, 0], plan.target_box[b, k, 2])
        plan.target_box[b, k, 3] = max(plan.target_box[b, k, 1], plan.target_box[b, k, 3])
    for j in range(plan.carried.shape[1]):
        s, flip = plan.source_idx[b, j], plan.hflip[b, j]
        x_num, x_den, y_num, y_den = _scales(given, b, j)
        x1, y1, x2, y2 = width, height, 0, 0
        for k in range(plan.carried.shape[2]):
            plan.paste_box[b, j, k] = 0
            if not plan.carried[b, j, k]:
                continue
            left, right = _floor(source_boxes[s, k, 0]), _ceil(source_boxes[s, k, 2])
            top, bottom = _floor(source_boxes[s, k, 1]), _ceil(source_boxes[s, k, 3])
            if flip:
                left, right = extent[s, 0] - right, extent[s, 0] - left
            left = min(max(scaled_edge(left, x_num, x_den) + translate[b, j, 0], 0), width)
            right = min(max(scaled_edge(right, x_num, x_den) + translate[b, j, 0], 0), width)
            top = min(max(scaled_edge(top, y_num, y_den) + translate[b, j, 1], 0), height)
            bottom = min(max(scaled_edge(bottom, y_num, y_den) + translate[b, j, 1], 0), height)
            right, bottom = max(left, right), max(top, bottom)
            box = plan.paste_box[b, j, k]
            box[0], box[1], box[2], box[3] = left, top, right, bottom
            x1, y1, x2, y2 = min(x1, left), min(y1, top), max(x2, right), max(y2, bottom)
        if x1 >= x2 or y1 >= y2:
            continue
        x = translate[b, j, 0], x_num, x_den
        tables = plan.x_nearest[b, j], plan.x_filter_idx[b, j], plan.x_filter_weight[b, j]
        _fill_axis(*tables, plan.x_linear_idx[b, j], plan.x_linear_weight[b, j], x1, x2, *x, extent[s, 0], flip)
        y = translate[b, j, 1], y_num, y_den
        tables = plan.y_nearest[b, j], plan.y_filter_idx[b, j], plan.y_filter_weight[b, j]
        _fill_axis(*tables, plan.y_linear_idx[b, j], plan.y_linear_weight[b, j], y1, y2, *y, extent[s, 1], False)


@compiled
def _fill_axis(
    nearest, filter_idx, filter_weight, linear_idx, linear_weight, first, end, offset, num, den, extent, flip
):
    """The tables of one axis from ``first`` to ``end - 1``; those of linear reads unless they are empty."""
    _fill_nearest(nearest, first, end, offset, num, den, extent, flip)
    radius = num if filter_idx.shape[0] == 2 else max(num, den)
    _fill_taps(filter_idx, filter_weight, first, end, offset, num, den, radius, extent, flip)
    if linear_idx.shape[1] > 0:
        _fill_taps(linear_idx, linear_weight, first, end, offset, num, den, num, extent, flip)


@compiled
def _scales(given, b, j):
    """Numerators and denominators of a layer's scales: those of x, then those of y."""
    num, den = given.scale_num, given.scale_den
    return num[b, j, 0], den[b, j, 0], num[b, j, 1], den[b, j, 1]


@compiled
def _floor(edge):
    return _whole(np.floor(edge))


@compiled
def _ceil(edge):
    return _whole(np.ceil(edge))


@compiled
def _whole(edge):
    if -_FARTHEST < edge < _FARTHEST:
        return np.int64(edge)
    return np.int64(_FARTHEST) if edge > 0 else -np.int64(_FARTHEST)


@compiled
def scaled_edge(edge, num, den):
    """The first output pixel whose centre lies behind a source edge: ceil(edge * num / den - 1 / 2)."""
    return -((den - 2 * num * edge) // (2 * den))


@compiled
def _fill_nearest(nearest, first, end, offset, num, den, extent, flip):
    shifted = (2 * (first - offset) + 1) * den  # position + num
    index = shifted // (2 * num)
    rest = shifted - index * 2 * num
    for x in range(first, end):
        if index < 0 or index >= extent:
            nearest[x] = -1
        else:
            nearest[x] = extent - 1 - index if flip else index
        rest += 2 * den
        while rest >= 2 * num:
            rest -= 2 * num
            index += 1


@compiled
def _fill_taps(tap_idx, tap_weight, first, end, offset, num, den, radius, extent, flip):
    """The taps of a triangle filter; the last index in the picture stands for those behind it.

    A tap of no weight repeats another's index: nothing is read that has no weight.
    """
    position = (2 * (first - offset) + 1) * den - num
    lowest = (position - 2 * radius) // (2 * num)
    rest = position - 2 * radius - lowest * 2 * num
    last = max(extent - 1, 0)
    for x in range(first, end):
        distance = 2 * num - rest - 2 * radius  # of the first tap, at lowest + 1
        total = 0
        for t in range(tap_idx.shape[0]):
            total += max(2 * radius - abs(distance + 2 * num * t), 0)
        upto, before, used = 0, 0, 0
        for t in range(tap_idx.shape[0]):
            upto += max(2 * radius - abs(distance + 2 * num * t), 0)
            share = (upto * _ONE) // total
            tap_weight[t, x] = share - before
            if share > before:
                used = t
            before = share
            index = min(max(lowest + 1 + t, 0), last)
            tap_idx[t, x] = last - index if flip else index
        for t in range(tap_idx.shape[0]):
            if tap_weight[t, x] == 0:
                tap_idx[t, x] = tap_idx[used, x]
        rest += 2 * den
        while rest >= 2 * num:
            rest -= 2 * num
            lowest += 1
