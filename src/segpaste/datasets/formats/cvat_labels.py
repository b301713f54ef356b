"""Labels of a CVAT file: classes, the points of skeletons, and the kinds of attributes.

`segpaste.datasets.formats.cvat` reads the shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from segpaste.datasets.contract import JsonRow

_NO_OBJECTS = ("tag", "polyline", "cuboid")


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
