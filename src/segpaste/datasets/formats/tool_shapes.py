"""Shapes of labelling tools, their images and classes, and the conversion to COCO.

The parser of a format returns `Shape`s. Parts of one object are joined here, and bounds and areas are measured.
Coordinates are pixel edges: the first pixel of a row spans 0 to 1. Not for files of COCO, whose entries are kept
unchanged: https://cocodataset.org/#format-data, "Object Detection".
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from segpaste._pixels import Size, mask_box
from segpaste.datasets.entries import Box, JsonRow, edges_of
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.rle import decode_segmentation, encode_mask

Kind = Literal["outline", "box"]
Point = tuple[float, float, int]


OTHER_BOXES = "boxes of objects and regions, not those of their masks"
"""Description of given boxes that differ from those of their masks by more than `_ROUNDING_PX`."""
FURTHER_PARTS = "second names and boxes of objects in XML files, of which the first are read"
READ_AS_BOXES = "outlines and rotated boxes of XML files (<polygon>, <robndbox>), whose upright boxes are read"
"""Description of shapes beside the boxes of VOC, which does not define them: where their pixels begin is not known."""
CUT_SHAPES = "circles, ellipses and masks beyond the image, which are cut at its border"
JOINED_BOXES = "boxes of one label and group, which are one object with the box around them"
FURTHER_REGIONS = "further shapes of one id, of which the first is read"
FURTHER_POINTS = "further keypoints of one name in an object, of which the last is read"
POINT_VALUES = "values of keypoints, such as attributes and second labels"
OUTSIDE_POINTS = "places of keypoints that are marked as outside, which are not labelled"
NOT_READ = (
    *(READ_AS_BOXES, FURTHER_PARTS, CUT_SHAPES, JOINED_BOXES),
    *(FURTHER_REGIONS, FURTHER_POINTS, POINT_VALUES, OUTSIDE_POINTS),
)
"""Descriptions of what no object of a dataset has, though its files do."""
Unread = Mapping[str, int]
"""Numbers of what a file says and neither a shape nor its attributes do, by description."""
_PIXEL_CENTRE = 0.5
_ROUNDING_PX = 1.0
"""By how much a box differs from that of its mask if the pixels of the mask are those of its outline."""


def is_other_box(box: Sequence[float], of_mask: Sequence[float]) -> bool:
    """Return whether the given box of an object is not that of its mask, both (x1, y1, x2, y2)."""
    return any(abs(one - other) > _ROUNDING_PX for one, other in zip(box, of_mask, strict=True))


@dataclass(frozen=True, slots=True)
class Shape:
    """Drawn shape: an object or a part of an object.

    Attributes:
        label: the name of its class.
        segmentation: polygons [[x1, y1, x2, ...], ...] or run lengths as in COCO; empty for a box.
        box: (x1, y1, x2, y2) of a shape without segmentation.
        group: shapes of one label and group are parts of one object; None for a whole object.
        attributes: its other attributes.
        ignored: True for an ignored region, which is not an object.
        points: (x, y, v) by the name of a keypoint.
        where: the position in the file, for errors.
        crowd: True for a region of objects that are not told apart.
        unread: number of what else the file says of it.
        id: the id of the object, unique in the dataset; None if objects are numbered. That of its first part counts.
    """

    label: str
    segmentation: list[list[float]] | JsonRow = field(default_factory=list)
    box: Box | None = None
    group: Hashable | None = None
    attributes: JsonRow = field(default_factory=dict)
    ignored: bool = False
    points: Mapping[str, Point] | None = None
    where: str = ""
    crowd: bool = False
    unread: Unread = field(default_factory=dict)
    id: int | None = None


def join_parts(shapes: Iterable[Shape]) -> list[list[Shape]]:
    """Return the parts of each object, in the order of the first parts."""
    found: dict[Hashable, list[Shape]] = {}
    for i, shape in enumerate(shapes):
        key = i if shape.group is None else (shape.label, shape.group, shape.ignored)
        found.setdefault(key, []).append(shape)
    return list(found.values())


def annotation_row(parts: Sequence[Shape], size: Size, point_names: Sequence[str]) -> JsonRow:
    """Return the annotation of an object, without its ids.

    The boxes of an object with outlines are not used.

    Args:
        parts: parts of the object.
        size: (H, W) of the image.
        point_names: names of the keypoints of its class; may be empty.

    Returns:
        ``segmentation``, empty for boxes; ``bbox`` [x, y, w, h]; ``area``; ``iscrowd``; and, if present, ``ignore``,
        ``keypoints`` with ``num_keypoints``, and ``attributes``, with those of further parts under ``parts``.
    """
    outlines = [part.segmentation for part in parts if part.segmentation]
    segmentation = _union(outlines, size)
    box, area = _measured(segmentation, size) if segmentation else _bounds([part.box for part in parts if part.box])
    is_crowd = any(part.crowd for part in parts)
    row: JsonRow = {"segmentation": segmentation, "bbox": _xywh(box), "area": area, "iscrowd": int(is_crowd)}
    if any(part.ignored for part in parts):
        row["ignore"] = 1
    points = {name: point for part in parts for name, point in (part.points or {}).items()}
    if point_names:
        row |= _keypoints(points, point_names)
    attributes = dict(parts[0].attributes)
    if any(part.attributes != parts[0].attributes for part in parts):
        key = next(key for i in itertools.count(1) if (key := "parts" if i == 1 else f"parts_{i}") not in attributes)
        attributes[key] = [part.attributes for part in parts[1:]]
    return {**row, "attributes": attributes} if attributes else row


def unread_of(parts: Sequence[Shape], row: JsonRow) -> Counter[str]:
    """Count what the files say of an object and its annotation does not, such as boxes beside an outline."""
    lost = Counter[str]()
    for part in parts:
        lost.update(part.unread)
    boxes = [part.box for part in parts if part.box is not None and part.points is None]
    if boxes and row["segmentation"]:
        lost[OTHER_BOXES] += is_other_box(_around(boxes), edges_of(row["bbox"]))
    elif boxes and len(parts) > 1:
        around = _around(part.box for part in parts if part.box is not None)
        lost[JOINED_BOXES] += sum(box != around for box in boxes)
    return +lost


def paste_mask(mask: NDArray[np.bool_], corner: tuple[int, int], size: Size) -> tuple[JsonRow, Unread]:
    """Return the run lengths of a mask whose top left pixel is at (x, y), clipped to an image of (H, W).

    Also count it if it is cut there.
    """
    whole = np.zeros(size, bool)
    x, y = corner
    top, left = max(y, 0), max(x, 0)
    seen = mask[top - y : max(size[0] - y, 0), left - x : max(size[1] - x, 0)]
    whole[top : top + seen.shape[0], left : left + seen.shape[1]] = seen
    return encode_mask(whole), {CUT_SHAPES: int(whole.sum() < mask.sum())}


def ellipse_mask(
    centre: tuple[float, float], radii: tuple[float, float], degrees: float, size: Size
) -> tuple[JsonRow, Unread]:
    """Return the run lengths of the pixels whose centres are in an ellipse rotated clockwise about its centre.

    Also count it if it contains the centre of a pixel beside the image of (H, W), or extends further.
    """
    (x, y), (a, b) = centre, radii
    if min(a, b) <= 0:
        return encode_mask(np.zeros(size, bool)), {}
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    dx, dy = (np.arange(-1, side + 1) + _PIXEL_CENTRE - at for side, at in zip(size[::-1], (x, y), strict=True))
    around = ((dx * cos + dy[:, None] * sin) / a) ** 2 + ((dy[:, None] * cos - dx * sin) / b) ** 2 <= 1
    inside = around[1:-1, 1:-1]
    reach = math.sqrt((a * cos) ** 2 + (b * sin) ** 2), math.sqrt((a * sin) ** 2 + (b * cos) ** 2)
    ends = zip((x, y), reach, size[::-1], strict=True)
    is_far = any(min(at - radius, side - at - radius) < -1 - _PIXEL_CENTRE for at, radius, side in ends)
    return encode_mask(inside), {CUT_SHAPES: int(is_far or int(around.sum()) > int(inside.sum()))}


def rotated_box(box: Box, degrees: float, about: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the corners of a box rotated clockwise about a point."""
    x1, y1, x2, y2 = box
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    moved = [(x - about[0], y - about[1]) for x, y in ((x1, y1), (x2, y1), (x2, y2), (x1, y2))]
    return [(about[0] + dx * cos - dy * sin, about[1] + dx * sin + dy * cos) for dx, dy in moved]


