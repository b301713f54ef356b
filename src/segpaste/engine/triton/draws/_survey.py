"""Kernels of the survey: `segpaste.engine.reference.inputs.survey`."""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._numbers import is_known
from segpaste.types import sampling

_FARTHEST_EDGE = tl.constexpr(float(sampling.FARTHEST_EDGE))


@triton.jit
def find_pixels(
    corners,
    found,
    padding,
    semantic,
    height,
    width,
    num_strips,
    strip_size,
    num_classes,
    ignore_index,
    PIXELS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Find the end of the image and the classes in one strip of a plane.

    Own arguments:
        corners: [B, num_strips, 2] int32, one past the last column and row with a pixel that is no padding; not written
            without ``padding``.
        found: [B, num_strips, num_classes] bytes, classes with a pixel; None if they are not asked for.
        padding, semantic: planes; None if absent, or not asked for.
        strip_size: pixels of a strip, in row-major order.
    """
    strip = tl.program_id(0)
    plane = (strip // num_strips).to(tl.int64) * height * width
    found_here = found
    if semantic is not None:
        found_here += strip.to(tl.int64) * num_classes
        for first in range(0, num_classes, CLASSES):
            classes = first + tl.arange(0, CLASSES)
            tl.store(found_here + classes, 0, mask=classes < num_classes)
        tl.debug_barrier()  # another thread may set what this one clears
    right = tl.zeros([PIXELS], tl.int32)
    bottom = tl.zeros([PIXELS], tl.int32)
    start = strip % num_strips * strip_size
    end = tl.minimum(start + strip_size, height * width)
    for first in range(start, end, PIXELS):
        at = first + tl.arange(0, PIXELS)
        shown = at < end
        if padding is not None:
            shown &= tl.load(padding + plane + at, mask=shown, other=1) == 0
            right = tl.maximum(right, tl.where(shown, at % width + 1, 0).to(tl.int32))
            bottom = tl.maximum(bottom, tl.where(shown, at // width + 1, 0).to(tl.int32))
        if semantic is not None:
            label = tl.load(semantic + plane + at, mask=shown, other=-1)
            counts = (label >= 0) & (label < num_classes) & (label != ignore_index)
            tl.store(found_here + label, 1, mask=counts)
    if padding is not None:
        tl.store(corners + strip * 2, tl.max(right))
        tl.store(corners + strip * 2 + 1, tl.max(bottom))


@triton.jit
def survey_rows(
    eligible,
    occupied,
    num_free,
    extent,
    present,
    has_present,
    boxes,
    labels,
    valid,
    is_thing,
    is_stuff,
    corners,
    found,
    num_slots,
    height,
    width,
    num_strips,
    num_things,
    num_classes,
    WHOLE_ONLY: tl.constexpr,
    SLOTS: tl.constexpr,
    STRIPS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Survey one row of a batch.

    Own arguments:
        eligible, occupied, num_free, extent, present, has_present: `segpaste.engine.schema.Survey`, bools as bytes.
        boxes, labels, valid: fields of the batch.
        is_thing, is_stuff: `segpaste.engine.schema.Classes`, [num_things] bytes, or None.
        corners, found: what `find_pixels` wrote, or None.
    """
    b = tl.program_id(0).to(tl.int64)
    right, bottom = _extent(corners, b, height, width, num_strips, STRIPS)
    tl.store(extent + b * 2, right)
    tl.store(extent + b * 2 + 1, bottom)
    free = tl.zeros([SLOTS], tl.int32)
    for first in range(0, num_slots, SLOTS):
        slots = first + tl.arange(0, SLOTS)
        asked = slots < num_slots
        at = b * num_slots + slots
        is_valid = tl.load(valid + at, mask=asked, other=1) != 0
        free += (~is_valid).to(tl.int32)
        x1 = tl.load(boxes + at * 4, mask=asked, other=0)
        y1 = tl.load(boxes + at * 4 + 1, mask=asked, other=0)
        x2 = tl.load(boxes + at * 4 + 2, mask=asked, other=0)
        y2 = tl.load(boxes + at * 4 + 3, mask=asked, other=0)
        usable = asked & is_valid & (x2 > x1) & (y2 > y1)
        left, top, end_x, end_y = _floor(x1), _floor(y1), _ceil(x2), _ceil(y2)
        if is_thing is not None:
            usable &= is_known(is_thing, tl.load(labels + at, mask=asked, other=-1), asked, num_things)
        if WHOLE_ONLY:
            usable &= (left > 0) & (top > 0) & (end_x < right) & (end_y < bottom)
        tl.store(eligible + at, usable.to(tl.uint8), mask=asked)
        tl.store(occupied + at * 4, left, mask=asked)
        tl.store(occupied + at * 4 + 1, top, mask=asked)
        tl.store(occupied + at * 4 + 2, end_x, mask=asked)
        tl.store(occupied + at * 4 + 3, end_y, mask=asked)
    tl.store(num_free + b, tl.sum(free).to(tl.int64))
    if present is not None:
        has_any = _merge_classes(present, found, is_thing, is_stuff, b, num_classes, num_strips, STRIPS, CLASSES)
        tl.store(has_present + b, has_any.to(tl.uint8))


@triton.jit
def _near(edge):
    """Clamp an edge to the largest magnitude that is used; NaN becomes the smallest value."""
    edge = tl.where(edge == edge, edge, -_FARTHEST_EDGE)
    return tl.where(edge < -_FARTHEST_EDGE, -_FARTHEST_EDGE, tl.where(edge > _FARTHEST_EDGE, _FARTHEST_EDGE, edge))


@triton.jit
def _floor(edge):
    """Round an edge down, int64. The device's own instruction takes the smallest negative numbers for 0."""
    whole = _near(edge).to(tl.int64)
    return whole - (whole.to(tl.float32) > _near(edge)).to(tl.int64)


@triton.jit
def _ceil(edge):
    """Round an edge up, int64."""
    whole = _near(edge).to(tl.int64)
    return whole + (whole.to(tl.float32) < _near(edge)).to(tl.int64)


@triton.jit
def _extent(corners, b, height, width, num_strips, STRIPS: tl.constexpr):
    """Return the width and the height of an image without padding, int64."""
    if corners is None:
        right = tl.cast(width, tl.int64)
        bottom = tl.cast(height, tl.int64)
    else:
        strips = tl.arange(0, STRIPS)
        corner = corners + (b * num_strips + strips) * 2
        right = tl.max(tl.load(corner, mask=strips < num_strips, other=0)).to(tl.int64)
        bottom = tl.max(tl.load(corner + 1, mask=strips < num_strips, other=0)).to(tl.int64)
    return right, bottom


@triton.jit
def _merge_classes(
    present, found, is_thing, is_stuff, b, num_classes, num_strips, STRIPS: tl.constexpr, CLASSES: tl.constexpr
):
    """Write the classes of an image, and return whether it has any."""
    strips = tl.arange(0, STRIPS)
    has_any = tl.cast(0, tl.int32)
    for first in range(0, num_classes, CLASSES):
        classes = first + tl.arange(0, CLASSES)
        asked = classes < num_classes
        at = (b * num_strips + strips)[:, None] * num_classes + classes[None, :]
        seen = tl.load(found + at, mask=(strips < num_strips)[:, None] & asked[None, :], other=0)
        known = tl.max(seen.to(tl.int32), axis=0) != 0
        if is_thing is not None and is_stuff is not None:
            kinds = tl.load(is_thing + classes, mask=asked, other=0) | tl.load(is_stuff + classes, mask=asked, other=0)
            known &= kinds != 0
        tl.store(present + b * num_classes + classes, known.to(tl.uint8), mask=asked)
        has_any = tl.maximum(has_any, tl.max(tl.where(asked, known, False).to(tl.int32)))
    return has_any
