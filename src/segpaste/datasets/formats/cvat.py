"""CVAT for images 1.1, one XML file of the shapes of all images: https://docs.cvat.ai/docs/dataset_management/formats.

Points are pixel edges. Polygons, ellipses and masks are outlines; boxes, including rotated ones, and skeletons are
boxes. Shapes of one label and ``group_id`` are one object. Polylines, points and cuboids enclose nothing and are not
objects. Exports of videos are rejected. Exports as COCO are read by `segpaste.datasets.formats.coco.dataset`.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each
from segpaste.datasets.formats.format import NO_SPLIT, ReadOptions, file_digest
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_format import Located, OutlinedFormat
from segpaste.datasets.formats.text_files import (
    flag_of,
    head_of,
    in_utf8,
    joined,
    parse_xml,
    xml_flag,
    xml_number,
    xml_value,
)
from segpaste.datasets.formats.tool_shapes import (
    FURTHER_POINTS,
    OUTSIDE_POINTS,
    POINT_VALUES,
    ImageFiles,
    Point,
    Shape,
    Unread,
    box_around,
    checked_size,
    ellipse_mask,
    paste_mask,
    rotated_box,
    with_a_pixel,
)

CVAT_FILE = "annotations.xml"
_DEFAULT = "default"
"""Subset of the images without one."""
_NO_OBJECTS = ("tag", "polyline", "cuboid")
_OPEN_SHAPES = ("polyline", "points", "cuboid")
_GEOMETRY = frozenset(
    {"label", "points", "xtl", "ytl", "xbr", "ybr", "cx", "cy", "rx", "ry", "rle", "left", "top", "width", "height"}
)
_OF_POINTS = ("label", "points", "outside", "occluded")


class CvatFile(OutlinedFormat):
    """XML file of CVAT, or a folder with the file and its images."""

    name = "cvat"
    title = "CVAT for images 1.1"
    files = "annotations.xml and images/, or FILE.xml, with the folder of the images"
    gives = "masks, keypoints; or boxes only"
    takes = frozenset({"images_dir", "task"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the subsets."""
        file = path / CVAT_FILE if path.is_dir() else path
        if not file.is_file() or file.suffix.lower() != ".xml" or not re.search(rb"<annotations[\s>]", head_of(file)):
            return None
        if b"subset=" not in in_utf8(file.read_bytes()):
            return (NO_SPLIT,)
        found = {image.get("subset") or _DEFAULT for image in parse_xml(file).iter("image")}
        return (NO_SPLIT,) if found <= {_DEFAULT} else tuple(sorted(found))

    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Find the file; without ``options.images_dir`` images are beside it or in ``images`` beside it."""
        file = path / CVAT_FILE if path.is_dir() else path
        images_dir = file.parent if options.images_dir is None else options.images_dir
        return Located(images_dir, file, partial(read_cvat, file, images_dir, split))


def read_cvat(path: Path, images_dir: Path, subset: str) -> ShapeTable:
    """Read the images of a subset; an empty name means all.

    Raises:
        DatasetError: the file is broken or of a video, or a shape is invalid.
    """
    root = parse_xml(path)
    if root.tag != "annotations" or root.find("track") is not None:
        what = "tracks of a video" if root.tag == "annotations" else f"<{root.tag}>"
        raise DatasetError(f"{path}: expected <annotations> of images, got {what}; export as 'CVAT for images 1.1'")
    left_out = Counter[str]()
    labels = read_labels(path, root)
    files, images = ImageFiles(images_dir), [*root.iter("image")]
    own = [image for image in images if subset in ("", image.get("subset") or _DEFAULT)]
    found = [*each(own, lambda image: _image(path, image, files, labels, left_out))]
    if len(own) < len(images):  # files that subsets share are refused
        deque(each(images, lambda image: _image_file(path, image, files)), 0)
    meta = root.find("meta")
    tables = {} if meta is None else {"cvat": xml_value(meta)}
    return ShapeTable(
        path, found, labels.categories(), f"{file_digest(path)} {subset}", tables, dict(left_out), drawn_upright=True
    )


def _image(
    path: Path, image: ElementTree.Element, files: ImageFiles, labels: CvatLabels, left_out: Counter[str]
) -> AnnotatedImage:
    where = f"{path}: image {image.get('name', '')!r}"
    height, width = checked_size(where, *(int(xml_number(where, image, key)) for key in ("height", "width")))
    row: JsonRow = {"file_name": _image_file(path, image, files), "height": height, "width": width}
    attributes: JsonRow = {key: value for key, value in image.attrib.items() if key not in ("name", "width", "height")}
    shapes, others = [], []
    for i, element in enumerate(image, start=1):
        of_shape = f"{where}: shape {i} <{element.tag}>"
        if element.tag == "tag":
            attributes.setdefault("tags", []).append(_attributes(element, labels) | {"label": element.get("label")})
        elif element.tag in _OPEN_SHAPES:
            left_out[element.tag] += 1
            others.append({element.tag: xml_value(element)})
        else:
            shapes.append(_shape(of_shape, element, labels, (height, width)))
    row |= {"attributes": attributes} if attributes else {}
    return AnnotatedImage({**row, "shapes": others} if others else row, shapes)


def _image_file(path: Path, image: ElementTree.Element, files: ImageFiles) -> str:
    name, subset = image.get("name", ""), image.get("subset", "")
    where = f"{path}: image {name!r}"
    if not name:
        raise DatasetError(f"{where}: expected the name of its file, got none; export the images again")
    own = (f"images/{subset or _DEFAULT}/{name}", f"{subset or _DEFAULT}/{name}")
    plain = (name, f"images/{name}")
    places = (*((*own, *plain) if subset else (*plain, *own)), Path(name).name)
    return files.find(where, f"{subset}/{name}" if subset else name, places)


def _shape(where: str, element: ElementTree.Element, labels: CvatLabels, size: Size) -> Shape:
    name = element.get("label")
    if not name:
        raise DatasetError(f"{where}: expected a label, got none; add it")
    label = labels.get(name)
    segmentation: Any = []
    box, points = None, None
    unread: Unread = {}
    attributes = _attributes(element, labels)
    if element.tag == "polygon":
        segmentation = [[value for point in _points(where, element) for value in point]]
    elif element.tag == "ellipse":
        cx, cy, rx, ry = (xml_number(where, element, key) for key in ("cx", "cy", "rx", "ry"))
        segmentation, unread = ellipse_mask((cx, cy), (rx, ry), xml_number(where, element, "rotation", 0), size)
    elif element.tag == "mask":
        segmentation, unread = _mask(where, element, size)
    elif element.tag == "box":
        x1, y1, x2, y2 = (xml_number(where, element, key) for key in ("xtl", "ytl", "xbr", "ybr"))
        degrees = xml_number(where, element, "rotation", 0)
        box = (
            box_around(rotated_box((x1, y1, x2, y2), degrees, ((x1 + x2) / 2, (y1 + y2) / 2)))
            if degrees
            else (x1, y1, x2, y2)
        )
        if degrees:
            attributes |= joined(attributes, {"box": [[x1, y1, x2, y2]]})
    elif element.tag == "skeleton":
        found = [*_skeleton_points(where, element, label)]
        points = dict(found)
        unread = {
            FURTHER_POINTS: len(found) - len(points),
            OUTSIDE_POINTS: sum(not point[2] for _, point in found),
            POINT_VALUES: sum(_num_values(point, element) for point in element.findall("points")),
        }
        seen = [point[:2] for point in points.values() if point[2]]
        box = with_a_pixel(box_around(seen), size) if seen else None
    else:
        raise DatasetError(f"{where}: expected a polygon, ellipse, mask, box or skeleton; remove it, or draw it as one")
    group = element.get("group_id")
    group = None if group in (None, "0") else group
    return Shape(name, segmentation, box, group, attributes, False, points, where, unread=unread)


def _attributes(element: ElementTree.Element, labels: CvatLabels) -> JsonRow:
    """Return the attributes of a shape: its XML attributes except the geometry, and its ``<attribute>``s."""
    kinds = labels.get(element.get("label", "")).attribute_kinds
    found: JsonRow = {key: value for key, value in element.attrib.items() if key not in _GEOMETRY}
    for key in ("occluded", "outside"):
        if key in found and (flag := flag_of(found[key])) is not None:
            found[key] = flag
    for key in ("z_order", "group_id", "rotation"):
        if key in found:
            found[key] = _as_number(found[key])
    named: dict[str, list[Any]] = {}
    for child in element.findall("attribute"):
        name, text = child.get("name", ""), child.text or ""
        kind = kinds.get(name)
        if kind == "checkbox":
            value: object = text if (flag := flag_of(text)) is None else flag
        else:
            value = _as_number(text) if kind == "number" else text
        named.setdefault(name, []).append(value)
    return joined(found, named)


def _as_number(text: str) -> object:
    """Return the number that a text is; other texts do not change."""
    if re.fullmatch(r"-?\d+(\.\d+)?", text.strip()):
        return float(text) if "." in text else int(text)
    return text


def _points(where: str, element: ElementTree.Element) -> list[tuple[float, float]]:
    text = element.get("points", "")
    try:
        pairs = [tuple(map(float, pair.split(","))) for pair in text.split(";")]
        if not all(len(pair) == 2 and all(abs(value) <= 1e6 for value in pair) for pair in pairs):
            raise ValueError
    except ValueError:
        raise DatasetError(
            f"{where}: expected points 'x,y;x,y;...' in pixels, got {text!r:.60}; correct them"
        ) from None
    return [(pair[0], pair[1]) for pair in pairs]


def _mask(where: str, element: ElementTree.Element, size: Size) -> tuple[JsonRow, Unread]:
    """Return the run lengths of a mask; those in the file go along the rows of its box, background first."""
    left, top, width, height = (int(xml_number(where, element, key)) for key in ("left", "top", "width", "height"))
    text = element.get("rle", "")
    try:
        counts = np.array([int(count) for count in text.split(",")], np.int64)
    except (ValueError, OverflowError):
        counts = np.array([-1])
    if (counts < 0).any() or min(width, height) < 1 or counts.sum() != width * height or width * height > 1 << 30:
        raise DatasetError(
            f"{where}: expected run lengths that fill {width} x {height} pixels, got {text!r:.40}; export it again"
        )
    mask = np.repeat(np.arange(counts.size) % 2 == 1, counts).reshape(height, width)
    return paste_mask(mask, (left, top), size)


def _skeleton_points(where: str, element: ElementTree.Element, label: CvatLabel) -> Iterator[tuple[str, Point]]:
    """Yield the points of a skeleton by name; points marked ``outside`` are not labelled."""
    for point in element.findall("points"):
        name = point.get("label", "")
        if name not in label.point_names:
            raise DatasetError(
                f"{where}: expected one of the points {', '.join(label.point_names) or 'of its label'}, got {name!r}; "
                "add it to the label"
            )
        found = _points(where, point)
        is_outside, is_hidden = (xml_flag(where, key, point.get(key)) for key in ("outside", "occluded"))
        v = 0 if is_outside else 1 if is_hidden else 2
        yield name, (found[0][0], found[0][1], v)


def _num_values(point: ElementTree.Element, skeleton: ElementTree.Element) -> int:
    """Return the number of values of a point that neither a keypoint nor its skeleton has."""
    own = {*point.attrib.items()} - {*skeleton.attrib.items()}
    return len(point.findall("attribute")) + sum(key not in _OF_POINTS for key, _ in own)


@dataclass(frozen=True, slots=True)
class CvatLabel:
    """Label of a CVAT file.

    Attributes:
        name: name of the class.
        kind: ``any``, or the only kind of shape with this label, such as ``skeleton`` or ``tag``.
        point_names: names of the points of a skeleton.
        edges: pairs of joined points, counted from 1.
        attribute_kinds: ``checkbox``, ``number``, ``select``, ``radio`` or ``text`` by attribute name.
    """

    name: str
    kind: str = "any"
    point_names: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    attribute_kinds: dict[str, str] = field(default_factory=dict)


class CvatLabels:
    """Labels of a file, in file order.

    Args:
        labels: declared labels.
        used: label names of the objects, in the order of their first shapes.
    """

    def __init__(self, labels: list[CvatLabel], used: list[str]) -> None:
        self._by_name = {label.name: label for label in labels}
        for name in sorted({*used} - {*self._by_name}):
            self._by_name[name] = CvatLabel(name)
        self._used = {*used}

    def get(self, name: str) -> CvatLabel:
        """Return a label; an undeclared one has no points and attributes."""
        return self._by_name.get(name) or CvatLabel(name)

    def categories(self) -> list[JsonRow]:
        """Return the labels that objects have or may have, in COCO's form."""
        found = []
        for label in self._by_name.values():
            if label.kind not in _NO_OBJECTS or label.name in self._used:
                points = {"keypoints": [*label.point_names], "skeleton": [list(edge) for edge in label.edges]}
                found.append({"name": label.name, **(points if label.point_names else {})})
        return found


