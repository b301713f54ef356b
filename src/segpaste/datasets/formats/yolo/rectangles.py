"""Minimum-area rectangle around the pixels of a mask, for labels of oriented boxes.

A minimum-area rectangle around points has a side along an edge of their convex hull (H. Freeman, R. Shapira,
"Determining the minimum-area encasing rectangle for an arbitrary closed curve", 1975), so each edge is tried.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_TOLERANCE_PX = 0.5
_TOLERANCE_COSINE = 0.02
"""Deviations of a rectangle whose corners were rounded to pixels."""


def least_rectangle(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the corners of the minimum-area rectangle around a mask that lies in the image.

    Trainers reject coordinates outside of the image, so rotated rectangles that extend beyond it are not used; the
    upright one always lies in it.

    Args:
        mask: [H, W] bool, with at least one pixel.

    Returns:
        [4, 2]: x and y in pixel edges, in order around the rectangle.
    """
    hull = convex_hull(_corners(mask))
    edges = np.roll(hull, -1, 0) - hull
    directions = np.concatenate([[[1.0, 0.0]], edges / np.sqrt(np.square(edges).sum(1))[:, None]])
    best, least = None, np.inf
    for x, y in directions:
        turn = np.array([[x, y], [-y, x]])
        turned = hull @ turn.T
        (left, top), (right, bottom) = turned.min(0), turned.max(0)
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)]) @ turn
        area = (right - left) * (bottom - top)
        if area < least - 1e-9 and _is_inside(corners, mask.shape):
            best, least = corners, area
    assert best is not None
    inside: NDArray[np.float64] = best.clip(0, (mask.shape[1], mask.shape[0]))
    return inside


def given_corners(segmentation: object, size: tuple[int, ...]) -> NDArray[np.float64] | None:
    """Return the corners of a segmentation of COCO that is one rectangle within (H, W), [4, 2]; None for others."""
    if not isinstance(segmentation, list) or len(segmentation) != 1 or len(segmentation[0]) != 8:
        return None
    corners = np.array(segmentation[0], np.float64).reshape(4, 2)
    first, second = corners[1] - corners[0], corners[3] - corners[0]
    is_closed = np.abs(corners[0] + first + second - corners[2]).max() <= _TOLERANCE_PX
    sides = math.sqrt(float(first @ first) * float(second @ second))
    is_right = sides > 0 and abs(float(first @ second)) <= _TOLERANCE_COSINE * sides
    return corners if is_closed and is_right and _is_inside(corners, size) else None


def is_rectangle(mask: NDArray[np.bool_]) -> bool:
    """Return whether a mask is all pixels of an upright box."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return bool(rows.size) and bool(mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1].all())


def convex_hull(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of the convex hull of points [P, 2], in order around it (Andrew's monotone chain)."""
    ordered = np.unique(points, axis=0).tolist()
    halves = []
    for side in (ordered, ordered[::-1]):
        chain: list[list[float]] = []
        for point in side:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        halves.append(chain[:-1])
    return np.array(halves[0] + halves[1])


def _corners(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the corners of the first and the last pixel of each row; they include those of the hull."""
    rows = np.flatnonzero(mask.any(1))
    first = mask[rows].argmax(1)
    last = mask.shape[1] - mask[rows][:, ::-1].argmax(1)
    points = [(x, y + dy) for xs in (first, last) for x, y in zip(xs, rows, strict=True) for dy in (0, 1)]
    return np.array(points, np.float64)


def _turn(a: list[float], b: list[float], c: list[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _is_inside(corners: NDArray[np.float64], size: tuple[int, ...]) -> bool:
    return bool((corners >= -1e-6).all() and (corners <= (size[1] + 1e-6, size[0] + 1e-6)).all())
