"""Traits of the XML files of Pascal VOC, which are read again here, as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from types import MappingProxyType
from xml.etree.ElementTree import Element

from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject
from segpaste.datasets.checking.tools.trait import ListedSplit, Place, Trait
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.formats.text_files import parse_xml

_SIDES = ("width", "height")


def _xml(image: ListedImage, objects: Sequence[ListedObject]) -> Element | None:
    """Return the XML of an image with objects; None without one, or if it cannot be read."""
    file = image.label_file
    with suppress(DatasetError):
        return parse_xml(file) if objects and file is not None and file.suffix == ".xml" else None
    return None


def _no_filename(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    xml = _xml(image, objects)
    return xml is not None and not xml.findtext("filename")


def _other_filename(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    xml = _xml(image, objects)
    said = None if xml is None else xml.findtext("filename")
    return bool(said) and said != PurePosixPath(image.name).name


def _no_size(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    xml = _xml(image, objects)
    return xml is not None and not all(xml.findtext(f"size/{side}") for side in _SIDES)


def _swapped_box(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether a box has its corners in another order than top left, bottom right."""
    xml = _xml(image, objects)
    return xml is not None and any(map(_is_swapped, xml.findall("object/bndbox")))


def _is_swapped(box: Element) -> bool:
    with suppress(TypeError, ValueError):  # an edge that is no number is a finding of the check
        x1, y1, x2, y2 = (float(box.findtext(edge) or "") for edge in ("xmin", "ymin", "xmax", "ymax"))
        return x2 < x1 or y2 < y1
    return False


def _difficult(split: ListedSplit) -> Iterator[Place]:
    """Yield the regions of VOC's files, which are difficult objects."""
    found = split.listing.objects if split.listing.format == "voc" else ()
    yield from (Place(of.image, of.id) for of in found if of.is_crowd)


OF_VOC: Mapping[str, Trait] = MappingProxyType(
    {
        "difficult": Trait("objects that are marked as difficult", of_split=_difficult),
        "no_filename": Trait("images whose XML file does not name them", of_image=_no_filename),
        "other_filename": Trait("images whose XML file names another file", of_image=_other_filename),
        "no_size": Trait("images whose XML file has no size", of_image=_no_size),
        "swapped_box": Trait("images with a box whose corners are in the other order", of_image=_swapped_box),
    }
)
"""Traits of the XML files of Pascal VOC."""