def read_labels(path: Path, root: ElementTree.Element) -> CvatLabels:
    """Read the labels that the head of a file declares, and the undeclared labels of shapes."""
    declared = [element for meta in root.findall("meta") for element in meta.findall(".//labels/label")]
    parents = {element: (element.findtext("parent") or "") for element in declared}
    labels = []
    for element in declared:
        if not parents[element] and (name := element.findtext("name")):
            names = [other.findtext("name") or "" for other in declared if parents[other] == name]
            labels.append(_label(element, name, names))
    shapes = ("polygon", "ellipse", "mask", "box", "skeleton")
    used = [shape.get("label", "") for image in root.iter("image") for shape in image if shape.tag in shapes]
    return CvatLabels(labels, [name for name in dict.fromkeys(used) if name])


def _label(element: ElementTree.Element, name: str, point_names: list[str]) -> CvatLabel:
    kinds = {
        attribute.findtext("name") or "": attribute.findtext("input_type") or "text"
        for attribute in element.findall("attributes/attribute")
    }
    edges = _edges(element.findtext("svg") or "", point_names)
    return CvatLabel(name, element.findtext("type") or "any", tuple(point_names), edges, kinds)


def _edges(drawing: str, point_names: list[str]) -> tuple[tuple[int, int], ...]:
    """Return the joined points of a skeleton's drawing; empty if it is unreadable, since edges are only displayed."""
    try:
        root = ElementTree.fromstring(f"<svg>{drawing}</svg>")
    except ElementTree.ParseError:
        return ()
    place = {name: number for number, name in enumerate(point_names, start=1)}
    node = {
        str(circle.get("data-node-id")): place.get(circle.get("data-label-name", ""), 0)
        for circle in root.iter("circle")
    }
    ends = [
        (node.get(str(line.get("data-node-from")), 0), node.get(str(line.get("data-node-to")), 0))
        for line in root.iter("line")
    ]
    return tuple(edge for edge in ends if 0 not in edge and edge[0] != edge[1])
