"""Colours of a layer, filtered strip by strip, compiled by Numba: down the columns first, then along the row."""

from __future__ import annotations

import numba
import numpy as np
from numba.extending import overload

from segpaste.kernels._cpu_compile import compiled
from segpaste.types import sampling

_BITS = 2 * sampling.WEIGHT_BITS
_HALF = np.int32(1 << (_BITS - 1))
_STEP = np.float32(2.0**-_BITS)


@compiled
def read_colours(b, j, picture, plan, box, strips, colours, at, lines):
    """The filtered image under some strips of a box.

    Args:
        b: the target's row.
        j: the layer.
        picture: [C, H_s, W_s], the source's image.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        box: what encloses the strips.
        strips: as in `segpaste.kernels._cpu_arrays.Stage`.
        colours: likewise, written.
        at: pixels of earlier strips.
        lines: [2, C, W] int32 or float32, room to work in.
    """
    x_idx, x_weight = plan.x_filter_idx[b, j], plan.x_filter_weight[b, j]
    y_idx, y_weight = plan.y_filter_idx[b, j], plan.y_filter_weight[b, j]
    num_channels = np.uint64(picture.shape[0])
    num_taps, num_y_taps = _num_used(x_weight, box[0], box[2]), np.uint64(y_idx.shape[0])
    to, none = num_channels * np.uint64(at), lines.dtype.type(0)
    for n in range(len(strips)):
        y, first, end = np.uint64(strips[n, 0]), np.uint64(strips[n, 1]), np.uint64(strips[n, 2])
        size = end - first
        low, high = np.uint64(lines.shape[2]), np.uint64(0)
        for t in range(num_taps):  # indices rise, or fall, along the row
            at_first, at_last = np.uint64(x_idx[t, first]), np.uint64(x_idx[t, end - np.uint64(1)])
            low, high = min(low, at_first, at_last), max(high, at_first + np.uint64(1), at_last + np.uint64(1))
        is_first = True
        t = np.uint64(0)
        while t < num_y_taps:
            weight, row = lines.dtype.type(y_weight[t, y]), np.uint64(y_idx[t, y])
            t += np.uint64(1)
            if weight == 0:
                continue  # its row is not read, it may hold NaN
            if is_first and t < num_y_taps and y_weight[t, y] != 0:
                other, next_row = lines.dtype.type(y_weight[t, y]), np.uint64(y_idx[t, y])
                t += np.uint64(1)
                for c in range(num_channels):
                    for x in range(low, high):
                        lines[0, c, x] = picture[c, row, x] * weight + picture[c, next_row, x] * other
            else:
                for c in range(num_channels):
                    for x in range(low, high):
                        part = picture[c, row, x] * weight
                        lines[0, c, x] = part if is_first else lines[0, c, x] + part
            is_first = False
        done = np.uint64(0)
        if num_channels == 3 and num_taps > 1:  # all that an enlarged source needs: its look-ups are shared
            done = np.uint64(2)
            for x in range(first, end):
                weight, column = lines.dtype.type(x_weight[0, x]), np.uint64(x_idx[0, x])
                other, next_column = lines.dtype.type(x_weight[1, x]), np.uint64(x_idx[1, x])
                red, next_red = lines[0, 0, column], lines[0, 0, next_column]
                green, next_green = lines[0, 1, column], lines[0, 1, next_column]
                blue, next_blue = lines[0, 2, column], lines[0, 2, next_column]
                if other == 0:  # infinite colours times nothing would be no number
                    next_red, next_green, next_blue = none, none, none
                if weight == 0:
                    red, green, blue = none, none, none
                lines[1, 0, x] = red * weight + next_red * other
                lines[1, 1, x] = green * weight + next_green * other
                lines[1, 2, x] = blue * weight + next_blue * other
        for t in range(done, num_taps):
            for c in range(num_channels):
                for x in range(first, end):
                    weight, value = lines.dtype.type(x_weight[t, x]), lines[0, c, np.uint64(x_idx[t, x])]
                    part = value * weight if weight != 0 else none
                    lines[1, c, x] = part if t == 0 else lines[1, c, x] + part
        for c in range(num_channels):
            for i in range(size):
                colours[to + i] = _finished(lines[1, c, first + i])
            to += size


@compiled
def _num_used(weights, first, end):
    """How many taps [T, W] are needed in columns first to end - 1, at least 1."""
    for t in range(weights.shape[0] - 1, 0, -1):
        for x in range(first, end):
            if weights[t, x] != 0:
                return np.uint64(t + 1)
    return np.uint64(1)


def _finished(total):
    """The colour of a sum whose weights add up to 2 ** 22: rounded half up if it is an integer."""
    raise NotImplementedError  # Numba takes one of those below


@overload(_finished)
def _finished_of(total):
    if isinstance(total, numba.types.Integer):
        return lambda total: (total + _HALF) >> _BITS
    return lambda total: total * _STEP