def is_number(value: object, most: float) -> bool:
    """Return whether a value is a number of at most this size, not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


def are_points(value: object, most: float) -> bool:
    """Return whether a value is a list of points [x, y] of numbers of at most this size."""
    return isinstance(value, list) and all(
        isinstance(point, list) and len(point) == 2 and all(is_number(edge, most) for edge in point) for point in value
    )


def box_around(points: Iterable[Sequence[float]]) -> Box:
    """Return the box (x1, y1, x2, y2) around one or more points (x, y)."""
    xs, ys = zip(*((float(point[0]), float(point[1])) for point in points), strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def with_a_pixel(box: Box, size: Size) -> Box:
    """Return a box around points in an image of (H, W); where it has no extent, that of the pixel is used."""
    height, width = size
    x1, y1, x2, y2 = box
    if x1 == x2:
        x1 = float(min(max(math.floor(x1), 0), width - 1))
        x2 = x1 + 1
    if y1 == y2:
        y1 = float(min(max(math.floor(y1), 0), height - 1))
        y2 = y1 + 1
    return x1, y1, x2, y2


def _around(boxes: Iterable[Box]) -> Box:
    return box_around(corner for box in boxes for corner in (box[:2], box[2:]))


def _union(outlines: list[Any], size: Size) -> list[list[float]] | JsonRow:
    """Return the union of the segmentations of an object's parts."""
    if all(isinstance(outline, list) for outline in outlines):
        return [polygon for outline in outlines for polygon in outline]
    if len(outlines) == 1:
        only: JsonRow = outlines[0]
        return only
    masks = [decode_segmentation(outline, size) for outline in outlines]
    return encode_mask(np.logical_or.reduce(masks))


