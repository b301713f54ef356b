"""Results of a Label Studio annotation: those of each image of a task, and the regions that they describe.

A result names the tag of its image (``to_name``) and, for a list of images, the position in it (``item_index``, from
0). An export has no configuration with the key of each tag in ``data``: it is that of the same name, or the only image.
Results of one id are one region. `segpaste.datasets.formats.label_studio` reads the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.label_studio_masks import read_bitmask, unpack_brush
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.formats.text_files import joined
from segpaste.datasets.formats.tool_shapes import (
    FURTHER_REGIONS,
    Point,
    Shape,
    are_points,
    box_around,
    checked_size,
    ellipse_mask,
    is_number,
    rotated_box,
)

_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".jfif", ".jp2")
_SIZE = ("original_width", "original_height")
_MOST = 1e5  # percent

_KEYS: Mapping[str, tuple[str, ...]] = {
    "polygon": ("points",),
    "rectangle": ("x", "y", "width", "height"),
    "ellipse": ("x", "y", "radiusX", "radiusY"),
    "brush": ("rle",),
    "bitmask": ("imageDataURL",),
    "vector": ("vertices",),
    "keypoint": ("x", "y"),
}
"""Geometry keys of each kind of region, in percentages of the sides."""

_TYPES = {"brush": list, "bitmask": str, "vector": list}
"""Types of the geometry of regions that are not of percentages alone."""

Results = list[Any]


def tags_of(results: Iterable[Any]) -> list[str]:
    """Return the tags of the images that regions are drawn on, each once."""
    return list(dict.fromkeys(str(result.get("to_name", "")) for result in results if _is_region(result)))


def split_by_image(where: str, data: Mapping[str, Any], results: Results, tags: Iterable[str]) -> dict[str, Results]:
    """Return the results of each image of a task, by its address, in the order of ``data``.

    Results about no image, such as relations, are those of the first image.

    Args:
        where: text at the start of errors.
        data: the values of the task.
        results: the results of its annotation.
        tags: the tags of all tasks of the file; their images are those of the task.

    Raises:
        DatasetError: there is no image, or the image of a result is ambiguous or missing.
    """
    own, listed = tags_of(results), {str(r.get("to_name", "")) for r in results if _is_region(r) and "item_index" in r}
    keys: dict[str, str] = {}
    for tag in dict.fromkeys([*own, *tags]):
        key = _key_of(data, tag, is_only=len({*own, *tags}) == 1, has_items=tag in listed)
        if key is None and tag in own:
            names = ", ".join(_images_in(data)) or "none"
            raise DatasetError(
                f"{where}: expected the address of an image in 'data' under the name of its tag {tag!r} (to_name), got "
                f"{names}; add it as {tag!r}, or rename the key"
            )
        if key is not None:
            keys[tag] = key
    shown = [key for key in data if key in keys.values()] or list(_images_in(data))[:1]
    if not shown:
        raise DatasetError(f"{where}: expected the address of an image in 'data', got {data!r:.60}; add it as 'image'")
    found: dict[str, Results] = {address: [] for key in shown for address in _addresses(data[key])}
    first = next(iter(found))
    for result in results:
        key = keys.get(str(result.get("to_name", ""))) if isinstance(result, dict) else None
        place = first if key is None else _address(where, data[key], result)
        found[place].append(result)
    return found


def _key_of(data: Mapping[str, Any], tag: str, *, is_only: bool, has_items: bool) -> str | None:
    """Return the key of the image that a tag shows; None if it is missing or ambiguous."""
    images = _images_in(data)
    lists = [key for key in images if isinstance(data[key], list)]
    if has_items and tag not in lists and len(lists) == 1:
        return lists[0]
    if tag in data and _addresses(data[tag]):
        return tag
    if len(images) == 1:
        return images[0]
    return "image" if is_only and _addresses(data.get("image")) else None


def _images_in(data: Mapping[str, Any]) -> list[str]:
    """Return the keys of images and of lists of images, that of ``image`` first; bare names only without addresses."""
    found = {key: rows for key, value in data.items() if (rows := _addresses(value)) and any(map(_is_image, rows))}
    full = [key for key, rows in found.items() if key == "image" or "/" in rows[0]]
    return sorted(full or found, key=lambda key: key != "image")


def _is_image(address: str) -> bool:
    return urlsplit(address).path.lower().endswith(_SUFFIXES) or "?d=" in address


def _addresses(value: object) -> list[str]:
    """Return an address, or a list of addresses; empty for other values."""
    values: list[object] = value if isinstance(value, list) else [value]
    found = [entry for entry in values if isinstance(entry, str) and entry]
    return found if len(found) == len(values) else []


def _address(where: str, value: object, result: JsonRow) -> str:
    """Return the address of the image of a result."""
    addresses, item = _addresses(value), result.get("item_index") or 0
    if type(item) is not int or not 0 <= item < len(addresses):
        raise DatasetError(
            f"{where}: expected 'item_index' of a region from 0 to {len(addresses) - 1}, got {item!r:.20}; export the "
            "task again"
        )
    return addresses[item]


def _is_region(result: object) -> bool:
    return isinstance(result, dict) and all(key in result for key in _SIZE)


@dataclass(slots=True)
class Region:
    """Region of an image.

    Attributes:
        key: its id.
        kind: one of polygon, rectangle, ellipse, brush, bitmask, vector and keypoint.
        value: its geometry and the other values with it.
        size: (H, W) of the image.
        labels: its labels; the first is its class.
        parent: the id of the region that it was drawn in, or empty.
        attributes: its other attributes.
        num_further: number of further shapes with its id.
    """

    key: str
    kind: str
    value: JsonRow
    size: Size
    labels: list[str] = field(default_factory=list)
    parent: str = ""
    attributes: JsonRow = field(default_factory=dict)
    num_further: int = 0

    @property
    def is_open(self) -> bool:
        """True for a line of a vector, which encloses nothing."""
        return self.kind == "vector" and not self.value.get("closed")


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
            regions[key].num_further += not _is_same(regions[key], found, value)
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


def shape_of(where: str, region: Region, size: Size, points: Mapping[str, Point] | None, unread: Counter[str]) -> Shape:
    """Return the shape of a region that has a label and is not a keypoint; ``unread`` counts what its points lose.

    Raises:
        DatasetError: its geometry is broken.
    """
    value, (height, width) = region.value, size
    degrees = value.get("rotation") or 0
    segmentation: Any = []
    box = None
    if region.kind == "polygon":
        segmentation = [[edge for x, y in value["points"] for edge in (x * width / 100, y * height / 100)]]
    elif region.kind == "vector":
        segmentation = [[edge for x, y in _corners(where, value) for edge in (x * width / 100, y * height / 100)]]
    elif region.kind in ("brush", "bitmask"):
        try:
            mask = (
                unpack_brush(value["rle"], size)
                if region.kind == "brush"
                else read_bitmask(value["imageDataURL"], size)
            )
        except ValueError as error:
            raise DatasetError(f"{where}: {error}; export it again") from error
        segmentation = encode_mask(mask)
    else:
        x, y = value["x"] * width / 100, value["y"] * height / 100
        if region.kind == "ellipse":
            radii = value["radiusX"] * width / 100, value["radiusY"] * height / 100
            segmentation, cut = ellipse_mask((x, y), radii, degrees, size)
            unread.update(cut)
        else:
            box = x, y, x + value["width"] * width / 100, y + value["height"] * height / 100
            box = box_around(rotated_box(box, degrees, (x, y))) if degrees else box
    attributes = dict(region.attributes)
    attributes |= {"labels": region.labels} if len(region.labels) > 1 else {}
    attributes |= {"rotation": degrees} if degrees else {}
    attributes |= {key: value[key] for key in _KEYS["rectangle"]} if degrees and box is not None else {}
    unread[FURTHER_REGIONS] += region.num_further
    return Shape(region.labels[0], segmentation, box, None, attributes, False, points, where, unread=unread)


def _geometry(kind: str, value: JsonRow) -> str | None:
    """Return the kind of region by the geometry keys of a value."""
    known = kind.removesuffix("labels")
    if known in _KEYS:
        return known if all(key in value for key in _KEYS[known]) else None
    return next((name for name, keys in _KEYS.items() if all(key in value for key in keys)), None)


def _region(where: str, key: str, kind: str, result: JsonRow) -> Region:
    value: JsonRow = result["value"]
    width, height = (result[name] for name in _SIZE)
    size = checked_size(where, height, width)
    if result.get("image_rotation"):
        raise DatasetError(
            f"{where}: expected an image that is not rotated (image_rotation), got {result['image_rotation']} degrees; "
            "rotate the file instead"
        )
    values = value["points"] if kind == "polygon" else [value[name] for name in _KEYS[kind]]
    if kind == "polygon":
        is_right = are_points(values, _MOST)
    else:
        is_right = isinstance(values[0], _TYPES[kind]) if kind in _TYPES else all(map(_is_percent, values))
    if not is_right or not _is_percent(value.get("rotation") or 0):
        raise DatasetError(
            f"{where}: expected {' and '.join(_KEYS[kind])} of a {kind} in percent, got {values!r:.60}; correct it"
        )
    return Region(key, kind, value, size, parent=str(result.get("parentID") or ""))


def _is_same(region: Region, kind: str, value: JsonRow) -> bool:
    """Return whether a geometry is that of a region."""
    keys = (*_KEYS[region.kind], "rotation")
    return kind == region.kind and all(value.get(key) == region.value.get(key) for key in keys)


def _is_percent(value: object) -> bool:
    return is_number(value, _MOST)


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
        named = {key: said[key] for key in said if key not in known}
    else:
        own = {key: entry for key, entry in value.items() if key not in known - {kind}}
        named = {key: result[key] for key in result if key not in known | {"from_name"}}
        named[str(result.get("from_name", kind))] = _said(own)
    there = region.attributes
    more = {key: [entry] for key, entry in named.items() if key not in there or there[key] != entry}
    region.attributes = joined(there, more)


def _said(value: JsonRow) -> Any:
    """Return the value of a control; the value alone if it has one key."""
    return next(iter(value.values())) if len(value) == 1 else value


def _corners(where: str, value: JsonRow) -> list[tuple[float, float]]:
    """Return the vertices of a closed vector, in percent.

    Raises:
        DatasetError: a vertex is broken, or of a curve, or does not follow the one before it.
    """
    found, before = list[tuple[float, float]](), None
    for vertex in value["vertices"]:
        if not isinstance(vertex, dict) or not _is_percent(vertex.get("x")) or not _is_percent(vertex.get("y")):
            raise DatasetError(
                f"{where}: expected vertices of a vector with 'x' and 'y' in percent, got {vertex!r:.60}; correct it"
            )
        if vertex.get("isBezier") or vertex.get("prevPointId") not in (None, before):
            what = "a curve" if vertex.get("isBezier") else "a branch"
            raise DatasetError(
                f"{where}: expected a vector of straight lines, each from the vertex before, got {what}; draw it as a "
                "polygon or with the brush"
            )
        found.append((vertex["x"], vertex["y"]))
        before = vertex.get("id")
    return found
