"""Kernel of the tables: what the looks and the pixels need to know of each layer, and zeros for the looks to count on.

Look-up tables of an axis have the arithmetic of `segpaste.types.sampling` and `segpaste.engine.reference.geometry`, in
64-bit integers. `segpaste.engine.triton._tiles` and `segpaste.engine.triton.visibility.settling` describe the arguments
that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.types import sampling

_WEIGHT_ONE = tl.constexpr(sampling.WEIGHT_ONE)
_COLUMNS = tl.constexpr(32)
_FARTHEST = tl.constexpr(sampling.FARTHEST_EDGE)


@triton.jit
def floor_div(value, divisor):
    """Return ``value / divisor`` rounded down, for a divisor above 0; Triton's own division rounds to zero."""
    quotient = value // divisor
    return tl.where(quotient * divisor > value, quotient - 1, quotient)


@triton.jit
def valid_extent(source, row, BLOCK: tl.constexpr):
    """Return the (width, height) of a source image without padding.

    The search goes backwards from the last row, then from the last column, and reads little more than the padding.
    """
    if source.padding is None:
        return tl.cast(source.width, tl.int64), tl.cast(source.height, tl.int64)
    else:
        plane = source.padding + row * source.size
        end = tl.cast(source.size, tl.int64)
        last = tl.cast(-1, tl.int64)
        while (end > 0) & (last < 0):
            pixel = end - 1 - tl.arange(0, BLOCK)
            is_open = tl.load(plane + pixel, mask=pixel >= 0, other=1) == 0
            last = tl.max(tl.where(is_open, pixel, -1))
            end -= BLOCK
        height = (last + source.width) // source.width
        width = tl.cast(0, tl.int64)
        right = tl.cast(source.width, tl.int64)
        while (right > 0) & (width == 0):
            width = _last_column(plane, source.width, height, right, BLOCK)
            right -= _COLUMNS
        return width, height


@triton.jit
def _last_column(plane, stride, height, right, BLOCK: tl.constexpr):
    """Return the last column with an open pixel, plus 1, of the few columns before ``right``; 0 if there is none."""
    rows: tl.constexpr = BLOCK // _COLUMNS
    cols = right - 1 - tl.arange(0, _COLUMNS)
    width = tl.cast(0, tl.int64)
    top = tl.cast(0, tl.int64)
    while (top < height) & (width < right):
        row = top + tl.arange(0, rows)
        there = (row < height)[:, None] & (cols >= 0)[None, :]
        is_open = tl.load(plane + row[:, None] * stride + cols[None, :], mask=there, other=1) == 0
        width = tl.maximum(width, tl.max(tl.where(is_open, cols[None, :] + 1, 0)))
        top += rows
    return width


