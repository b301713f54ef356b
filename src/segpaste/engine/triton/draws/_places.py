"""Draws of the scale, the objects and the place of one layer in Triton: `segpaste.engine.reference.draws._places`.

Common arguments of these functions, in addition to those of `segpaste.engine.triton.draws._layers`:
    rules: `segpaste.engine.schema.DrawRules`, with flags that are known when a kernel is compiled.
    targets, tables: records of tensors.
    seed, b, layer: seed and index of the target, and index of the layer, int64.
    around: (x1, y1, x2, y2) of the rectangle around the chosen boxes, int64.
    is_empty: whether nothing is chosen.
    places: (x, y) of the translations that are tried, int64.
    objects: see `Objects` of the reference, for a block of slots: whether they are chosen, x1, y1, x2, y2 after the
        scale, which of these sides are cut, and the index of their region.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine import schema
from segpaste.engine.triton._numbers import (
    SCALE,
    SIZE,
    STRATUM,
    TRANSLATE,
    bits_62,
    clamped,
    floor_div,
    indexed,
    keyed,
    upper_32,
    within,
)

_SCALE_DEN = tl.constexpr(schema.SCALE_DEN)
_LARGEST_NUM = tl.constexpr(schema.LARGEST_NUM)
_SIZE_DEN = tl.constexpr(schema.SIZE_DEN)
_GRID_TRIES = tl.constexpr(schema.GRID_TRIES)

_LONGEST_SIDE = tl.constexpr(1 << 20)
COVER_ONE = tl.constexpr(1 << 22)
FAR = tl.constexpr(1 << 44)


@triton.jit
def scaled_edge(edge, num, den):
    """Return the first output pixel whose centre maps to an edge or beyond it."""
    return -floor_div(den - 2 * num * edge, 2 * den)


@triton.jit
def draw_scale(rules, targets, tables, sizes, shrunk, seed, b, layer, around, is_empty, box, label):
    """Return the numerators of x and y, and their denominators, int64.

    Own arguments:
        sizes: `segpaste.engine.triton.draws.draw.SizeArguments`.
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


@triton.jit
def side(first, end):
    """Return the length from ``first`` to ``end``, at least 0, at most the longest that counts."""
    return clamped(end - first, 0, _LONGEST_SIDE)


@triton.jit
def kept_place(first, end, scaled_first, scaled_end, is_empty):
    """Return the translation along one axis that keeps the centre of what is scaled."""
    return tl.where(is_empty, 0, (first + end - scaled_first - scaled_end) >> 1)


@triton.jit
def draw_places(rules, seed, layer, attempts, AXIS: tl.constexpr, corner, opposite, size, is_empty):
    """Return the translations of a block of attempts along one axis, int64.

    Own arguments:
        corner, opposite: first and last edge of the rectangle along the axis.
        size: of the image along the axis.
    """
    state = indexed(indexed(indexed(keyed(seed, TRANSLATE), layer), attempts), AXIS)
    low, high = tl.minimum(-corner, size - opposite), tl.maximum(-corner, size - opposite)
    if rules.clips:
        seen_den = tl.cast(rules.seen_den, tl.int64)
        hidden = floor_div(tl.where(is_empty, 0, side(corner, opposite)) * (seen_den - rules.seen_num), seen_den)
        low, high = low - hidden, high + hidden
    fraction = upper_32(state)
    if rules.on_grid or rules.whole_patches:
        phase = corner * 0
        if rules.whole_patches:
            phase = corner
        patch = tl.cast(rules.patch, tl.int64)
        first, last = -floor_div(-low - phase, patch), floor_div(high + phase, patch)
        place = within(_apart(rules, seed, layer, attempts, AXIS, fraction), first, last) * patch - phase
    else:
        place = within(fraction, low, high)
    return place


@triton.jit
def _apart(rules, seed, layer, attempts, AXIS: tl.constexpr, fraction):
    """Spread the layers of an image over equal parts of the axis, in random order."""
    key = keyed(seed, STRATUM)
    own = bits_62(indexed(indexed(indexed(key, layer), attempts), AXIS))
    turn = tl.zeros_like(fraction)
    for i in range(rules.num_layers):
        other = bits_62(indexed(indexed(indexed(key, i), attempts), AXIS))
        turn += ((other < own) | ((other == own) & (layer > i))).to(tl.int64)
    return floor_div((turn << 32) + fraction, tl.cast(rules.num_layers, tl.int64))


