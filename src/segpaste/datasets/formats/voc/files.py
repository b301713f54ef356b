"""Files of a Pascal VOC dataset: splits, images, XML files, maps and classes.

    JPEGImages/0001.jpg                 train/0001.jpg
    Annotations/0001.xml                train/0001.xml
    SegmentationClass/0001.png
    SegmentationObject/0001.png
    ImageSets/Segmentation/train.txt, ImageSets/Main/train.txt

The folders at the left are optional. A label map has one index per pixel, as palette or grey PNG, or as the colours of
the palette. 0 is the background and 255 is void: borders between objects, and unlabelled pixels.

XML files are described at http://host.robots.ox.ac.uk/pascal/VOC/, development kit, "Annotations". Boxes count pixels
from 1 and include both ends: xmin 1 and xmax 3 are the first three pixels, 0 to 3 in pixel edges. Fractions are read in
the same way, so xmin 1.5 is 0.5 in pixel edges. Many other tools write such files with boxes that count from 0; the
files do not show the difference.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import files_with, folders_in, paired_folders
from segpaste.datasets.formats.format import NO_SPLIT
from segpaste.datasets.formats.image_files import header_size
from segpaste.datasets.formats.outlined import AnnotatedImage
from segpaste.datasets.formats.stored_pixels import Color, color_code, color_of, one_channel, packed_colors, read_stored
from segpaste.datasets.formats.text_files import (
    class_names_of,
    flag_of,
    head_of,
    image_name_of,
    parse_xml,
    read_lines,
    read_text,
    xml_flag,
    xml_number,
    xml_parts,
)
from segpaste.datasets.formats.tool_shapes import FURTHER_PARTS, READ_AS_BOXES, Shape, checked_size

BACKGROUND, VOID = 0, 255
OTHER_VOID = "void of maps of objects that is not void in maps of classes, in images"
VOID_OF_CLASSES = "void of maps of classes that is not void in maps of objects, in images"
"""Description of what only a written VOC changes, whose maps of objects have that void, too."""


@cache
def palette() -> dict[Color, int]:
    """Return the index of each of the 256 colours of VOC's maps.

    Three bits of the index are the top bits of red, green and blue, the next three the bits below, and so on.
    """
    found = {}
    for index in range(256):
        channels = [sum((index >> (3 * bit + channel) & 1) << (7 - bit) for bit in range(3)) for channel in range(3)]
        found[channels[0], channels[1], channels[2]] = index
    return found


def map_facts(path: Path) -> tuple[Size, str]:
    """Return (H, W) of a map from its file header, and the SHA-256 of the file."""
    try:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if (size := header_size(content)) is not None:
            return size, digest
        with Image.open(BytesIO(content)) as picture:
            return (picture.height, picture.width), digest
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected a label map, found no such file; add it, or correct the list") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a label map, got another file ({error}); replace it") from error


def read_map(path: Path, size: Size, colors: Mapping[Color, int]) -> NDArray[np.integer]:
    """Read a map.

    Optimisers of PNG files reorder a palette and shorten it to the used colours. The indices of such a file are those
    of its colours.

    Args:
        path: its file.
        size: (H, W) of the image.
        colors: the index of each colour, for maps in colours and for reordered palettes.

    Returns:
        [H, W], of the file's own type if it has indices.

    Raises:
        DatasetError: the file is missing or broken, has another size, or has an unknown colour.
    """
    stored = read_stored(path)
    values = one_channel(stored.values)
    if values.shape[:2] != size:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels like the image, got {values.shape[1]} x {values.shape[0]}; "
            "use the map of this image"
        )
    if values.ndim == 3 and values.shape[2] > 2 and values.dtype == np.uint8:
        return _indices(path, values, colors)
    if values.ndim != 2 or values.dtype.kind not in "iu":
        raise DatasetError(
            f"{path}: expected a label map of indices or colours, got {values.dtype} {list(values.shape)}; save it as "
            "PNG with a palette"
        )
    is_reordered = stored.palette is not None and _is_reordered(stored.palette, colors)
    if is_reordered and stored.palette is not None:
        return _indices(path, stored.palette[values], colors)
    return values


def _is_reordered(palette_of_file: NDArray[np.uint8], colors: Mapping[Color, int]) -> bool:
    """Return whether a palette has each of its colours once, all of them known, and some at another index."""
    entries = [(red, green, blue) for red, green, blue in palette_of_file.tolist()]
    are_known = len({*entries}) == len(entries) and {*entries} <= {*colors}
    return are_known and any(colors[color] != index for index, color in enumerate(entries))


def _indices(path: Path, values: NDArray[Any], colors: Mapping[Color, int]) -> NDArray[np.int64]:
    codes, places = np.unique(packed_colors(values), return_inverse=True)
    wanted = {color_code(color): index for color, index in colors.items()}
    if missing := [code for code in codes.tolist() if code not in wanted]:
        raise DatasetError(
            f"{path}: expected the colours of the label map, got {color_of(missing[0])}; add it to labelmap.txt"
        )
    found: NDArray[np.int64] = np.array([wanted[code] for code in codes.tolist()])[places.reshape(values.shape[:2])]
    return found


JPEG_IMAGES, BOXES, CLASSES, OBJECTS = "JPEGImages", "Annotations", "SegmentationClass", "SegmentationObject"
VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable"),
    *("dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""Classes of VOC, whose indices in its maps are 1 to 20."""
