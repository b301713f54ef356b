"""Draws of the scale of one layer in Triton: `segpaste.engine.reference.draws._scales`.

Common arguments of these functions:
    rules: `segpaste.engine.schema.DrawRules`, with flags that are known when a kernel is compiled.
    targets, tables: records of tensors.
    seed, b, layer: seed and index of the target, and index of the layer, int64.
    around: (x1, y1, x2, y2) of the rectangle around the chosen boxes, int64.
    is_empty: whether nothing is chosen.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine import schema
from segpaste.engine.triton._numbers import SCALE, SIZE, clamped, floor_div, indexed, keyed, upper_32, within

_SCALE_DEN = tl.constexpr(schema.SCALE_DEN)
_LARGEST_NUM = tl.constexpr(schema.LARGEST_NUM)
_SIZE_DEN = tl.constexpr(schema.SIZE_DEN)
_GRID_TRIES = tl.constexpr(schema.GRID_TRIES)


@triton.jit
def scaled_edge(edge, num, den):
    """Return the first output pixel whose centre maps to an edge or beyond it."""
    return -floor_div(den - 2 * num * edge, 2 * den)


@triton.jit
def draw_scale(rules, targets, tables, sizes, shrunk, seed, b, layer, around, is_empty, box, label):
    """Return the numerators of x and y, and their denominators, int64.

    Own arguments:
        sizes: `segpaste.engine.triton.draws.arguments.SizeArguments`.
        shrunk: divisor of the drawn scale over the denominator of scales, or None.
        box, label: of the first chosen slot, of slot 0 where nothing is chosen; only where each layer has one object.
    """
    width, height = tl.load(targets.extent + 2 * b), tl.load(targets.extent + 2 * b + 1)
    state = indexed(keyed(seed, SCALE), layer)
    if rules.on_grid:
        num_x = _grid_num(rules, state, around, is_empty, width, height)
        num_y = num_x
        den_x = num_x * 0 + rules.scale_den
        den_y = den_x
    else:
        low, high = tl.cast(rules.low_scale, tl.int64), tl.cast(rules.high_scale, tl.int64)
        largest = low * 0 + _LARGEST_NUM
        if rules.fits_scale:
            across = floor_div(width * _SCALE_DEN, tl.maximum(around[2] - around[0], 1))
            down = floor_div(height * _SCALE_DEN, tl.maximum(around[3] - around[1], 1))
            largest = tl.where(is_empty, largest, tl.minimum(tl.minimum(across, down), _LARGEST_NUM))
        if shrunk is None:
            num_x = within(upper_32(state), low, clamped(largest, low, high))
        else:
            before = floor_div(largest * shrunk, tl.cast(_SCALE_DEN, tl.int64))
            num_x = within(upper_32(state), low, clamped(before, low, high))
            num_x = tl.minimum(floor_div(num_x * _SCALE_DEN, shrunk), _LARGEST_NUM)
        den_x = low * 0 + _SCALE_DEN
        den_y = den_x
        if rules.one_each and sizes.has_slots:
            sides = tl.maximum(box[2] - box[0], 1), tl.maximum(box[3] - box[1], 1)
            others = sizes.num_size_classes - 1
            entry = tables.size_table + 2 * tl.where((label < 0) | (label > others), others, label)
            smallest = tl.load(entry)
            size = within(upper_32(indexed(keyed(seed, SIZE), layer)), smallest, tl.load(entry + 1))
            wanted = floor_div(size * _SCALE_DEN, _SIZE_DEN * tl.maximum(sides[0], sides[1]))
            wanted = tl.minimum(tl.maximum(wanted, low), clamped(largest, low, high))
            num_x = tl.where(smallest > 0, wanted, num_x)
        num_y = num_x
        if rules.whole_patches and sizes.has_slots:
            den_x, den_y = sides
            num_x = _whole_patches(rules, num_x, den_x, width)
            num_y = _whole_patches(rules, num_y, den_y, height)
    return num_x, num_y, den_x, den_y


@triton.jit
def _grid_num(rules, state, around, is_empty, width, height):
    """Return the first scale of the canvas grid at which the rectangle fits, else the smallest."""
    tries = tl.arange(0, _GRID_TRIES)
    low, patch = tl.cast(rules.low_scale, tl.int64), tl.cast(rules.patch, tl.int64)
    steps = within(upper_32(indexed(state, tries)), low, tl.cast(rules.high_scale, tl.int64)) * patch
    fits = _has_room(rules, steps, around[0], around[2], width) & _has_room(rules, steps, around[1], around[3], height)
    first = tl.min(tl.where(fits | is_empty, tries, _GRID_TRIES))
    return tl.where(first == _GRID_TRIES, low * patch, tl.sum(tl.where(tries == first, steps, 0)))


@triton.jit
def _has_room(rules, num, corner, opposite, size):
    """Return whether some translation by whole patches keeps what is scaled inside the image along one axis."""
    den, patch = tl.cast(rules.scale_den, tl.int64), tl.cast(rules.patch, tl.int64)
    first = -floor_div(scaled_edge(corner, num, den), patch)
    return first <= floor_div(size - scaled_edge(opposite, num, den), patch)


@triton.jit
def _whole_patches(rules, num, side, size):
    """Return the pixels of the nearest number of whole patches, or of one less if that does not fit."""
    patch = tl.cast(rules.patch, tl.int64)
    half = _SCALE_DEN * patch
    count = tl.maximum(floor_div(2 * side * num + half, 2 * half), 1)
    count = tl.minimum(count, tl.maximum(floor_div(size, patch), count - 1))
    return tl.maximum(count, 1) * patch
