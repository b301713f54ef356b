"""Reader of VGG Image Annotator, VIA 1 and 2: https://www.robots.ox.ac.uk/~vgg/software/via.

The files are a project, or its annotations exported as JSON or CSV. Numbers are pixel edges, ``theta`` is in radians.
Polygons, closed polylines, circles and ellipses are outlines; rectangles are boxes. Points and open polylines enclose
nothing and are not objects. The class of a region is the value of one of its attributes, see `class_attribute_of`.
Exports as COCO are read by `segpaste.datasets.formats.coco.dataset`; files of VIA 3 are not read.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each, first_few
from segpaste.datasets.formats.folders import files_with, folders_in
from segpaste.datasets.formats.format import NO_SPLIT, ReadOptions
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.image_places import places_of, stored_image
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_format import Located, OutlinedFormat
from segpaste.datasets.formats.tool_shapes import (
    ImageFiles,
    Shape,
    Unread,
    are_points,
    box_around,
    class_rows,
    ellipse_mask,
    is_number,
)
from segpaste.datasets.formats.via_files import ViaDocument, is_via, read_document

ONLY_CLASS = "object"
"""Class of all regions of a file that has no attributes of regions."""
_CHOICES = ("dropdown", "radio", "image")
"""Types of attributes with one value of a list."""
_HEADS_READ = 64
"""Number of files of a folder, the first by name, among which those of VIA are searched for."""
_NUMBERS = {
    "rect": ("x", "y", "width", "height"),
    "circle": ("cx", "cy", "r"),
    "ellipse": ("cx", "cy", "rx", "ry"),
    "point": ("cx", "cy"),
}
_OF_LISTS = ("polygon", "polyline")
_LISTS = ("all_points_x", "all_points_y")
_LEAST_CLOSED = 4
"""Number of points of the smallest closed polyline, whose last point is its first."""
_FARTHEST = 1e6  # pixels


class ViaFile(OutlinedFormat):
    """File of VIA, a folder with the file and its images, or a folder of such folders."""

    name = "via"
    title = "VGG Image Annotator (VIA 1 and 2)"
    files = "FILE.json or FILE.csv of VIA, the only one in a folder with the images, or in each folder of a split"
    gives = "masks; or boxes only"
    takes = frozenset({"images_dir", "task", "class_attribute"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the only split, or the names of the subfolders with such a file.

        Raises:
            DatasetError: a folder has several files of VIA.
        """
        if not path.is_dir():
            return (NO_SPLIT,) if path.is_file() and is_via(path) else None
        if _file(path) is not None:
            return (NO_SPLIT,)
        return tuple(folder.name for folder in folders_in(path) if _file(folder) is not None) or None

    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Find the file; without ``options.images_dir`` images are beside it, or where the project says."""
        file = (_file(path / split) if path.is_dir() else path) or path
        images_dir = file.parent if options.images_dir is None else options.images_dir
        return Located(images_dir, file, partial(read_via, file, images_dir, options.class_attribute))


def read_via(path: Path, images_dir: Path, class_attribute: str | None = None) -> ShapeTable:
    """Read a file; classes are the values that the project declares, in its order, then all others by name.

    Args:
        path: the file.
        images_dir: the folder of the images.
        class_attribute: the attribute of regions that is their class; see `class_attribute_of`.

    Raises:
        DatasetError: the file is broken, a region is invalid, or several attributes may be the class.
    """
    content = path.read_bytes()
    document = read_document(path, content)
    attribute = class_attribute_of(path, document, class_attribute)
    left_out, files = Counter[str](), ImageFiles(images_dir)
    images = [*each(document.entries.items(), lambda item: _image(path, item, document, attribute, files, left_out))]
    names = {shape.label for image in images for shape in image.shapes}
    categories = class_rows(path, sorted(names), _listed(document.attributes.get(attribute or "")))
    digest = f"{hashlib.sha256(content).hexdigest()} {attribute}"
    tables = {"via": document.facts} if document.facts else {}
    return ShapeTable(path, images, categories, digest, tables, dict(left_out), drawn_upright=True)


def class_attribute_of(path: Path, document: ViaDocument, asked: str | None) -> str | None:
    """Return the attribute of regions that is their class; None if there are no attributes.

    It is the one that is asked for. By default it is the only one that regions have of those which the project declares
    with a list of values (dropdown, radio, image); without such, the only one that regions have.

    Raises:
        DatasetError: several attributes may be the class, or there is none of the name that is asked for.
    """
    used = {name: None for entry in document.entries.values() for region in entry.regions for name in region.values}
    known = [*dict.fromkeys([*document.attributes, *used])]
    if asked is not None:
        if asked in known:
            return asked
        raise DatasetError(
            f"{path}: expected class_attribute (--class-attribute) as one of the attributes of regions "
            f"({', '.join(known) or 'there are none'}), got {asked!r}"
        )
    choices = [name for name in used if _type(document.attributes.get(name)) in _CHOICES]
    candidates = choices or [*used] or known[:1]
    if len(candidates) > 1:
        raise DatasetError(
            f"{path}: expected one attribute of regions that is their class, got {', '.join(candidates)}; name it in "
            "convert or check (--class-attribute), or in Python (class_attribute=)"
        )
    return candidates[0] if candidates else None


def _file(folder: Path) -> Path | None:
    """Return the file of VIA in a folder."""
    found = [file for file in files_with(folder, ".json", ".csv")[:_HEADS_READ] if is_via(file)]
    if len(found) > 1:
        raise DatasetError(
            f"{folder}: expected one file of VIA, got {first_few(file.name for file in found)}; give the file that is "
            "meant, or move the others away"
        )
    return found[0] if found else None


def _type(declared: Any) -> object:
    return declared.get("type") if isinstance(declared, dict) else None


def _listed(declared: Any) -> list[str] | None:
    """Return the values that the declaration of an attribute lists; None without a list."""
    options = declared.get("options") if isinstance(declared, dict) else None
    return [name for key in options if (name := str(key).strip())] if isinstance(options, dict) and options else None


def _image(
    path: Path,
    item: tuple[str, Any],
    document: ViaDocument,
    attribute: str | None,
    files: ImageFiles,
    left_out: Counter[str],
) -> AnnotatedImage:
    """Return an image with its shapes, and count the regions that are no objects."""
    key, entry = item
    where = f"{path}: image {key!r}"
    name = files.find(where, key, places_of(entry.file_name, document.folder))
    size = upright_size(stored_image(where, entry.file_name, files.images_dir / name))
    row: JsonRow = {"file_name": name, "height": size[0], "width": size[1]}
    row |= {"attributes": entry.facts} if entry.facts else {}
    shapes, others = [], []
    for number, region in enumerate(entry.regions, start=1):
        at = f"{where}: region {number}"
        kind = _kind(at, region.shape)
        label = _label(at, region.values, attribute)
        if kind == "point" or (kind == "polyline" and not _is_closed(region.shape)) or label is None:
            left_out["region without a label" if label is None else kind] += 1
            others.append({**region.facts, "shape_attributes": region.shape, "region_attributes": region.values})
        else:
            segmentation, box, unread = _geometry(kind, region.shape, size)
            attributes = {**region.facts, **{name: value for name, value in region.values.items() if name != attribute}}
            shapes.append(Shape(label, segmentation, box, None, attributes, where=at, unread=unread))
    return AnnotatedImage({**row, "shapes": others} if others else row, shapes)


def _label(where: str, values: JsonRow, attribute: str | None) -> str | None:
    """Return the class of a region; None without one. Of checkboxes, one is ticked."""
    if attribute is None:
        return ONLY_CLASS
    value = values.get(attribute, "")
    if isinstance(value, dict):
        value = [name for name, is_ticked in value.items() if is_ticked]
        value = value[0] if len(value) == 1 else value or ""
    if not isinstance(value, str):
        raise DatasetError(
            f"{where}: expected one class as the attribute {attribute!r}, got {value!r:.60}; correct it, or name "
            "another attribute (class_attribute=, --class-attribute)"
        )
    return value.strip() or None


def _kind(where: str, shape: JsonRow) -> str:
    """Check the numbers of a shape and return its name."""
    kind = shape.get("name")
    names = _LISTS if kind in _OF_LISTS else _NUMBERS.get(kind) if isinstance(kind, str) else None
    if names is None:
        raise DatasetError(
            f"{where}: expected a polygon, polyline, rect, circle, ellipse or point, got {kind!r:.40}; draw it as one"
        )
    values: list[Any] = [shape.get(name) for name in names]
    are_lists = all(isinstance(value, list) for value in values)
    if kind in _OF_LISTS:
        is_valid = are_lists and bool(values[0]) and are_points([*map(list, zip_longest(*values))], _FARTHEST)
    else:
        is_valid = all(is_number(value, _FARTHEST) for value in (*values, shape.get("theta", 0)))
    if not is_valid:
        raise DatasetError(
            f"{where}: expected a {kind} with {', '.join(names)} in pixels, got {shape!r:.80}; correct it or remove it"
        )
    return str(kind)


def _is_closed(shape: JsonRow) -> bool:
    """Return whether the last point of a polyline is its first."""
    xs, ys = (shape[name] for name in _LISTS)
    return len(xs) >= _LEAST_CLOSED and (xs[0], ys[0]) == (xs[-1], ys[-1])


def _geometry(kind: str, shape: JsonRow, size: Size) -> tuple[Any, Any, Unread]:
    """Return the segmentation of a shape, empty for a box; the box; and the numbers of what is not read."""
    if kind in _OF_LISTS:
        points = zip(*(shape[name] for name in _LISTS), strict=True)
        return [[float(value) for point in points for value in point]], None, {}
    if kind == "rect":
        x, y, width, height = (float(shape[name]) for name in _NUMBERS["rect"])
        return [], box_around([(x, y), (x + width, y + height)]), {}
    radii = (shape["r"], shape["r"]) if kind == "circle" else (shape["rx"], shape["ry"])
    segmentation, unread = ellipse_mask((shape["cx"], shape["cy"]), radii, math.degrees(shape.get("theta", 0)), size)
    return segmentation, None, unread