_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"),
    *(".jfif", ".jpe", ".mpo", ".gif", ".avif", ".jp2"),
)
_LISTS = ("Segmentation", "Main")
_OF_CLASS = re.compile(r"_(train|val|trainval|test)$")
_OF_LABEL_MAP = re.compile(r"(.*?)(?::(\s*\d+\s*,\s*\d+\s*,\s*\d+\s*)?(?::[^:]*){0,2})?")


@dataclass(frozen=True, slots=True)
class VocFolder:
    """Split of a dataset.

    Attributes:
        path: path of the dataset.
        split: name of the split, or `NO_SPLIT`.
    """

    path: Path
    split: str

    @property
    def is_flat(self) -> bool:
        """True if XML files are beside their images."""
        return not (self.path / JPEG_IMAGES).is_dir()

    @property
    def images_dir(self) -> Path:
        """Folder of the images."""
        return self._flat_folders[0] if self.is_flat else self.path / JPEG_IMAGES

    @property
    def boxes_dir(self) -> Path:
        """Folder of the XML files."""
        return self._flat_folders[1] if self.is_flat else self.path / BOXES

    @property
    def _flat_folders(self) -> tuple[Path, Path]:
        """Folders of the images and of the XML files, which are one unless they are ``images`` and ``labels``."""
        both = self.path / self.split
        return (both, both) if _has_xml(both) else paired_folders(self.path, _has_xml).get(self.split, (both, both))

    @property
    def has_objects(self) -> bool:
        """True if there are maps of objects."""
        return not self.is_flat and (self.path / OBJECTS).is_dir()

    @property
    def has_classes(self) -> bool:
        """True if there are maps of classes."""
        return not self.is_flat and (self.path / CLASSES).is_dir()

    def xml_file(self, stem: str) -> Path | None:
        """Return the XML file of an image; None if there is none."""
        paths = (self.boxes_dir / f"{stem}{suffix}" for suffix in (".xml", ".XML"))
        return next((path for path in paths if path.is_file()), None)

    @property
    def maps(self) -> list[str]:
        """Existing folders of maps, that of the objects first."""
        return [name for name, is_there in ((OBJECTS, self.has_objects), (CLASSES, self.has_classes)) if is_there]

    def map_file(self, folder: str, stem: str) -> Path:
        """Return the map of an image in one of the folders of maps."""
        path = self.path / folder / f"{stem}.png"
        return path if path.is_file() or not (upper := path.with_suffix(".PNG")).is_file() else upper

    def image_names(self) -> dict[str, list[str]]:
        """Return the file names of images by their name without suffix, sorted."""
        files = (path for path in self.images_dir.iterdir() if path.suffix.lower() in _SUFFIXES)
        names = sorted((path.stem, path.name) for path in files if path.name[0] != ".")
        return {stem: [name for _, name in same] for stem, same in groupby(names, itemgetter(0))}

    def stems(self, are_masks: bool) -> list[str]:
        """Return the names of the images of the split without suffix.

        They are in the order of its list; without a list, all annotated images are sorted by name.
        """
        lists = _LISTS if are_masks else _LISTS[::-1]
        for name in lists:
            if (path := self.path / "ImageSets" / name / f"{self.split}.txt").is_file():
                stems = map(self.listed_image, read_lines(path))
                return list(dict.fromkeys(stem for stem in stems if stem))
        if self.is_flat:
            return [path.stem for path in files_with(self.boxes_dir, ".xml")]
        folder, suffix = (self.maps[0], ".png") if are_masks else (BOXES, ".xml")
        return [path.stem for path in files_with(self.path / folder, suffix)]

    def has_boxes(self) -> bool:
        """Return whether an XML file of the folder has an object; files of semantic maps have none."""
        return any(b"<object" in path.read_bytes() for path in files_with(self.path / BOXES, ".xml"))

    def listed_image(self, line: str) -> str:
        """Return the name without suffix of the image in a line of a list; empty for an empty line."""
        return image_name_of(line, self._is_there, has_flags=True)

    def _is_there(self, stem: str) -> bool:
        """Return whether there is an image or an annotation file of this name."""
        is_annotated = self.xml_file(stem) is not None or any(self.map_file(m, stem).is_file() for m in self.maps)
        return is_annotated or any((self.images_dir / f"{stem}{suffix}").is_file() for suffix in _SUFFIXES)


