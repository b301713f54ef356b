"""Outlines of masks for YOLO's labels: one closed polygon, or the minimum-area rectangle of an oriented box.

The polygon goes through the midpoints of the pixel edges between mask and background, moved into the mask by 1/20 of a
pixel. pycocotools rasterises it to exactly the same mask. So do rasterisers that truncate coordinates to whole pixels
and draw the outline too, such as OpenCV's ``fillPoly``. Parts and holes are joined by bridges between their nearest
points. The polygon follows a bridge in both directions, so bridges enclose nothing.

A minimum-area rectangle around points has a side along an edge of their convex hull (H. Freeman, R. Shapira,
"Determining the minimum-area encasing rectangle for an arbitrary closed curve", 1975), so each edge is tried.

Not for files that can hold masks as run lengths, such as COCO's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from segpaste._pixels import mask_box

Points = NDArray[np.int64]
STEPS_PER_PX = 20
"""Steps per pixel. Outlines are whole numbers of steps, so that points on one line are found without rounding."""
_MANY_POINTS = 20_000  # more loops are joined without a search for the nearest points, whose time is quadratic
_BLOCK_SIZE = 1 << 20

# For the top, right, bottom and left edge of a pixel, which the outline follows with the mask on its right: the corner
# where the edge starts, the midpoint of the edge in steps, both from the pixel's top left corner, and the way ahead.
_CORNERS = ((0, 0), (1, 0), (1, 1), (0, 1))
_MIDDLES = ((10, 1), (19, 10), (10, 19), (1, 10))
_AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))


def outline(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the outline of a mask.

    Args:
        mask: [H, W] bool.

    Returns:
        [P, 2]: x and y in pixel edges; no point for an empty mask.
    """
    if (box := mask_box(mask)) is None:
        return np.zeros((0, 2))
    x1, y1, x2, y2 = box
    steps = _without_middles(_joined(_loops(mask[y1:y2, x1:x2])))
    return steps / STEPS_PER_PX + (float(x1), float(y1))


def _loops(mask: NDArray[np.bool_]) -> list[Points]:
    """Return the closed outlines of parts and holes, [P, 2] in steps; pixels that touch at a corner are one part."""
    width = mask.shape[1] + 2  # of the rows of pixels, and of corners, in one dimension
    pixels = np.pad(mask, 1).ravel()
    inside = pixels[width:-width]
    beyond = pixels[: -2 * width], pixels[width + 1 : 1 - width], pixels[2 * width :], pixels[width - 1 : -width - 1]
    found = [np.flatnonzero(inside > outside) + width for outside in beyond]
    ends = np.cumsum([0, *map(len, found)])
    edge_at = np.full((4, len(pixels)), -1, np.int32)  # the edge that starts at a corner in a direction
    starts = [at + dx + dy * width for at, (dx, dy) in zip(found, _CORNERS, strict=True)]
    for direction, corners in enumerate(starts):
        edge_at[direction, corners] = np.arange(ends[direction], ends[direction + 1])
    followers = []
    for direction, (corners, (dx, dy)) in enumerate(zip(starts, _AHEAD, strict=True)):
        reached = corners + dx + dy * width
        left, ahead, right = (edge_at[direction - turn, reached] for turn in (1, 0, 3))
        followers.append(np.where(left >= 0, left, np.where(ahead >= 0, ahead, right)))
    rows, columns = np.divmod(np.concatenate(found), width)
    middles = np.stack([columns - 1, rows - 1], 1) * STEPS_PER_PX
    middles += np.repeat(_MIDDLES, np.diff(ends), 0)
    return _cycles(middles, np.concatenate(followers).tolist())


def _cycles(points: Points, followers: list[int]) -> list[Points]:
    """Return the points of each cycle of followers."""
    order, ends = list[int](), list[int]()
    is_seen = bytearray(len(followers))
    for start in range(len(followers)):
        if is_seen[start]:
            continue
        at = start
        while not is_seen[at]:
            is_seen[at] = 1
            order.append(at)
            at = followers[at]
        ends.append(len(order))
    return np.split(points[order], ends[:-1])


