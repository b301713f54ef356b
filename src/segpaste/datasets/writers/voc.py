"""Format of Pascal VOC: an XML of objects for each image, maps of classes and objects, and lists of images.

    JPEGImages/NAME  Annotations/NAME.xml  SegmentationClass/NAME.png  SegmentationObject/NAME.png
    ImageSets/Main/SPLIT.txt  ImageSets/Segmentation/SPLIT.txt  class_names.txt

Source: M. Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", and its development kit. Boxes count
pixels from 1 and include both ends; fractions are kept. In the maps 0 is background, 255 void, and class i is i + 1;
but if class 0 of semantic maps is named background, as in our reader, class i is i. The colours are those of the kit.
Void of semantic maps is void in the map of objects, too, as in those of the challenge.
Crowd and ignored regions are ``difficult`` objects with the attribute ``iscrowd`` or ``ignore``, and void in the maps.
An object without a mask has a box only, which is void in the maps. Attributes of objects are written as in CVAT,
further keys of images as elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.kept_shapes import num_with_points
from segpaste.datasets.formats.pixel_bytes import palette_bytes
from segpaste.datasets.formats.references import OWN_KEY
from segpaste.datasets.formats.text_files import INDENT, class_list_text
from segpaste.datasets.writers.coco import tight_xywh
from segpaste.datasets.writers.format import (
    POINTS,
    File,
    LabelledImage,
    Losses,
    View,
    WrittenFormat,
    WrittenSplit,
    count_keys,
    count_split,
    further_keys,
)
from segpaste.datasets.writers.owners import owners_of
from segpaste.types import IGNORE_INDEX

_MOST = 254
_FLAGS = ("pose", "truncated", "occluded", "difficult")
_SCALARS = (str, bool, int, float)
_OF_PHOTOS = IMAGE_KEYS | {"camera_intrinsics"}
_ELEMENTS = frozenset({"filename", "size", "object"})
"""Elements of an image that are written from its sample."""
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


class PascalVoc(WrittenFormat):
    """Pascal VOC."""

    name = "voc"
    title = "Pascal VOC"
    files = (
        "JPEGImages/NAME, Annotations/NAME.xml, SegmentationClass/NAME.png, SegmentationObject/NAME.png and "
        "ImageSets/Segmentation/SPLIT.txt"
    )
    holds = "boxes, masks that do not overlap, semantic maps, attributes"
    flat = True
    num_mapped_classes = range(_MOST + 1)
    suffixes = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
    keeps_semantic_maps = True

    def photos_dir(self, split: str) -> str:
        """Return the folder of all images."""
        return "JPEGImages"

    def folders(self, split: str) -> tuple[str, ...]:
        """Return the folders of images, boxes and maps."""
        return "JPEGImages", "Annotations", "SegmentationClass", "SegmentationObject"

    def label_files(self, image: LabelledImage, view: View, losses: Losses) -> Iterator[File]:
        """Yield the XML and, with masks, both maps."""
        yield f"Annotations/{image.stem}.xml", _xml(image, view, losses)
        if image.labelled.instance_masks is None and image.labelled.semantic_map is None:
            _count_regions(image, None, losses)
        else:
            if len(view.names) > _MOST or image.labelled.num_instances > _MOST:
                raise ValueError(
                    f"expected at most {_MOST} classes and objects in a map of VOC, got {len(view.names)} "
                    f"classes and {image.labelled.num_instances} objects; write label-maps"
                )
            classes, objects = _maps(image, view, losses)
            _count_regions(image, objects, losses)
            palette = voc_palette()
            yield f"SegmentationClass/{image.stem}.png", palette_bytes(classes, palette)
            if image.labelled.instance_masks is not None:
                yield f"SegmentationObject/{image.stem}.png", palette_bytes(objects, palette)

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield the lists of images and of classes."""
        for split in splits:
            count_split(losses, split)
            stems = [row.image["file_name"].rpartition(".")[0] for row in split.rows()]
            for folder in ("Main", "Segmentation"):
                yield f"ImageSets/{folder}/{split.name}.txt", "".join(f"{stem}\n" for stem in stems).encode()
        view = splits[0].view
        names = [*(["_background_"] if view.first_value else []), *view.names]
        yield "class_names.txt", class_list_text(names).encode()


