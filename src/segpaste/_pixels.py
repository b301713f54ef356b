"""Sizes, boxes and masks in whole pixels, in a module that does not import torch, so that checking a dataset is fast.

A box touches a pixel if it covers any part of it, so it is rounded outwards: x1 and y1 down, x2 and y2 up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int]

IGNORE_INDEX = 255
"""Semantic class of pixels without a label."""

FARTHEST_EDGE = 1 << 30
"""Limit to which box edges are clamped, in pixels, so that scaling cannot overflow."""


def outward_box(box: Sequence[float], size: Size | None = None) -> tuple[int, int, int, int]:
    """Round one xyxy box outwards to whole pixels, and clip it to an image of ``size`` (H, W) if that is given.

    Edges that are NaN or too far are those of `segpaste.types.sampling.outward_boxes`.
    """
    low_x, low_y, high_x, high_y = map(_near, box)
    x1, y1, x2, y2 = math.floor(low_x), math.floor(low_y), math.ceil(high_x), math.ceil(high_y)
    if size is None:
        return x1, y1, x2, y2
    height, width = size
    x1, y1 = (min(max(edge, 0), side) for edge, side in ((x1, width), (y1, height)))
    return x1, y1, min(max(x2, x1), width), min(max(y2, y1), height)


def _near(edge: float) -> float:
    return -FARTHEST_EDGE if math.isnan(edge) else min(max(edge, -FARTHEST_EDGE), FARTHEST_EDGE)


def mask_box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int] | None:
    """Return the box (x1, y1, x2, y2) around the pixels of a mask [H, W]; None without a pixel."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return (int(cols[0]), int(rows[0]), int(cols[-1]) + 1, int(rows[-1]) + 1) if rows.size else None


def write_mask(mask: NDArray[np.bool_], zeros: NDArray[np.bool_]) -> bool:
    """Write a mask [H, W] into zeros of that shape, and return whether it has a pixel.

    Only the mask's box is written, because untouched zeros take no memory.
    """
    if (box := mask_box(mask)) is None:
        return False
    inside = slice(box[1], box[3]), slice(box[0], box[2])
    zeros[inside] = mask[inside]
    return True


def sides_of(name: str, value: Any) -> Size:
    """Return a size as (height, width); one integer is both sides of a square.

    Raises:
        ValueError: it is not a size of at least one pixel.
    """
    sides = (value, value) if isinstance(value, Integral) else value
    is_pair = isinstance(sides, Sequence) and not isinstance(sides, str) and len(sides) == 2
    if not is_pair or not all(isinstance(s, Integral) and not isinstance(s, bool) and int(s) > 0 for s in sides):
        raise ValueError(f"{name}: expected (height, width) in pixels, or one integer for a square, got {value!r:.80}")
    return int(sides[0]), int(sides[1])


def range_of(name: str, value: Any) -> tuple[float, float]:
    """Return a range of positive finite numbers as (low, high).

    Raises:
        ValueError: it is none.
    """
    is_pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if not is_pair or not all(isinstance(end, Real) for end in value) or not 0 < value[0] <= value[1] < float("inf"):
        raise ValueError(f"{name}: expected (low, high), two numbers with 0 < low <= high, got {value!r:.80}")
    return value[0], value[1]