@triton.jit
def fill_axis(
    axis, at, size, num, den, move, extent, flip, radius, num_taps, part, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    """Write one part of the tables of one axis of a layer.

    Own arguments:
        axis: `segpaste.engine.reference.plan.AxisTable`.
        size: of the canvas along the axis.
        num, den, move: the map of the layer.
        extent: of the source along the axis.
        flip: whether the axis is flipped.
        radius: of the image filter in units of ``1 / num``, if that is above 1.
        part: of the PARTS of the axis; each takes every PARTS-th BLOCK of output pixels.
    """
    for first in range(part * BLOCK, size, PARTS * BLOCK):
        pixel = first + tl.arange(0, BLOCK)
        there = pixel < size
        position = (2 * (pixel - move) + 1) * den - num
        nearest = floor_div(position + num, 2 * num)
        outside = (nearest < 0) | (nearest >= extent)
        nearest = tl.where(flip, extent - 1 - nearest, nearest)
        tl.store(axis.nearest + at * size + pixel, tl.where(outside, -1, nearest).to(tl.int32), mask=there)
        to = at * num_taps * size + pixel
        _fill_taps(axis.filter_idx, axis.filter_weight, to, there, size, position, num, radius, extent, flip, num_taps)
        if axis.linear_idx is not None:
            to = at * 2 * size + pixel
            _fill_taps(axis.linear_idx, axis.linear_weight, to, there, size, position, num, num, extent, flip, 2)


@triton.jit
def _fill_taps(indices, weights, to, there, size, position, num, radius, extent, flip, num_taps):
    """Write the taps of a triangle filter; a tap without weight reads the pixel of the largest weight."""
    reach = 2 * tl.maximum(num, radius)
    first = floor_div(position - reach, 2 * num) + 1
    start = 2 * num * first - position
    total = tl.zeros_like(position)
    for t in range(num_taps):
        total += _raw_weight(start, reach, num, t)
    upto, largest, used = tl.zeros_like(position), tl.zeros_like(position), first
    so_far = tl.zeros_like(position)
    for t in range(num_taps):
        so_far += _raw_weight(start, reach, num, t)
        weight = so_far * _WEIGHT_ONE // total - upto
        upto += weight
        used = tl.where(weight > largest, first + t, used)
        largest = tl.maximum(largest, weight)
        tl.store(weights + to + t * size, weight.to(tl.int32), mask=there)
    upto, so_far = tl.zeros_like(position), tl.zeros_like(position)
    for t in range(num_taps):
        so_far += _raw_weight(start, reach, num, t)
        weight = so_far * _WEIGHT_ONE // total - upto
        upto += weight
        index = tl.where(weight == 0, used, first + t)
        index = tl.minimum(tl.maximum(index, 0), tl.maximum(extent - 1, 0))
        index = tl.maximum(tl.where(flip, extent - 1 - index, index), 0)
        tl.store(indices + to + t * size, index.to(tl.int32), mask=there)


@triton.jit
def _raw_weight(start, reach, num, t):
    distance = start + 2 * num * t
    return tl.maximum(reach - tl.maximum(distance, -distance), 0)


@triton.jit
def tables(
    target,
    source,
    plan,
    maps,
    mix,
    x_axis,
    y_axis,
    labels,
    cameras,
    work,
    ignore_index,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the tables of one part of a layer, or those of a row, and a share of the row's zeros.

    Own arguments:
        maps: `segpaste.engine.triton.visibility.settling.MapArguments`.
        x_axis, y_axis: `segpaste.engine.reference.plan.AxisTable`.
        labels: `segpaste.engine.triton.visibility.settling.LabelArguments`.
        cameras: `segpaste.engine.triton.visibility.settling.CameraArguments`.
        ignore_index: semantic class of pastes that are no things.
        PARTS: programs that share a layer.
        BLOCK: pixels of an axis, slots, or zeros that a program takes at once.
    """
    num_shares = plan.num_layers * PARTS + 1
    b, share = (tl.program_id(0) // num_shares).to(tl.int64), tl.program_id(0) % num_shares
    words = work.words + b * work.size
    for first in range(share * BLOCK, work.zeroed, num_shares * BLOCK):
        word = first + tl.arange(0, BLOCK)
        tl.store(words + word, tl.zeros([BLOCK], tl.int32), mask=word < work.zeroed)
    if share == num_shares - 1:
        for first in range(0, target.num_slots, BLOCK):
            slot = first + tl.arange(0, BLOCK)
            there, slot = slot < target.num_slots, b * target.num_slots + slot
            for i in tl.static_range(4):
                edge = _whole_edge(target.boxes + slot * 4 + i, there, i >= 2)
                limit = target.height if i % 2 else target.width
                tl.store(plan.target_box + slot * 4 + i, tl.minimum(tl.maximum(edge, 0), limit), mask=there)
    else:
        j, part = share // PARTS, share % PARTS
        at = b * plan.num_layers + j
        row = tl.load(plan.source_idx + at)
        hflip, vflip = tl.load(plan.hflip + at) != 0, tl.load(plan.vflip + at) != 0
        swap_axes = tl.load(plan.swap_axes + at) != 0
        valid_width, valid_height = valid_extent(source, row, BLOCK)
        width = tl.where(swap_axes, valid_height, valid_width)
        height = tl.where(swap_axes, valid_width, valid_height)
        x_num, y_num = tl.load(maps.scale_num + at * 2), tl.load(maps.scale_num + at * 2 + 1)
        x_den, y_den = tl.load(maps.scale_den + at * 2), tl.load(maps.scale_den + at * 2 + 1)
        x_move, y_move = tl.load(maps.translate + at * 2), tl.load(maps.translate + at * 2 + 1)
        taps = tl.cast(plan.num_taps, tl.int32)
        x_radius, y_radius = tl.where(taps == 2, x_num, x_den), tl.where(taps == 2, y_num, y_den)
        fill_axis(x_axis, at, target.width, x_num, x_den, x_move, width, hflip, x_radius, taps, part, PARTS, BLOCK)
        fill_axis(y_axis, at, target.height, y_num, y_den, y_move, height, vflip, y_radius, taps, part, PARTS, BLOCK)
        if part == 0:
            left, top = tl.cast(target.width, tl.int64), tl.cast(target.height, tl.int64)
            right, lower = tl.cast(0, tl.int64), tl.cast(0, tl.int64)
            for first in range(0, plan.num_slots, BLOCK):
                slot = first + tl.arange(0, BLOCK)
                there, slots = slot < plan.num_slots, at * plan.num_slots + slot
                x1, y1, x2, y2 = _source_box(source, plan, row, slot, valid_width, valid_height)
                x1, y1, x2, y2 = _swapped(swap_axes, x1, y1, x2, y2)
                x1, x2 = tl.where(hflip, width - x2, x1), tl.where(hflip, width - x1, x2)
                y1, y2 = tl.where(vflip, height - y2, y1), tl.where(vflip, height - y1, y2)
                x1, x2 = (
                    _placed(x1, x_num, x_den, x_move, target.width),
                    _placed(x2, x_num, x_den, x_move, target.width),
                )
                y1, y2 = (
                    _placed(y1, y_num, y_den, y_move, target.height),
                    _placed(y2, y_num, y_den, y_move, target.height),
                )
                tl.store(plan.paste_box + slots * 4, x1, mask=there)
                tl.store(plan.paste_box + slots * 4 + 1, y1, mask=there)
                tl.store(plan.paste_box + slots * 4 + 2, x2, mask=there)
                tl.store(plan.paste_box + slots * 4 + 3, y2, mask=there)
                drawn = tl.load(maps.drawn + slots, mask=there, other=0)
                tl.store(plan.carried + slots, drawn, mask=there)
                reaches = (drawn != 0) & (x1 < x2) & (y1 < y2)
                left = tl.minimum(left, tl.min(tl.where(reaches, x1, target.width)))
                top = tl.minimum(top, tl.min(tl.where(reaches, y1, target.height)))
                right = tl.maximum(right, tl.max(tl.where(reaches, x2, 0)))
                lower = tl.maximum(lower, tl.max(tl.where(reaches, y2, 0)))
                _write_labels(plan, labels, mix, source, row, at, slot, slots, there, words, work, ignore_index)
            box = words + work.layer_box + j * 4
            tl.store(box, left.to(tl.int32))
            tl.store(box + 1, top.to(tl.int32))
            tl.store(box + 2, right.to(tl.int32))
            tl.store(box + 3, lower.to(tl.int32))
            tl.store(plan.depth_scale + at, _depth_scale(cameras, b, row, x_num, y_num, x_den, y_den))


@triton.jit
def _whole_edge(edges, there, UP: tl.constexpr):
    """Return the edges of boxes in whole pixels, rounded down or up; NaN becomes the smallest value."""
    edge = tl.load(edges, mask=there, other=0.0)
    edge = tl.where(edge == edge, edge, -_FARTHEST)
    edge = tl.minimum(tl.maximum(edge, -_FARTHEST), _FARTHEST)
    whole = edge.to(tl.int64)  # towards zero; `tl.floor` may take the smallest numbers for zero
    if UP:
        whole += whole.to(tl.float32) < edge
    else:
        whole -= whole.to(tl.float32) > edge
    return whole


@triton.jit
def _source_box(source, plan, row, slot, width, height):
    """Return the boxes of the slots of a source row in whole pixels; the box of a fragment is the whole image."""
    box, there = source.boxes + (row * source.num_slots + slot) * 4, slot < source.num_slots
    x1, y1 = _whole_edge(box, there, False), _whole_edge(box + 1, there, False)
    x2, y2 = _whole_edge(box + 2, there, True), _whole_edge(box + 3, there, True)
    if plan.num_slots > source.num_slots:
        x2, y2 = tl.where(there, x2, width), tl.where(there, y2, height)
    return x1, y1, x2, y2


@triton.jit
def _swapped(swap_axes, x1, y1, x2, y2):
    """Return boxes with x and y exchanged where ``swap_axes``."""
    left, right = tl.where(swap_axes, y1, x1), tl.where(swap_axes, y2, x2)
    return left, tl.where(swap_axes, x1, y1), right, tl.where(swap_axes, x2, y2)


@triton.jit
def _placed(edge, num, den, move, limit):
    """Return the position of an edge of the source on the canvas."""
    edge = move - floor_div(den - 2 * num * edge, 2 * den)
    return tl.minimum(tl.maximum(edge, 0), limit)


@triton.jit
def _write_labels(plan, labels, mix, source, row, at, slot, slots, there, words, work, ignore_index):
    """Write the labels of a layer's slots, their classes on a semantic map, and the instances that ClassMix wants."""
    is_object = slot < source.num_slots
    label = tl.load(source.labels + row * source.num_slots + slot, mask=is_object, other=0)
    tl.store(labels.of_slot + slots, label, mask=there)
    known = there & (label >= 0) & (label < labels.num_things)
    is_thing = known & False
    if labels.is_thing is not None:
        is_thing = tl.load(labels.is_thing + label, mask=known, other=0) != 0
    tl.store(labels.paste_class + slots, tl.where(is_thing, label, ignore_index), mask=there)
    if mix.classes is not None:
        known = is_object & (label >= 0) & (label < mix.num_classes)
        wanted = tl.load(mix.classes + at * mix.num_classes + label, mask=known, other=0) != 0
        wanted &= tl.load(mix.eligible + row * source.num_slots + slot, mask=is_object, other=0) != 0
        first = at % plan.num_layers * plan.num_slots
        tl.store(words + work.wanted + first + slot, wanted.to(tl.int32), mask=there)


@triton.jit
def _depth_scale(cameras, b, row, x_num, y_num, x_den, y_den):
    """Return the factor on a layer's depth; see `segpaste.engine.reference.stages.depth_scale`."""
    factor = tl.cast(1.0, tl.float32)
    if cameras.target is not None:
        factor = (_focal_length(cameras.target + b * 4) / _focal_length(cameras.source + row * 4)).to(tl.float32)
    if cameras.perspective != 0:
        size = x_num.to(tl.float64) * y_num.to(tl.float64)
        factor *= _root((x_den.to(tl.float64) * y_den.to(tl.float64) / size).to(tl.float32))
    return factor


@triton.jit
def _focal_length(camera):
    return _root(tl.load(camera)).to(tl.float64) * _root(tl.load(camera + 1)).to(tl.float64)


@triton.jit
def _root(value):
    return tl.sqrt(value.to(tl.float64)).to(tl.float32)
