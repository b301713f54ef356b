"""Reader of labelme and X-AnyLabeling, a JSON file of shapes beside each image: https://github.com/wkentaro/labelme.

Points are pixel edges. Shapes of one label and ``group_id`` are one object. Polygons, quadrilaterals, circles and masks
are outlines; rectangles, including rotated ones, are boxes. Points, lines, line strips and cuboids enclose nothing and
are not objects. The label ``__ignore__`` marks ignored regions; if used, it is the last class. ``_background_`` does
not mark objects. An image that is only in its JSON file (``imageData``) is copied to the cache folder.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import math
import os
import re
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each, first_few
from segpaste.datasets.formats.embedded_images import decoded, kept_image
from segpaste.datasets.formats.folders import files_with, folders_in, paired_folders
from segpaste.datasets.formats.format import NO_SPLIT, ReadOptions
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_format import Located, OutlinedFormat
from segpaste.datasets.formats.text_files import head_of, json_of, read_lines
from segpaste.datasets.formats.tool_shapes import (
    ImageFiles,
    Shape,
    Unread,
    are_points,
    box_around,
    checked_size,
    class_rows,
    ellipse_mask,
    paste_mask,
)

IGNORED = "__ignore__"
BACKGROUND = "_background_"
CLASS_LIST = "labels.txt"
DESCRIBED_AGAIN = "files about an image that another one describes, too, by their 'imagePath'"
_HEAD_BYTES = 1 << 14
_HEAD = re.compile(rb'"(shapes|imagePath|imageData)"\s*:')
OTHER_JSON = "JSON files without shapes of labelme"
_HEADS_READ = 64
"""Number of JSON files, the first by name, of which one of labelme makes a folder one of labelme."""
_OPEN_SHAPES = ("point", "points", "line", "linestrip", "cuboid")
_ROTATED = ("oriented_rectangle", "rotation")
_NUM_POINTS = {
    "rectangle": (2, 4),
    "circle": (2,),
    "mask": (2,),
    "quadrilateral": (4,),
    **dict.fromkeys(_ROTATED, (4,)),
}
"""Numbers of points of the shapes other than polygons. X-AnyLabeling writes all corners of a rectangle."""


class LabelmeFolder(OutlinedFormat):
    """Folder of images with a JSON file of labelme each."""

    name = "labelme"
    title = "labelme and X-AnyLabeling"
    files = "NAME.json with shapes for each image, in one folder or a folder per split, or in labels/ beside images/"
    gives = "masks, ignored regions; or boxes only"
    takes = frozenset({"images_dir", "task"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the only split of a folder with such files, or the names of its subfolders with such files."""
        if not path.is_dir():
            return None
        if _is_labelme(path):
            return (NO_SPLIT,)
        if pairs := paired_folders(path, _is_labelme):
            return tuple(pairs)
        return tuple(folder.name for folder in folders_in(path) if _is_labelme(folder)) or None

    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Find the files of a split; without ``options.images_dir`` the files contain the paths of images."""
        pairs = {} if _is_labelme(path) else paired_folders(path, _is_labelme)
        images, folder = pairs.get(split, (path / split, path / split))
        images_dir = images if options.images_dir is None else options.images_dir
        return Located(images_dir, folder, partial(read_labelme, folder, images_dir))


def read_labelme(folder: Path, images_dir: Path) -> ShapeTable:
    """Read the files of a folder.

    Classes are those of ``labels.txt`` in this folder or its parent, in file order, then all others by name; without it
    all are ordered by name.

    Raises:
        DatasetError: a file is broken, or a shape is invalid.
    """
    images, digest, left_out, names = [], hashlib.sha256(), Counter[str](), set[str]()
    files, described, others = ImageFiles(images_dir), set[str](), dict[Path, str]()

    def read(path: Path) -> AnnotatedImage | None:
        content = path.read_bytes()
        if (document := _document(path, content)) is None:
            others[path] = OTHER_JSON
            return None
        digest.update(json.dumps([path.name, hashlib.sha256(content).hexdigest()]).encode())
        image = _image(path, document, files, left_out)
        file = os.path.normpath(image.row["file_name"])
        num_again = int(file in described)
        described.add(file)
        return replace(image, unread={**image.unread, DESCRIBED_AGAIN: num_again})

    for image in filter(None, each(_files(folder), read)):
        names |= {shape.label for shape in image.shapes}
        images.append(image)
    if others:
        warnings.warn(
            f"{folder}: {len(others)} {OTHER_JSON} are not read: {first_few(path.name for path in others)}",
            stacklevel=5,
        )
    listed = _listed_names(folder)
    digest.update(json.dumps(listed).encode())
    categories = class_rows(folder, sorted(names - {IGNORED}), listed)
    categories += [{"name": IGNORED}] if IGNORED in names else []
    return ShapeTable(
        folder, images, categories, digest.hexdigest(), {}, dict(left_out), drawn_upright=True, others=others
    )


def _is_labelme(folder: Path) -> bool:
    """Return whether one of the first JSON files of a folder is one of labelme."""
    heads = (head_of(file, _HEAD_BYTES) for file in _files(folder)[:_HEADS_READ])
    return any(head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and _HEAD.search(head) for head in heads)


def _files(folder: Path) -> list[Path]:
    return files_with(folder, ".json")


def _listed_names(folder: Path) -> list[str] | None:
    for place in (folder, folder.resolve().parent):
        if (path := place / CLASS_LIST).is_file():
            lines = (line.strip() for line in read_lines(path))
            return [line for line in lines if line not in ("", IGNORED, BACKGROUND)]
    return None


def _document(path: Path, content: bytes) -> JsonRow | None:
    """Return the content of a file; None for JSON of another tool."""
    document = json_of(path, content, "JSON of labelme", "save it again")
    if not isinstance(document, dict) or not document.keys() & {"shapes", "imagePath", "imageData"}:
        return None
    if not isinstance(document.get("shapes"), list):
        raise DatasetError(f"{path}: expected the key 'shapes' of labelme with a list, got none; move the file away")
    return document


def _image(path: Path, document: JsonRow, files: ImageFiles, left_out: Counter[str]) -> AnnotatedImage:
    """Return an image with its shapes, and count the shapes that enclose nothing."""
    name = document.get("imagePath")
    if not isinstance(name, str) or not name:
        raise DatasetError(f"{path}: expected the image's file as 'imagePath', got {name!r:.40}; add it")
    name = name.replace("\\", "/")
    is_outside = ".." in PurePosixPath(name).parts  # the annotations are in another folder than the images
    places = [Path(name).name, name] if is_outside else [name, Path(name).name]
    name = files.find(str(path), name, places)
    stored = files.images_dir / name
    is_inside = bool(document.get("imageData")) and not stored.is_file()
    if is_inside:
        name, stored = kept_image(str(path), name, decoded(str(path), document["imageData"], "imageData"))
    size = _size(path, document, stored)
    row: JsonRow = {"file_name": name, "height": size[0], "width": size[1]}
    known = ("shapes", "imagePath", "imageData", "imageHeight", "imageWidth")
    if rest := {key: value for key, value in document.items() if key not in known and value not in (None, {}, "")}:
        row["attributes"] = rest
    shapes, open_shapes, num_background = [], [], 0
    for number, shape in enumerate(document["shapes"], start=1):
        where = f"{path}: shape {number}"
        kind = _kind(where, shape)
        if kind in _OPEN_SHAPES:
            left_out[kind] += 1
            open_shapes.append(shape)
        elif shape["label"] != BACKGROUND:
            shapes.append(_shape(where, kind, shape, size))
        else:
            num_background += 1
    if open_shapes:
        row["shapes"] = open_shapes
    unread = {f"shapes of the class '{BACKGROUND}', which are no objects": num_background}
    return AnnotatedImage(row, shapes, path, unread, stored if is_inside else None)


def _size(path: Path, document: JsonRow, image: Path) -> Size:
    height, width = document.get("imageHeight"), document.get("imageWidth")
    if height is None or width is None:
        return upright_size(image)
    return checked_size(str(path), height, width)


def _kind(where: str, shape: object) -> str:
    """Check the label and points of a shape and return its kind."""
    if not isinstance(shape, dict) or not isinstance(shape.get("label"), str) or not shape["label"]:
        raise DatasetError(f"{where}: expected an object with a 'label', got {shape!r:.60}; correct or remove it")
    points = shape.get("points")
    if not are_points(points, 1e6):
        raise DatasetError(f"{where}: expected 'points' [[x, y], ...] in pixels, got {points!r:.60}; correct it")
    group = shape.get("group_id")
    is_number = isinstance(group, int | str) or (isinstance(group, float) and group.is_integer())
    if group is not None and not is_number:
        raise DatasetError(f"{where}: expected a number as 'group_id', got {group!r:.40}; correct it")
    return str(shape.get("shape_type") or "polygon")


def _shape(where: str, kind: str, shape: JsonRow, size: Size) -> Shape:
    points = shape["points"]
    if kind != "polygon" and len(points) not in _NUM_POINTS.get(kind, ()):
        raise DatasetError(
            f"{where}: expected a polygon, a circle or a mask of two points, a rectangle of two or four, or a "
            f"quadrilateral or rotated rectangle of four, got a {kind} of {len(points)}; draw it as a polygon"
        )
    is_rotated = kind in _ROTATED or (kind == "rectangle" and not _is_upright(points))
    known = ("label", "points", "mask", *(() if is_rotated else ("shape_type",)))
    attributes = {key: value for key, value in shape.items() if key not in known and value not in (None, {}, "")}
    segmentation: Any = []
    unread: Unread = {}
    if kind in ("polygon", "quadrilateral"):
        segmentation = [[float(value) for point in points for value in point]]
    elif kind == "circle":
        radius = math.dist(*points)
        segmentation, unread = ellipse_mask((points[0][0], points[0][1]), (radius, radius), 0, size)
    elif kind == "mask":
        segmentation, unread = _mask(where, shape, size)
    elif is_rotated:
        attributes["points"] = points
    return Shape(
        shape["label"],
        segmentation,
        None if segmentation else box_around(points),
        shape.get("group_id"),
        attributes,
        shape["label"] == IGNORED,
        where=where,
        unread=unread,
    )


def _is_upright(points: list[list[float]]) -> bool:
    """Return whether the corners of a rectangle, two or all four, are those of the box around them."""
    x1, y1, x2, y2 = box_around(points)
    return {*map(tuple, points)} <= {(x1, y1), (x2, y1), (x2, y2), (x1, y2)}


def _mask(where: str, shape: JsonRow, size: Size) -> tuple[JsonRow, Unread]:
    """Return the run lengths of a mask, whose points are its first and last pixel."""
    (x1, y1), (x2, y2) = ((int(x), int(y)) for x, y in shape["points"])
    try:
        with Image.open(io.BytesIO(base64.b64decode(shape["mask"], validate=True))) as picture:
            mask = np.array(picture.convert("L")) > 0
    except (KeyError, TypeError, binascii.Error, OSError, ValueError) as error:
        raise DatasetError(
            f"{where}: expected 'mask', a PNG in base64, got something else ({error}); draw it again"
        ) from error
    if mask.shape != (y2 - y1 + 1, x2 - x1 + 1):
        raise DatasetError(
            f"{where}: expected a mask of {x2 - x1 + 1} x {y2 - y1 + 1} pixels, as its points say, got {mask.shape[1]} "
            f"x {mask.shape[0]}; draw it again"
        )
    return paste_mask(mask, (x1, y1), size)