def _joined(loops: list[Points]) -> Points:
    """Return one closed line through all loops, which enters and leaves each loop by the same bridge."""
    if len(loops) == 1:
        return loops[0]
    if sum(map(len, loops)) > _MANY_POINTS:
        hub = loops[0][:1]
        return np.concatenate([loops[0], *(part for loop in loops[1:] for part in (hub, loop, loop[:1]))])
    starts = np.cumsum([0, *map(len, loops)])
    points = np.concatenate(loops)
    walk = list(range(starts[1]))
    for loop, own, other in _bridges(loops):
        entry, first, length = int(starts[loop]) + own, int(starts[loop]), len(loops[loop])
        around = [first + (entry - first + i) % length for i in range(length + 1)]
        at = walk.index(other)
        walk[at + 1 : at + 1] = [*around, other]
    return points[walk]


def _bridges(loops: list[Points]) -> list[tuple[int, int, int]]:
    """Return the shortest bridges that join all loops: a loop, its point, and a point of the loops joined before.

    Prim's algorithm. The second point is an index over the points of all loops.
    """
    starts = np.cumsum([0, *map(len, loops)])
    low, high = (np.array([of(loop, 0) for loop in loops]) for of in (np.min, np.max))
    nearest: dict[int, tuple[float, int, int]] = dict.fromkeys(range(1, len(loops)), (np.inf, 0, 0))
    bridges = []
    latest = 0
    while nearest:
        apart = np.maximum(np.maximum(low - high[latest], low[latest] - high), 0)  # of their boxes
        least = np.square(apart).sum(1).tolist()
        for loop, (distance, _, _) in nearest.items():
            if least[loop] >= distance:
                continue
            own, other, squared = _nearest(loops[loop], loops[latest])
            if squared < distance:
                nearest[loop] = squared, own, int(starts[latest]) + other
        latest = min(nearest, key=lambda loop: (nearest[loop][0], loop))
        _, own, other = nearest.pop(latest)
        bridges.append((latest, own, other))
    return bridges


def _nearest(points: Points, others: Points) -> tuple[int, int, float]:
    """Return the nearest two points of two lines, and their squared distance; block by block, to limit the memory."""
    near = others[_squared(others, points[0]).argmin()]
    bound = _squared(others, points[_squared(points, near).argmin()]).min()
    own_kept = np.flatnonzero(_squared_from_box(points, others) <= bound)
    points = points[own_kept]
    others_kept = np.flatnonzero(_squared_from_box(others, points) <= bound)
    others = others[others_kept]
    best = 0, 0, float("inf")
    block = max(1, _BLOCK_SIZE // len(others))
    for start in range(0, len(points), block):
        part = points[start : start + block]
        squared = (part[:, None, 0] - others[:, 0]) ** 2 + (part[:, None, 1] - others[:, 1]) ** 2
        own, other = divmod(int(squared.argmin()), len(others))
        if squared[own, other] < best[2]:
            best = int(own_kept[start + own]), int(others_kept[other]), float(squared[own, other])
    return best


def _squared(points: Points, other: Points) -> NDArray[np.int64]:
    """Return the squared distances of points [P, 2] from a point."""
    squared: NDArray[np.int64] = np.square(points - other).sum(1)
    return squared


def _squared_from_box(points: Points, others: Points) -> NDArray[np.int64]:
    """Return the squared distance of each point from the box around others."""
    return _squared(points, points.clip(others.min(0), others.max(0)))


def _without_middles(points: Points) -> Points:
    """Return the closed line without points that are collinear with their neighbours."""
    before, after = points - np.roll(points, 1, 0), np.roll(points, -1, 0) - points
    is_kept: NDArray[np.bool_] = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    return points[is_kept]


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
    box = mask_box(mask)
    return box is not None and bool(mask[box[1] : box[3], box[0] : box[2]].all())


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
