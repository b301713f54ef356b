"""Files of a Pascal VOC dataset: splits, images, XML files, maps and classes.

    JPEGImages/0001.jpg                 train/0001.jpg
    Annotations/0001.xml                train/0001.xml
    SegmentationClass/0001.png
    SegmentationObject/0001.png
    ImageSets/Segmentation/train.txt, ImageSets/Main/train.txt

The folders at the left are optional.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import NO_SPLIT
from segpaste.datasets.formats.label_folders import files_with, paired_folders
from segpaste.datasets.formats.name_lists import class_names_of, image_name_of
from segpaste.datasets.formats.text_files import read_lines, read_text
from segpaste.datasets.formats.voc.maps import BACKGROUND, VOID, Color, palette
from segpaste.datasets.formats.xml_text import head_of

PHOTOS, BOXES, CLASSES, OBJECTS = "JPEGImages", "Annotations", "SegmentationClass", "SegmentationObject"
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
        return not (self.path / PHOTOS).is_dir()

    @property
    def photos_dir(self) -> Path:
        """Folder of the images."""
        return self._flat_folders[0] if self.is_flat else self.path / PHOTOS

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

    def photo_names(self) -> dict[str, str]:
        """Return the file name of each image by its name without suffix, sorted."""
        files = (path for path in sorted(self.photos_dir.iterdir()) if path.suffix.lower() in _SUFFIXES)
        return {path.stem: path.name for path in files if path.name[0] != "."}

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
        return any(b"<object" in path.read_bytes() for path in sorted((self.path / BOXES).glob("*.xml")))

    def listed_image(self, line: str) -> str:
        """Return the name without suffix of the image in a line of a list; empty for an empty line."""
        return image_name_of(line, self._is_there, has_flags=True)

    def _is_there(self, stem: str) -> bool:
        """Return whether there is an image or an annotation file of this name."""
        is_annotated = self.xml_file(stem) is not None or any(self.map_file(m, stem).is_file() for m in self.maps)
        return is_annotated or any((self.photos_dir / f"{stem}{suffix}").is_file() for suffix in _SUFFIXES)


def find_splits(path: Path) -> tuple[str, ...] | None:
    """Return the splits of a dataset; None if there is none."""
    if not path.is_dir():
        return None
    if (path / PHOTOS).is_dir() and any((path / name).is_dir() for name in (BOXES, CLASSES, OBJECTS)):
        lists = _LISTS if (path / OBJECTS).is_dir() else _LISTS[::-1]
        for name in lists:
            found = sorted((path / "ImageSets" / name).glob("*.txt"))
            if names := [file.stem for file in found if not _is_of_class(VocFolder(path, ""), file)]:
                return tuple(names)
        return (NO_SPLIT,)
    if _has_xml(path):
        return (NO_SPLIT,)
    if pairs := paired_folders(path, _has_xml):
        return tuple(pairs)
    return tuple(folder.name for folder in sorted(path.iterdir()) if folder.is_dir() and _has_xml(folder)) or None


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
    ``class_names.txt``, one per line, see `segpaste.datasets.formats.name_lists`; None without such a file. Colours are
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