def voc_palette() -> NDArray[np.uint8]:
    """Return the colours of the development kit, [256, 3]: bits of the index become the high bits of the channels."""
    index = np.arange(256)
    palette = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            palette[:, channel] |= ((index >> (3 * bit + channel) & 1) << (7 - bit)).astype(np.uint8)
    return palette


def _maps(image: LabelledImage, view: View, losses: Losses) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the maps of classes and of objects, [H, W].

    Raises:
        ValueError: an object has the class of the background.
    """
    sample, first = image.labelled, view.first_value
    if not first and (sample.labels == 0).any():
        raise ValueError(
            f"expected no object of the class {view.names[0]!r}, whose value 0 is the background of VOC's maps, "
            "got one; rename the class"
        )
    objects = np.zeros(sample.canvas_size, np.uint8)
    if sample.instance_masks is not None:
        objects = (owners_of(sample, losses) + 1).astype(np.uint8)
    free = objects == 0
    classes = np.array([0, *(sample.labels + first).tolist()], np.uint8)[objects]
    if sample.semantic_map is not None:
        semantic = sample.semantic_map.as_subclass(Tensor).numpy()
        stuff = np.where(semantic == IGNORE_INDEX, IGNORE_INDEX, semantic + first).astype(np.uint8)
        np.copyto(classes, stuff, where=free)
        objects[free & (classes == IGNORE_INDEX) & ~_in_boxes(image)] = IGNORE_INDEX
    for crowd, _ in image.crowds:
        hidden = crowd.mask & free
        classes[hidden] = objects[hidden] = IGNORE_INDEX
    return classes, objects


def _in_boxes(image: LabelledImage) -> NDArray[np.bool_]:
    """Return the pixels in the boxes of crowd and ignored regions, [H, W]; readers take void there for the region."""
    found = np.zeros(image.labelled.canvas_size, bool)
    for crowd, _ in image.regions:
        left, top, width, height = tight_xywh(crowd.mask)
        found[top : top + height, left : left + width] = True
    return found


def _count_regions(image: LabelledImage, objects: NDArray[np.uint8] | None, losses: Losses) -> None:
    """Count the regions whose mask is not the void in its box, or without a map not the whole box."""
    for crowd, _ in image.regions:
        if crowd.mask.any():
            left, top, width, height = tight_xywh(crowd.mask)
            box = slice(top, top + height), slice(left, left + width)
            seen = True if objects is None else objects[box] == IGNORE_INDEX
            losses["exact masks of crowd and ignored regions"] += int((crowd.mask[box] != seen).any())
        else:
            losses["ignored regions" if crowd.is_ignored else "crowd regions"] += 1


def _xml(image: LabelledImage, view: View, losses: Losses) -> bytes:
    sample = image.labelled
    height, width = sample.canvas_size
    root = ElementTree.Element("annotation")
    further = _further_elements(image, view, losses)
    for key, value in [*further, ("filename", image.file_name)]:
        _add(root, key, value)
    size = ElementTree.SubElement(root, "size")
    for key, side in {"width": width, "height": height, "depth": 3}.items():
        _add(size, key, side)
    _add(root, "segmented", int(sample.instance_masks is not None))
    boxes = sample.boxes.as_subclass(Tensor).tolist()
    for slot, shape in enumerate(image.kept):
        if (given_box := shape.entry.get("bbox")) is not None:
            x, y, across, down = given_box
            boxes[slot] = [x, y, _sum(x, across), _sum(y, down)]
    names = list(view.names)
    for label, box, row in zip(sample.labels.tolist(), boxes, image.rows, strict=True):
        _add_object(root, names[label], box, row, losses)
    for crowd, box, row in image.boxed:
        if crowd.given is not None:
            x, y, across, down = crowd.given
            box = x, y, _sum(x, across), _sum(y, down)
        _add_object(root, names[crowd.label], box, row, losses)
    for crowd, row in image.regions:
        if crowd.mask.any():
            kind = {"ignore": 1} if crowd.is_ignored else {"iscrowd": 1}
            left, top, width, height = tight_xywh(crowd.mask)
            box = (left, top, left + width, top + height)
            _add_object(root, names[crowd.label], box, row, losses, kind)
    of_xml = [] if sample.instance_masks is not None else sample.labels.tolist()
    of_xml += [crowd.label for crowd, _ in image.crowds]
    if num := sum(names.index(names[label]) != label for label in of_xml):
        losses["numbers of classes whose name stands twice"] += num
    losses[POINTS] += num_with_points(sample, image.rows or [{}] * sample.num_instances)
    ElementTree.indent(root, "\t")
    text: bytes = ElementTree.tostring(root, "utf-8")
    return text.replace(b"\r", b"&#13;") + b"\n"


def _further_elements(image: LabelledImage, view: View, losses: Losses) -> list[tuple[str, object]]:
    """Return the further elements of an image, its keys and its attributes, and count those that XML cannot hold."""
    row = {key: value for key, value in further_keys(image, view).items() if key not in _OF_PHOTOS}
    given = row.pop("attributes") if isinstance(row.get("attributes"), dict) else {}
    found: list[tuple[str, object]] = [] if "folder" in {**row, **given} else [("folder", "VOC")]
    for key, value in _every(row, given.items()):
        is_repeated = isinstance(value, list) and len(value) > 1 and key in given  # as elements of equal names are read
        values = value if isinstance(value, list) and is_repeated else [value]
        if key == "segmented" and str(value) in ("0", "1"):
            continue  # says whether there are maps
        is_provenance = key == OWN_KEY and isinstance(value, dict)
        if key not in _ELEMENTS and not is_provenance and all(_is_tree(key, one) for one in values):
            found += [(key, one) for one in values]
        else:
            count_keys(losses, "images", [{key: value}], ())
    return found


def _every(row: JsonRow, *others: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    """Return the keys of an entry and of its attributes with their values; the same value of a key stands once."""
    found = list(row.items())
    for pairs in others:
        found += [pair for pair in pairs if pair not in [known for known in found if known[0] == pair[0]]]
    return found


def _sum(one: float, other: float) -> float:
    """Return the sum of two numbers, rounded as binary or as decimal, whichever is shorter: 1.1 + 5.7 is 6.8."""
    return min((one + other, float(Decimal(repr(one)) + Decimal(repr(other)))), key=lambda found: len(repr(found)))


def _xml_name(name: str) -> str:
    """Return the name of a class; raise `ValueError` if XML cannot hold it."""
    if _NOT_XML.search(name):
        raise ValueError(f"expected class names of characters that XML can hold, got {name!r}; rename the class")
    return name


def _add_object(
    root: ElementTree.Element,
    name: str,
    box: Sequence[float],
    row: JsonRow,
    losses: Losses,
    kind: JsonRow | None = None,
) -> None:
    """Add an object: its flags, its box (x1, y1, x2, y2) in pixel edges, and its attributes.

    A ``kind`` is the attribute of a region. Values of flags that their elements do not hold are further attributes.
    """
    item = ElementTree.SubElement(root, "object")
    _add(item, "name", _xml_name(name))
    values = _values(row)
    flags = {key: _flag_of(values, key, kind) for key in _FLAGS}
    for key, default in zip(_FLAGS, ("Unspecified", 0, 0, 0), strict=True):
        _add(item, key, default if flags[key] is None else flags[key])
    x1, y1, x2, y2 = box
    edges = ElementTree.SubElement(item, "bndbox")
    for key, edge in {"xmin": x1 + 1, "ymin": y1 + 1, "xmax": x2, "ymax": y2}.items():
        _add(edges, key, int(edge) if float(edge).is_integer() else edge)
    held, lost = _held(values, kind or {})
    for key, value in lost:
        count_keys(losses, "annotations", [{key: value}], ())
    if held:
        attributes = ElementTree.SubElement(item, "attributes")
        for key, value in held:
            attribute = ElementTree.SubElement(attributes, "attribute")
            _add(attribute, "name", key)
            if value is not None:
                _add(attribute, "value", value)


def _values(row: JsonRow) -> list[tuple[str, object]]:
    """Return the further keys of an entry, and its attributes, with their values; a name may stand several times."""
    others = {key: value for key, value in row.items() if key not in REGION_KEYS | POINT_KEYS}
    given = others.pop("attributes") if isinstance(others.get("attributes"), dict) else {}
    flat, inner = _flat(given)
    return _every(others, flat.items(), inner)


def _flag_of(values: list[tuple[str, object]], key: str, kind: JsonRow | None) -> object:
    """Take a flag of an object out of its values: the first one that its element can hold; None without one.

    Readers take a difficult object for an ignored region, so only a region, which has a ``kind``, is difficult.
    """
    of_kind = int(kind is not None)
    for pair in [pair for pair in values if pair[0] == key]:
        value = pair[1]
        if value is None or (key == "difficult" and value in (of_kind, str(of_kind))):
            values.remove(pair)
        elif key != "difficult" and _is_scalar(value):
            values.remove(pair)
            return int(value) if isinstance(value, bool) else value
    return of_kind if key == "difficult" else None


def _held(values: list[tuple[str, object]], kind: JsonRow) -> tuple[list[tuple[str, object]], list[tuple[str, object]]]:
    """Return the attributes that XML holds, and the others; of the flags of regions, that of the ``kind`` only."""
    held, lost = list[tuple[str, object]](), list[tuple[str, object]]()
    for key, value in values:
        is_flag = bool(kind) and key in ("iscrowd", "ignore")
        if is_flag and str(value) == str(kind.get(key)):
            continue
        is_held = _is_scalar(key) and (value is None or _is_scalar(value)) and not is_flag
        (held if is_held else lost).append((key, value))
    return [*held, *kind.items()], lost


def _flat(attributes: JsonRow) -> tuple[JsonRow, list[tuple[str, object]]]:
    """Split attributes into their values, and the pairs of those that were read from an XML of this form."""
    flat = {key: value for key, value in attributes.items() if key != "attributes"}
    inner = attributes.get("attributes")
    rows = inner.get("attribute") if isinstance(inner, dict) else None
    rows = rows if isinstance(rows, list) else [rows]
    if all(isinstance(row, dict) and "name" in row and {*row} <= {"name", "value"} for row in rows):
        return flat, [(str(row["name"]), row.get("value")) for row in rows]
    return attributes, []


def _is_tree(key: str, value: object) -> bool:
    """Return whether an element of this name can hold a value, which is a scalar or a mapping of further elements."""
    if isinstance(value, dict):
        return bool(_NAME.fullmatch(key)) and all(_is_tree(inner, part) for inner, part in value.items())
    return bool(_NAME.fullmatch(key)) and (value is None or _is_scalar(value))


def _is_scalar(value: object) -> bool:
    """Return whether a value is a text that XML can hold, without line breaks at its ends, or a number."""
    is_other = isinstance(value, str) and (_NOT_XML.search(value) or INDENT.search(value))
    return isinstance(value, _SCALARS) and not is_other


def _add(parent: ElementTree.Element, key: str, value: object) -> None:
    """Add an element with a text or further elements."""
    element = ElementTree.SubElement(parent, key)
    if isinstance(value, dict):
        for inner, part in value.items():
            _add(element, inner, part)
    elif value is not None:
        element.text = _NOT_XML.sub("", str(value))