def find_splits(path: Path) -> tuple[str, ...] | None:
    """Return the splits of a dataset; None if there is none."""
    if not path.is_dir():
        return None
    if (path / JPEG_IMAGES).is_dir() and any((path / name).is_dir() for name in (BOXES, CLASSES, OBJECTS)):
        lists = _LISTS if (path / OBJECTS).is_dir() else _LISTS[::-1]
        for name in lists:
            found = (file for file in files_with(path / "ImageSets" / name, ".txt") if file.suffix == ".txt")
            if names := [file.stem for file in found if not _is_of_class(VocFolder(path, ""), file)]:
                return tuple(names)
        return (NO_SPLIT,)
    if _has_xml(path):
        return (NO_SPLIT,)
    if pairs := paired_folders(path, _has_xml):
        return tuple(pairs)
    return tuple(folder.name for folder in folders_in(path) if _has_xml(folder)) or None


def _is_of_class(folder: VocFolder, file: Path) -> bool:
    """Return whether a list is that of one class in another list, such as ``cup_train``: images with flags, or none."""
    if _OF_CLASS.search(file.stem) is None:
        return False
    first = next((line for line in read_lines(file) if line.strip()), None)
    return first is None or folder.listed_image(first) != first.strip()


def _has_xml(folder: Path) -> bool:
    """Return whether the first XML file of a folder is one of VOC."""
    first = next(iter(files_with(folder, ".xml")), None)
    return first is not None and re.search(rb"<annotation[\s>]", head_of(first)) is not None


def listed_classes(path: Path) -> tuple[list[str] | None, dict[Color, int]]:
    """Return the classes of the maps by index, the background first, and the index of each colour.

    They are those of CVAT's ``labelmap.txt`` (``name:red,green,blue:parts:actions``) or of labelme's
    ``class_names.txt``, one per line, see `segpaste.datasets.formats.text_files`; None without such a file. Colours are
    those of the label map, else VOC's.

    Raises:
        DatasetError: a line of the label map is invalid.
    """
    if (file := path / "class_names.txt").is_file():
        return class_names_of(read_text(file)), palette()
    if not (file := path / "labelmap.txt").is_file():
        return None, palette()
    names: list[str] = []
    colors: dict[Color, int] = {}
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _OF_LABEL_MAP.fullmatch(line)
        if match is None or (match[2] is None and ":" in match[1]):
            raise DatasetError(f"{file}: line {number}: expected NAME:RED,GREEN,BLUE::, got {line!r:.60}; correct it")
        name, color = match.groups()
        if color is not None:
            red, green, blue = map(int, color.split(","))
            colors[red, green, blue] = len(names)
        names.append(name.strip())
    void = next(color for color, index in palette().items() if index == VOID)
    background = next((i for i, name in enumerate(names) if name.strip("_").lower() == "background"), BACKGROUND)
    if background != BACKGROUND:
        raise DatasetError(
            f"{file}: expected the background first, got it as number {background + 1}; move its line up"
        )
    return names, {void: VOID, **colors}