@triton.jit
def judge(rules, targets, sizes, b, objects, places, num_others, WITH_OVERLAP: tl.constexpr):
    """Judge a block of slots [N, 1] at places [1, A].

    Own arguments:
        sizes: `segpaste.engine.triton.draws.draw.SizeArguments`.
        num_others: one past the last slot of the target that has a box.

    Returns:
        Which of the chosen objects fit, which of those lie in their region, which of those cover little, [N, A]; how
        much of an instance's box each covers, over `COVER_ONE`; how many pixels it shares with such boxes, int64. The
        last two are 0 where nothing depends on them.
    """
    chosen, x1, y1, x2, y2, cut_x1, cut_y1, cut_x2, cut_y2, region = objects
    width, height = tl.load(targets.extent + 2 * b), tl.load(targets.extent + 2 * b + 1)
    x1, y1, x2, y2 = x1 + places[0], y1 + places[1], x2 + places[0], y2 + places[1]
    fits = (x1 >= 0) & (y1 >= 0) & (x2 <= width) & (y2 <= height)
    if rules.clips:
        seen = side(tl.maximum(x1, 0), tl.minimum(x2, width)) * side(tl.maximum(y1, 0), tl.minimum(y2, height))
        fits |= (seen > 0) & (seen * rules.seen_den >= side(x1, x2) * side(y1, y2) * rules.seen_num)
    fits &= chosen
    if rules.hides_cuts:
        fits &= ((x1 <= 0) | ~cut_x1) & ((y1 <= 0) | ~cut_y1) & ((x2 >= width) | ~cut_x2) & ((y2 >= height) | ~cut_y2)
    inside = fits
    if targets.regions is not None:
        edges = clamped(x1, 0, width), clamped(y1, 0, height), clamped(x2, 0, width), clamped(y2, 0, height)
        inside &= _in_region(rules, targets.regions, sizes, b, edges, fits, region)
    kept, cover, overlap = inside, x1 * 0, x1 * 0
    if WITH_OVERLAP or rules.limits_cover or rules.takes_part:
        boxes = targets.occupied + b * sizes.num_targets * 4
        for i in range(num_others):
            box = boxes + 4 * i
            left, top, right, bottom = tl.load(box), tl.load(box + 1), tl.load(box + 2), tl.load(box + 3)
            across = tl.minimum(x2, right) - tl.maximum(x1, left)
            down = tl.minimum(y2, bottom) - tl.maximum(y1, top)
            if WITH_OVERLAP:
                overlap += tl.maximum(across, 0) * tl.maximum(down, 0)
            if rules.limits_cover or rules.takes_part:
                shared, area = side(0, across) * side(0, down), side(left, right) * side(top, bottom)
                kept &= (shared * rules.cover_den < area * rules.cover_num) | (area == 0)
                if rules.takes_part:
                    cover = tl.maximum(cover, shared * COVER_ONE // tl.maximum(area, 1))
    return fits, inside, kept, cover, overlap


@triton.jit
def _in_region(rules, regions, sizes, b, edges, asked, region):
    """Return whether enough of the part of boxes that is inside the image lies in their regions."""
    x1, y1, x2, y2 = edges
    num_regions, height, width = sizes.num_regions, sizes.region_height, sizes.region_width
    asked = asked & (region < num_regions)
    first = regions + b * num_regions * height * width + tl.minimum(region, num_regions - 1) * height * width
    above, below = first + y1 * width, first + y2 * width
    inside = tl.load(below + x2, mask=asked, other=0).to(tl.int64) - tl.load(above + x2, mask=asked, other=0)
    inside += tl.load(above + x1, mask=asked, other=0).to(tl.int64) - tl.load(below + x1, mask=asked, other=0)
    area = (x2 - x1) * (y2 - y1)
    return (inside * rules.region_den >= area * rules.region_num) | (region >= num_regions)


@triton.jit
def chosen_slots(drawn, sizes, layer, slots):
    """Return which of a block of slots are marked."""
    at = layer[0] * sizes.num_slots + slots
    return tl.load(drawn.carried + at, mask=slots < sizes.num_slots, other=0) != 0


@triton.jit
def _swapped(swap_axes, x1, y1, x2, y2):
    """Return boxes with x and y exchanged where ``swap_axes``."""
    left, right = tl.where(swap_axes, y1, x1), tl.where(swap_axes, y2, x2)
    return left, tl.where(swap_axes, x1, y1), right, tl.where(swap_axes, x2, y2)


@triton.jit
def _boxes(sources, sizes, layer, slots, asked):
    """Return the boxes of a block of slots, turned and flipped, int64, and which sides lie on the image's border."""
    row, hflip, vflip, swap_axes = layer[1], layer[5], layer[6], layer[7]
    box = sources.boxes + (row * sizes.num_slots + slots) * 4
    x1, y1 = tl.load(box, mask=asked, other=0), tl.load(box + 1, mask=asked, other=0)
    x2, y2 = tl.load(box + 2, mask=asked, other=0), tl.load(box + 3, mask=asked, other=0)
    width, height = tl.load(sources.extent + 2 * row), tl.load(sources.extent + 2 * row + 1)
    x1, y1, x2, y2 = _swapped(swap_axes, x1, y1, x2, y2)
    width, height = tl.where(swap_axes, height, width), tl.where(swap_axes, width, height)
    x1, x2 = tl.where(hflip, width - x2, x1), tl.where(hflip, width - x1, x2)
    y1, y2 = tl.where(vflip, height - y2, y1), tl.where(vflip, height - y1, y2)
    return x1, y1, x2, y2, x1 <= 0, y1 <= 0, x2 >= width, y2 >= height


@triton.jit
def surround(drawn, sources, sizes, layer, span, SLOTS: tl.constexpr):
    """Return the rectangle around the chosen boxes before the scale, and the first chosen slot or the number of all."""
    far = layer[0] * 0 + FAR
    x1, y1, x2, y2, lowest = far, far, -far, -far, layer[0] * 0 + sizes.num_slots
    for first in range(span[0], span[1], SLOTS):
        slots = first + tl.arange(0, SLOTS)
        chosen = chosen_slots(drawn, sizes, layer, slots)
        box = _boxes(sources, sizes, layer, slots, chosen)
        x1 = tl.minimum(x1, tl.min(tl.where(chosen, box[0], far)))
        y1 = tl.minimum(y1, tl.min(tl.where(chosen, box[1], far)))
        x2 = tl.maximum(x2, tl.max(tl.where(chosen, box[2], -far)))
        y2 = tl.maximum(y2, tl.max(tl.where(chosen, box[3], -far)))
        lowest = tl.minimum(lowest, tl.min(tl.where(chosen, slots, sizes.num_slots)))
    return x1, y1, x2, y2, lowest


@triton.jit
def sized_object(sources, rules, sizes, layer, around, slot):
    """Return the box and the label of a slot, if each layer carries one object."""
    box, label = around, slot
    if rules.one_each and sizes.has_slots:
        box, label = (
            _boxes(sources, sizes, layer, slot, slot >= 0),
            tl.load(sources.labels + layer[1] * sizes.num_slots + slot),
        )
    return box, label


@triton.jit
def num_boxes(boxes, num_slots, OTHERS: tl.constexpr):
    """Return one past the last slot that has a box."""
    num = tl.zeros([OTHERS], tl.int32)
    for first in range(0, num_slots, OTHERS):
        slots = first + tl.arange(0, OTHERS)
        box, asked = boxes + slots * 4, slots < num_slots
        across = tl.load(box + 2, mask=asked, other=0) > tl.load(box, mask=asked, other=0)
        down = tl.load(box + 3, mask=asked, other=0) > tl.load(box + 1, mask=asked, other=0)
        num = tl.maximum(num, tl.where(across & down, slots + 1, 0))
    return tl.max(num)


@triton.jit
def objects_of(drawn, sources, tables, sizes, layer, slots, chosen):
    """Return a block of objects [N, 1] as `segpaste.engine.triton.draws._places.judge` takes them."""
    at = 2 * layer[0]
    num_x, num_y = tl.load(drawn.scale_num + at), tl.load(drawn.scale_num + at + 1)
    den_x, den_y = tl.load(drawn.scale_den + at), tl.load(drawn.scale_den + at + 1)
    x1, y1, x2, y2, on_x1, on_y1, on_x2, on_y2 = _boxes(sources, sizes, layer, slots, chosen)
    label = tl.load(sources.labels + layer[1] * sizes.num_slots + slots, mask=chosen, other=0)
    others = sizes.num_region_classes - 1
    region = tl.load(tables.region_table + tl.where((label < 0) | (label > others), others, label))
    x1, y1 = scaled_edge(x1, num_x, den_x)[:, None], scaled_edge(y1, num_y, den_y)[:, None]
    x2, y2 = scaled_edge(x2, num_x, den_x)[:, None], scaled_edge(y2, num_y, den_y)[:, None]
    cut = on_x1[:, None], on_y1[:, None], on_x2[:, None], on_y2[:, None]
    return chosen[:, None], x1, y1, x2, y2, cut[0], cut[1], cut[2], cut[3], region[:, None]
