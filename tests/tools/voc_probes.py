"""Probes of Pascal VOC's XML files, which have boxes: ``JPEGImages/``, ``Annotations/``, ``ImageSets/Main/train.txt``.

Boxes count pixels from 1, and include both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree as Xml

from painted import ORDINARY, WIDTH, Object, Picture, Probe

_PLAIN, _SECOND = (replace(of, form="box") for of in ORDINARY)
_ORDINARY = Picture("ordinary.png", (_PLAIN, _SECOND))


@dataclass(frozen=True)
class VocProbe(Probe):
    """Probe of XML files that are changed before they are written.

    Attributes:
        change: changes the XML of an image with the trait.
    """

    change: Callable[[Xml.Element], object] = field(default=lambda xml: None)
    ordinary: Picture = _ORDINARY


def _special(change: Callable[[Xml.Element], object]) -> VocProbe:
    return VocProbe((Picture(objects=(_PLAIN, _SECOND)),), change=change)


def _set(path: str, text: str) -> VocProbe:
    """Return a probe with another text of the first element of a path."""

    def change(xml: Xml.Element) -> None:
        found = xml.find(path)
        assert found is not None
        found.text = text

    return _special(change)


def _without(path: str) -> VocProbe:
    """Return a probe without the elements of a name, below the first element of a path."""
    above, _, name = path.rpartition("/")

    def change(xml: Xml.Element) -> None:
        place = xml.find(above) if above else xml
        assert place is not None
        for found in place.findall(name):
            place.remove(found)

    return _special(change)


def _swap(xml: Xml.Element) -> None:
    """Give the box of the first object its corners in the other order."""
    for one, other in (("xmin", "xmax"), ("ymin", "ymax")):
        first, last = xml.find(f"object/bndbox/{one}"), xml.find(f"object/bndbox/{other}")
        assert first is not None
        assert last is not None
        first.text, last.text = last.text, first.text


def voc_probes(shared: Mapping[str, Probe]) -> dict[str, Probe]:
    """Return the probes, given those of images of all formats."""
    drawn = {
        name: VocProbe(tuple(replace(picture, objects=_boxed(picture)) for picture in probe.pictures))
        for name, probe in shared.items()
        if name not in ("box_only", "same_stem", "subfolder", "same_name")
    }
    region = replace(_PLAIN, is_crowd=True)
    return {
        **drawn,
        "difficult": VocProbe((Picture(objects=(region, _SECOND)),)),
        "other_filename": _set("filename", "photo.png"),
        "no_filename": _without("filename"),
        "no_size": _without("size"),
        "swapped_box": _special(_swap),
        "first_object": _special(lambda xml: None),
        "any_object": _special(lambda xml: None),
    }


def _boxed(picture: Picture) -> tuple[Object, ...]:
    return tuple(replace(of, form="box") for of in picture.objects)


def write_voc(probe: Probe, folder: Path) -> None:
    """Write the XML files, and the list of the images."""
    assert isinstance(probe, VocProbe)
    (folder / "Annotations").mkdir()
    for picture in probe.images:
        xml = _xml_of(picture)
        if picture in probe.pictures:
            probe.change(xml)
        Xml.ElementTree(xml).write(folder / "Annotations" / f"{Path(picture.name).stem}.xml")
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    stems = "".join(f"{Path(picture.name).stem}\n" for picture in probe.images)
    (folder / "ImageSets" / "Main" / "train.txt").write_text(stems)


def _xml_of(picture: Picture) -> Xml.Element:
    xml = Xml.Element("annotation")
    _add(xml, {"folder": "JPEGImages", "filename": picture.name})
    _add(Xml.SubElement(xml, "size"), {"width": WIDTH, "height": picture.height, "depth": 3})
    for found in picture.objects:
        x, y, width, height = map(round, found.box())
        row = Xml.SubElement(xml, "object")
        flags = {"pose": "Unspecified", "truncated": 0, "difficult": int(found.is_crowd)}
        _add(row, {"name": ("cat", "dog", "bird")[found.label], **flags})
        edges = {"xmin": x + 1, "ymin": y + 1, "xmax": x + width, "ymax": y + height}
        _add(Xml.SubElement(row, "bndbox"), edges)
    return xml


def _add(element: Xml.Element, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        Xml.SubElement(element, name).text = str(value)
