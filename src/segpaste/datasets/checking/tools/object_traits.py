"""Traits of single annotations: each function tells from the shape of an annotation whether it has the trait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.checking.tools.trait import Shape, Trait
from segpaste.datasets.entries import Box
from segpaste.datasets.formats.rle import decode_segmentation

_ROUNDED_PX = 0.01


def _is_object(shape: Shape) -> bool:
    return not shape.found.is_crowd and not shape.found.is_stuff


def _id_zero(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.id == 0


def _id_negative(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.id < 0


def _counts(shape: Shape) -> object:
    """Return the run lengths as in the file; None for polygons, or without a segmentation."""
    return shape.segmentation.get("counts") if isinstance(shape.segmentation, dict) else None


def _run_lengths(shape: Shape) -> bool:
    return _is_object(shape) and isinstance(_counts(shape), list)


def _compressed(shape: Shape) -> bool:
    return _is_object(shape) and isinstance(_counts(shape), str | bytes)


def _hole_runs(shape: Shape) -> bool:
    return isinstance(shape.segmentation, dict) and _hole(shape)


def _thin_runs(shape: Shape) -> bool:
    return isinstance(shape.segmentation, dict) and _thin(shape)


def _empty_outline(shape: Shape) -> bool:
    return _is_object(shape) and shape.segmentation == []


def _crowd_polygons(shape: Shape) -> bool:
    return _crowd(shape) and bool(shape.polygons)


def _crowd_compressed(shape: Shape) -> bool:
    return _crowd(shape) and isinstance(_counts(shape), str | bytes)


def _keypoints(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.has_keypoints


def _no_area(shape: Shape) -> bool:
    return _is_object(shape) and "area" in shape.found.lacks


def _no_iscrowd(shape: Shape) -> bool:
    return _is_object(shape) and "iscrowd" in shape.found.lacks


def _no_box(shape: Shape) -> bool:
    return _is_object(shape) and "bbox" in shape.found.lacks


def _hole(shape: Shape) -> bool:
    return _is_object(shape) and shape.num_parts_and_holes[1] > 0


def _parts(shape: Shape) -> bool:
    if not _is_object(shape):
        return False
    polygons = shape.polygons
    if polygons is not None:
        return len(polygons) > 1
    return shape.num_parts_and_holes[0] > 1


def _crowd(shape: Shape) -> bool:
    return shape.found.is_crowd and not shape.found.is_ignored


def _ignored(shape: Shape) -> bool:
    return shape.found.is_ignored


def _box_only(shape: Shape) -> bool:
    found = shape.found
    return _is_object(shape) and not found.is_segment and found.segmentation is None and shape.box is not None


def _thin(shape: Shape) -> bool:
    """Whether a mask or box is at most one pixel high or wide."""
    if not _is_object(shape):
        return False
    if (runs := shape.runs) is not None:
        return bool(runs.rows[-1] == runs.rows[0] or runs.ends.max() - runs.starts.min() <= 1)
    box = shape.box
    return box is not None and bool(min(box[2] - box[0], box[3] - box[1]) <= 1)


def _outside(shape: Shape) -> bool:
    """Whether an outline, or a box, goes beyond the image by more than rounding."""
    if not _is_object(shape):
        return False
    height, width = shape.size
    edges = shape.box if not shape.polygons else _extent(shape.polygons)
    if edges is None:
        return False
    x1, y1, x2, y2 = edges
    return bool(min(x1, y1) < -_ROUNDED_PX or x2 > width + _ROUNDED_PX or y2 > height + _ROUNDED_PX)


def _extent(polygons: Sequence[object]) -> Box | None:
    """Return the box of polygons; None if they have no point."""
    points = _points(polygons)
    return (*points.min(0).tolist(), *points.max(0).tolist()) if len(points) else None


def _points(polygons: Sequence[object]) -> NDArray[np.float64]:
    """Return the points [P, 2] of polygons of numbers."""
    numbers = [value for polygon in polygons if isinstance(polygon, list) for value in polygon[: len(polygon) // 2 * 2]]
    return np.array(numbers, np.float64).reshape(-1, 2)


def _few_points(shape: Shape) -> bool:
    return _is_object(shape) and any(isinstance(of, list) and len(of) < 6 for of in shape.polygons or ())


def _area_zero(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.area is not None and shape.found.area <= 0


def _flat_box(shape: Shape) -> bool:
    """Whether a box has no width or no height; that of an outline, if there is none beside it, as in YOLO's rows."""
    box = shape.box
    if box is None and shape.polygons and not shape.found.lacks:
        box = _extent(shape.polygons)
    return _is_object(shape) and box is not None and (box[2] <= box[0] or box[3] <= box[1])


