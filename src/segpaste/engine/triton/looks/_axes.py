"""Look-up tables of one axis of a layer, and its extent without padding, in Triton.

The arithmetic is that of `segpaste.types.sampling` and `segpaste.engine.reference.geometry`, in 64-bit integers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.types import sampling

_WEIGHT_ONE = tl.constexpr(sampling.WEIGHT_ONE)
_COLUMNS = tl.constexpr(32)


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
    axis, at, size, num, den, move, extent, hflip, radius, num_taps, part, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    """Write one part of the tables of one axis of a layer.

    Own arguments:
        axis: `segpaste.engine.reference.plan.AxisTable`.
        size: of the canvas along the axis.
        num, den, move: the map of the layer.
        extent: of the source along the axis.
        hflip: whether the axis is flipped.
        radius: of the image filter in units of ``1 / num``, if that is above 1.
        part: of the PARTS of the axis; each takes every PARTS-th BLOCK of output pixels.
    """
    for first in range(part * BLOCK, size, PARTS * BLOCK):
        pixel = first + tl.arange(0, BLOCK)
        there = pixel < size
        position = (2 * (pixel - move) + 1) * den - num
        nearest = floor_div(position + num, 2 * num)
        outside = (nearest < 0) | (nearest >= extent)
        nearest = tl.where(hflip, extent - 1 - nearest, nearest)
        tl.store(axis.nearest + at * size + pixel, tl.where(outside, -1, nearest).to(tl.int32), mask=there)
        to = at * num_taps * size + pixel
        _fill_taps(axis.filter_idx, axis.filter_weight, to, there, size, position, num, radius, extent, hflip, num_taps)
        if axis.linear_idx is not None:
            to = at * 2 * size + pixel
            _fill_taps(axis.linear_idx, axis.linear_weight, to, there, size, position, num, num, extent, hflip, 2)


@triton.jit
def _fill_taps(indices, weights, to, there, size, position, num, radius, extent, hflip, num_taps):
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
        index = tl.maximum(tl.where(hflip, extent - 1 - index, index), 0)
        tl.store(indices + to + t * size, index.to(tl.int32), mask=there)


@triton.jit
def _raw_weight(start, reach, num, t):
    distance = start + 2 * num * t
    return tl.maximum(reach - tl.maximum(distance, -distance), 0)