_FLAGS = ("difficult", "truncated", "occluded")
_GEOMETRY, _EDGES = ("name", "bndbox"), ("xmin", "ymin", "xmax", "ymax")
_SIZE = ("filename", "size", "object")
_BEFORE_FIRST = "boxes of XML files that begin before the first pixel, which is 1, and are cut there"


def read_xml(path: Path, name: str, size_of: Callable[[], Size], class_names: Collection[str] = ()) -> AnnotatedImage:
    """Read the boxes of an image; difficult objects are ignored regions, as in VOC's evaluation of detections.

    A difficult object with the attribute ``iscrowd``, as this package writes it, is a crowd.

    Args:
        path: path of the XML file.
        name: name of the image file.
        size_of: function that returns (H, W) of the image, if the XML file does not.
        class_names: the listed classes. A name is one of them, with the blanks at its ends, or is read without blanks.

    Raises:
        DatasetError: the file is broken, an object has no name or box, or ``difficult`` is no flag.
    """
    root = parse_xml(path)
    if root.tag != "annotation":
        raise DatasetError(f"{path}: expected <annotation> of Pascal VOC, got <{root.tag}>; move the file away")
    said = root.find("size")
    sides = [0 if said is None else int(xml_number(f"{path}: <size>", said, key, 0)) for key in ("height", "width")]
    height, width = checked_size(str(path), *sides) if any(sides) else size_of()
    row: JsonRow = {"file_name": name, "height": height, "width": width}
    if rest := xml_parts(root, _SIZE):
        row["attributes"] = rest
    objects = root.findall("object")
    shapes = [_shape(f"{path}: object {i}", element, class_names) for i, element in enumerate(objects, start=1)]
    unread = {_BEFORE_FIRST: sum(map(_begins_before, objects)), READ_AS_BOXES: sum(map(_has_finer_shape, objects))}
    unread[FURTHER_PARTS] = sum(len(element.findall(key)) - 1 for element in objects for key in _GEOMETRY)
    return AnnotatedImage(row, shapes, path, unread)


def _from_zero(edge: float) -> float:
    """Return an edge that counts pixels from 1 as one that counts from 0, in its own decimals: 1.1 is 0.1."""
    return float(Decimal(repr(edge)) - 1)


def _begins_before(element: ElementTree.Element) -> bool:
    edges = element.find("bndbox")
    return edges is not None and any(float(edges.findtext(key) or 1) < 1 for key in _EDGES)


def _has_finer_shape(element: ElementTree.Element) -> bool:
    shapes = (*element.findall("polygon"), *element.findall("robndbox"))
    return any(len(shape) or (shape.text or "").strip() for shape in shapes)


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
    edges = element.find("bndbox")
    if not is_named or edges is None:
        raise DatasetError(f"{where}: expected a <name> and a <bndbox>, got {label!r:.40}; add them")
    x1, y1, x2, y2 = (xml_number(f"{where}: <bndbox>", edges, key) for key in _EDGES)
    (x1, x2), (y1, y2) = ((b, a) if a - 1 > b else (a, b) for a, b in ((x1, x2), (y1, y2)))  # some tools swap them
    attributes = xml_parts(element, _GEOMETRY)
    for key in _FLAGS:
        if isinstance(text := attributes.get(key), str) and (flag := flag_of(text)) is not None:
            attributes[key] = int(flag)
    box = max(_from_zero(x1), 0.0), max(_from_zero(y1), 0.0), x2, y2
    is_region = any(xml_flag(where, "difficult", flag.text) for flag in element.findall("difficult"))
    is_crowd = is_region and region_flag(attributes) == "iscrowd"
    return Shape(label, [], box, None, attributes, is_region and not is_crowd, None, where, is_crowd)