def _measured(segmentation: list[list[float]] | JsonRow, size: Size) -> tuple[Box | None, float]:
    """Return bounds and area: geometric for polygons, in pixels for run lengths."""
    if isinstance(segmentation, list):
        points = [point for polygon in segmentation for point in zip(polygon[::2], polygon[1::2], strict=False)]
        return (box_around(points) if points else None), sum(map(_polygon_area, segmentation))
    mask = decode_segmentation(segmentation, size)
    return mask_box(mask), int(mask.sum())


def _polygon_area(polygon: list[float]) -> float:
    x, y = np.array(polygon[::2]), np.array(polygon[1::2])
    return abs(float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum())) / 2


def _bounds(boxes: list[Box]) -> tuple[Box | None, float]:
    """Return the box around all boxes, and its area."""
    if not boxes:
        return None, 0
    x1, y1, x2, y2 = _around(boxes)
    return (x1, y1, x2, y2), (x2 - x1) * (y2 - y1)


def _xywh(box: Box | None) -> list[float]:
    return [0, 0, 0, 0] if box is None else [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def _keypoints(points: Mapping[str, Point], names: Sequence[str]) -> JsonRow:
    """Return the keys of keypoints; COCO's coordinates are pixel indices, with centres at i + 0.5."""
    values: list[float] = []
    for name in names:
        x, y, v = points.get(name, (0, 0, 0))
        values += [x - 0.5, y - 0.5, v] if v else [0, 0, 0]
    return {"keypoints": values, "num_keypoints": sum(v > 0 for v in values[2::3])}


class ImageFiles:
    """Image files of a dataset by the names that its annotations give them.

    Args:
        images_dir: the folder to which files are relative; also an attribute.
    """

    def __init__(self, images_dir: Path) -> None:
        self.images_dir = images_dir
        self._files: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def find(self, where: str, name: str, places: Iterable[str]) -> str:
        """Return the file of a listed image, at the first place with a file; without any, the first place.

        Args:
            where: text at the start of errors.
            name: its name, which tells it from other images.
            places: paths of the file, relative to the folder; empty ones are skipped.

        Raises:
            DatasetError: the file is that of an image of another name.
        """
        if name not in self._files:
            self._files[name] = self._first(places)
        file = self._files[name]
        other = self._names.setdefault(os.path.normpath(file), name)
        if other != name:
            raise DatasetError(
                f"{where}: expected a file for each image, got {file} for {other!r} and {name!r}; give each its own "
                f"file below {self.images_dir}, at the path that its name says, or correct the names"
            )
        return file

    def _first(self, places: Iterable[str]) -> str:
        names = [place for place in places if place]
        for name in names:
            with contextlib.suppress(OSError):  # the name is too long
                if (self.images_dir / name).is_file():
                    return name
        return names[0]


def checked_size(where: str, height: object, width: object) -> Size:
    """Return (H, W) of an image from its annotations.

    Raises:
        DatasetError: a side is not a positive integer, or the image has more than 2^29 pixels.
    """
    if type(height) is int and type(width) is int and min(height, width) > 0 and height * width <= 1 << 29:
        return height, width
    raise DatasetError(
        f"{where}: expected the size of the image in pixels, got {width!r:.20} x {height!r:.20}; correct it"
    )


def class_rows(path: Path, found: Sequence[str], listed: Sequence[str] | None) -> list[JsonRow]:
    """Return the classes: listed ones in their order, then found ones that are not listed, by name.

    Found names that are missing in a given list cause one warning.
    """
    more = sorted({*found} - {*(listed or ())})
    if listed is not None and more:
        warnings.warn(
            f"{path}: expected every class in the list of classes, found others: {', '.join(more[:5])}; they come "
            "after the listed ones",
            stacklevel=2,
        )
    return [{"name": name} for name in [*dict.fromkeys(listed or ()), *more]]
