"""Regions of a Label Studio annotation: results of one id are joined, checked, and converted to shapes.

`segpaste.datasets.formats.label_studio` reads the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.brush_rle import unpack_brush
from segpaste.datasets.formats.photo_facts import photo_size
from segpaste.datasets.formats.shapes import Point, Shape, box_around, ellipse_mask, encode_mask, rotated_box
from segpaste.types.sampling import Size

_KEYS: Mapping[str, tuple[str, ...]] = {
    "polygon": ("points",),
    "rectangle": ("x", "y", "width", "height"),
    "ellipse": ("x", "y", "radiusX", "radiusY"),
    "brush": ("rle",),
    "keypoint": ("x", "y"),
}
"""Geometry keys of each kind of region, in percentages of the sides."""
_SIZE = ("original_width", "original_height")


@dataclass(slots=True)
class Region:
    """Region of an image.

    Attributes:
        key: its id.
        kind: one of polygon, rectangle, ellipse, brush and keypoint.
        value: its geometry and the other values with it.
        size: (H, W) of the image.
        labels: its labels; the first is its class.
        parent: the id of the region that it was drawn in, or empty.
        attributes: its other attributes.
    """

    key: str
    kind: str
    value: JsonRow
    size: Size
    labels: list[str] = field(default_factory=list)
    parent: str = ""
    attributes: JsonRow = field(default_factory=dict)


def parsed_regions(where: str, results: object) -> tuple[list[Region], JsonRow]:
    """Return the regions of an annotation, and its values for the whole image by the name of the control.

    Raises:
        DatasetError: a result is invalid, or a region is of an unsupported kind.
    """
    regions: dict[str, Region] = {}
    about_image: JsonRow = {}
    for result in results if isinstance(results, list) else [results]:
        if not isinstance(result, dict) or not isinstance(result.get("type"), str):
            raise DatasetError(f"{where}: expected results with a 'type', got {result!r:.60}; export it again")
        value, kind, key = result.get("value"), result["type"], str(result.get("id", ""))
        if not isinstance(value, dict):
            about_image.setdefault(f"{kind}s", []).append(result)
        elif all(name in result for name in _SIZE) and (found := _geometry(kind, value)):
            if key not in regions:
                regions[key] = _region(f"{where}: region {key!r}", key, found, result)
            _add(regions[key], result)
        elif key in regions:
            _add(regions[key], result)
        elif all(name in result for name in _SIZE) and kind.endswith("labels"):
            raise DatasetError(
                f"{where}: region {key!r}: expected one of {', '.join(_KEYS)}, got {kind!r}; export it as one"
            )
        else:
            about_image.setdefault(str(result.get("from_name", kind)), []).append(_said(value))
    return list(regions.values()), about_image


def shape_of(where: str, region: Region, size: Size, points: Mapping[str, Point] | None) -> Shape:
    """Return the shape of a region that has a label and is not a keypoint.

    Raises:
        DatasetError: its geometry is broken.
    """
    value, (height, width) = region.value, size
    degrees = value.get("rotation") or 0
    segmentation: Any = []
    box = None
    if region.kind == "polygon":
        segmentation = [[edge for x, y in value["points"] for edge in (x * width / 100, y * height / 100)]]
    elif region.kind == "brush":
        try:
            segmentation = encode_mask(unpack_brush(value["rle"], size))
        except ValueError as error:
            raise DatasetError(f"{where}: {error}; export it again") from error
    else:
        x, y = value["x"] * width / 100, value["y"] * height / 100
        if region.kind == "ellipse":
            radii = value["radiusX"] * width / 100, value["radiusY"] * height / 100
            segmentation = ellipse_mask((x, y), radii, degrees, size)
        else:
            box = x, y, x + value["width"] * width / 100, y + value["height"] * height / 100
            box = box_around(rotated_box(box, degrees, (x, y))) if degrees else box
    attributes = dict(region.attributes)
    attributes |= {"labels": region.labels} if len(region.labels) > 1 else {}
    attributes |= {"rotation": degrees} if degrees else {}
    return Shape(region.labels[0], segmentation, box, None, attributes, False, points, where)


def _geometry(kind: str, value: JsonRow) -> str | None:
    """Return the kind of region by the geometry keys of a value."""
    known = kind.removesuffix("labels")
    if known in _KEYS:
        return known if all(key in value for key in _KEYS[known]) else None
    return next((name for name, keys in _KEYS.items() if all(key in value for key in keys)), None)


def _region(where: str, key: str, kind: str, result: JsonRow) -> Region:
    value: JsonRow = result["value"]
    width, height = (result[name] for name in _SIZE)
    size = photo_size(where, height, width)
    if result.get("image_rotation"):
        raise DatasetError(
            f"{where}: expected an image that is not rotated (image_rotation), got {result['image_rotation']} degrees; "
            "rotate the file instead"
        )
    values = value["points"] if kind == "polygon" else [value[name] for name in _KEYS[kind]]
    if kind == "polygon":
        is_right = isinstance(values, list) and all(
            isinstance(point, list) and len(point) == 2 and all(map(_is_percent, point)) for point in values
        )
    else:
        is_right = isinstance(values[0], list) if kind == "brush" else all(map(_is_percent, values))
    if not is_right or not _is_percent(value.get("rotation") or 0):
        raise DatasetError(
            f"{where}: expected {' and '.join(_KEYS[kind])} of a {kind} in percent, got {values!r:.60}; correct it"
        )
    return Region(key, kind, value, size, parent=str(result.get("parentID") or ""))


def _is_percent(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e5


def _add(region: Region, result: JsonRow) -> None:
    """Add the labels and other attributes of a result to its region."""
    value, kind = result["value"], result["type"]
    labels = value.get(kind) if kind.endswith("labels") else None
    if isinstance(labels, list):
        region.labels += [str(label) for label in labels if str(label) not in region.labels]
    said = {**result, **value}
    known = {"id", "type", "value", "to_name", "image_rotation", "rotation", "parentID", *_SIZE, kind}
    known |= {key for keys in _KEYS.values() for key in keys}
    if kind.removesuffix("labels") in _KEYS or kind == "labels":
        known |= {"from_name", "format", "closed"}
        region.attributes |= {key: said[key] for key in said if key not in known}
    else:
        region.attributes[str(result.get("from_name", kind))] = _said(
            {key: entry for key, entry in value.items() if key not in known - {kind}}
        )


def _said(value: JsonRow) -> Any:
    """Return the value of a control; the value alone if it has one key."""
    return next(iter(value.values())) if len(value) == 1 else value
