"""XML files of Pascal VOC, one per image: http://host.robots.ox.ac.uk/pascal/VOC/, development kit, "Annotations".

Boxes count pixels from 1 and include both ends: xmin 1 and xmax 3 are the first three pixels, 0 to 3 in pixel edges.
Fractions are read in the same way, so xmin 1.5 is 0.5 in pixel edges. Many other tools write such files with boxes that
count from 0; the files do not show the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.outlined import DrawnPhoto
from segpaste.datasets.formats.photo_facts import photo_size
from segpaste.datasets.formats.shapes import Shape
from segpaste.datasets.formats.xml_text import number, parse_xml, xml_parts
from segpaste.types.sampling import Size

_FLAGS = ("difficult", "truncated", "occluded")
_GEOMETRY = ("name", "bndbox")
_SIZE = ("filename", "size", "object")


_BEFORE_FIRST = "boxes of XML files that begin before the first pixel, which is 1, and are cut there"


def read_xml(path: Path, name: str, size_of: Callable[[], Size], class_names: Collection[str] = ()) -> DrawnPhoto:
    """Read the boxes of an image; difficult objects are ignored regions, as in VOC's evaluation of detections.

    A difficult object with the attribute ``iscrowd``, as this package writes it, is a crowd.

    Args:
        path: path of the XML file.
        name: name of the image file.
        size_of: function that returns (H, W) of the image, if the XML file does not.
        class_names: the listed classes. A name is one of them, with the blanks at its ends, or is read without blanks.

    Raises:
        DatasetError: the file is broken, or an object has no name or box.
    """
    root = parse_xml(path)
    if root.tag != "annotation":
        raise DatasetError(f"{path}: expected <annotation> of Pascal VOC, got <{root.tag}>; move the file away")
    height, width = (int(number(str(path), root, f"size/{key}", 0)) for key in ("height", "width"))
    height, width = photo_size(str(path), height, width) if height or width else size_of()
    row: JsonRow = {"file_name": name, "height": height, "width": width}
    if rest := xml_parts(root, _SIZE):
        row["attributes"] = rest
    objects = enumerate(root.findall("object"), start=1)
    shapes = [_shape(f"{path}: object {i}", element, class_names) for i, element in objects]
    return DrawnPhoto(row, shapes, path, {_BEFORE_FIRST: sum(map(_begins_before, root.findall("object")))})


def _from_zero(edge: float) -> float:
    """Return an edge that counts pixels from 1 as one that counts from 0, in its own decimals: 1.1 is 0.1."""
    return float(Decimal(repr(edge)) - 1)


def _begins_before(element: ElementTree.Element) -> bool:
    return any(float(element.findtext(f"bndbox/{key}") or 1) < 1 for key in ("xmin", "ymin"))


def region_flag(attributes: JsonRow) -> str | None:
    """Return ``iscrowd`` or ``ignore`` for a region that this package wrote as a difficult object, else None."""
    inner = attributes.get("attributes")
    rows = inner.get("attribute") if isinstance(inner, dict) else None
    every = rows if isinstance(rows, list) else [rows]
    found = [row.get("name") for row in every if isinstance(row, dict) and str(row.get("value")).strip() == "1"]
    return next((name for name in ("iscrowd", "ignore") if name in found), None)


def _shape(where: str, element: ElementTree.Element, class_names: Collection[str]) -> Shape:
    label = element.findtext("name") or ""
    label = label if label in class_names else label.strip()
    is_named = bool(label) or (element.find("name") is not None and label in class_names)
    if not is_named or element.find("bndbox") is None:
        raise DatasetError(f"{where}: expected a <name> and a <bndbox>, got {label!r:.40}; add them")
    x1, y1, x2, y2 = (number(where, element, f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax"))
    attributes = xml_parts(element, _GEOMETRY)
    for key in _FLAGS:
        if isinstance(flag := attributes.get(key), str) and flag.strip() in ("0", "1"):
            attributes[key] = int(flag)
    box = max(_from_zero(x1), 0.0), max(_from_zero(y1), 0.0), x2, y2
    is_region = attributes.get("difficult") == 1
    is_crowd = is_region and region_flag(attributes) == "iscrowd"
    return Shape(label, [], box, None, attributes, is_region and not is_crowd, None, where, is_crowd)