def _no_pixel(shape: Shape) -> bool:
    """Whether polygons of three points or more enclose the centre of no pixel."""
    polygons = shape.polygons
    if not _is_object(shape) or not polygons or any(len(of) < 6 or len(of) % 2 for of in polygons):
        return False
    return shape.runs is None


def _float_class(shape: Shape) -> bool:
    return shape.found.has_float_class


def _hole_from_first(shape: Shape) -> bool:
    """Whether the parts of an outline, cut where it comes back to their first points, fill a hole of it."""
    polygons = shape.polygons
    if polygons is None or len(polygons) != 1 or not _hole(shape):
        return False
    parts = _closed_parts(_points(polygons).tolist())
    if len(parts) < 2:
        return False
    filled, own = (decode_segmentation(outlines, shape.size) for outlines in (parts, polygons))
    return bool((filled != own).any())


def _closed_parts(points: Sequence[list[float]]) -> list[list[float]]:
    """Return the parts [x1, y1, ...] of an outline that come back to their first points, and the rest."""
    parts, part, last = list[list[list[float]]](), list[list[float]](), list[float]()
    for point in points:
        if point != last:
            part.append(point)
        if len(part) > 3 and point == part[0]:
            parts.append(part)
            part = []
        last = point
    parts += [part] if len(part) > 2 else []
    return [[number for point in part for number in point] for part in parts]


OF_OBJECTS: Mapping[str, Trait] = MappingProxyType(
    {
        "id_zero": Trait("annotations with the id 0", of_object=_id_zero),
        "id_negative": Trait("annotations with an id below 0", of_object=_id_negative),
        "any_object": Trait("annotations of objects", of_object=_is_object),
        "no_area": Trait("annotations without an area", of_object=_no_area),
        "no_iscrowd": Trait("annotations without iscrowd", of_object=_no_iscrowd),
        "no_box": Trait("annotations without a box", of_object=_no_box),
        "keypoints": Trait("objects with keypoints", of_object=_keypoints),
        "run_lengths": Trait("masks in run lengths that are lists", of_object=_run_lengths),
        "compressed": Trait("masks in compressed run lengths", of_object=_compressed),
        "hole": Trait("masks with a hole", of_object=_hole),
        "parts": Trait("masks of several parts", of_object=_parts),
        "hole_runs": Trait("masks in run lengths with a hole", of_object=_hole_runs),
        "crowd": Trait("crowd regions", of_object=_crowd),
        "crowd_polygons": Trait("crowd regions in polygons", of_object=_crowd_polygons),
        "crowd_compressed": Trait("crowd regions in compressed run lengths", of_object=_crowd_compressed),
        "ignored": Trait("ignored regions that are no crowds", of_object=_ignored),
        "box_only": Trait("objects with a box and no mask", of_object=_box_only),
        "thin": Trait("objects of one pixel, or one pixel high or wide", of_object=_thin),
        "thin_runs": Trait("masks in run lengths of one pixel, or one pixel high or wide", of_object=_thin_runs),
        "empty_outline": Trait("objects with an empty list of polygons", of_object=_empty_outline),
        "outside": Trait("outlines or boxes that go beyond their image", of_object=_outside),
        "few_points": Trait("polygons of fewer than three points", of_object=_few_points),
        "float_class": Trait("rows whose class has a point or an exponent", of_object=_float_class),
        "area_zero": Trait("objects whose entry has the area 0", of_object=_area_zero),
        "flat_box": Trait("objects whose box has no width or height", of_object=_flat_box),
        "no_pixel": Trait("objects whose polygons enclose no pixel", of_object=_no_pixel),
        "hole_from_first": Trait(
            "outlines with a hole that is filled if they are cut at their first point", of_object=_hole_from_first
        ),
    }
)
"""Traits of annotations."""
