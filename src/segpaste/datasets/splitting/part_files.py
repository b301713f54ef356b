"""Files of the parts of a divided dataset, in the dataset's own format.

Images, label files and maps are copied byte by byte, and only what lists them is written anew: the tables of COCO, the
data YAML of YOLO, the image sets of VOC, the lists of a declaration.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.formats.sidecar_maps import SidecarMaps
from segpaste.datasets.formats.text_files import class_list_text
from segpaste.datasets.formats.yolo.data import (
    SPLIT_KEYS,
    YAML_SUFFIXES,
    find_yaml,
    found_labels,
    label_path,
    read_yaml,
)
from segpaste.workspace import Content

Copied = tuple[PurePosixPath, Path]
"""Path of a file in the new dataset, and of the file that it is a copy of."""
Made = tuple[str, Content]
Parts = Mapping[str, Sequence[int]]
"""Indices of the images of each part, by its name."""


class PartFiles(ABC):
    """Files of the parts of a dataset of one format.

    Args:
        found: the dataset.
        split: the split that is divided.
        photos: its images.

    Attributes:
        format: name of the format that is written.
        has_rows: True if the annotations of all images are rows of one file.
        part_names: names of parts that readers of the format find; None for any.
    """

    format: str
    has_rows: ClassVar[bool] = False
    part_names: ClassVar[tuple[str, ...] | None] = None
    _LISTED: ClassVar[tuple[str, ...]] = ()
    """Files of the whole dataset that are copied if they exist."""

    def __init__(self, found: FoundDataset, split: str, photos: AnnotatedImages) -> None:
        self.found, self.split, self.photos = found, split, photos
        self.format = found.format.name

    def files(self, index: int, part: str) -> Iterator[Copied]:
        """Yield the files of an image in a part; the image is the first."""
        yield from self._own_files(index, part)
        beside = self.photos.beside
        if isinstance(beside, SidecarMaps):
            for folder, path in beside.paths(self.photos.file_name(index)).items():
                if path.is_file():
                    name = path.relative_to(beside.root / folder / beside.below).as_posix()
                    yield PurePosixPath(folder, part, name), path

    @abstractmethod
    def _own_files(self, index: int, part: str) -> Iterator[Copied]:
        """Yield image, label file and maps of an image."""

    def closing(self, parts: Parts) -> Iterator[Made]:
        """Yield the files of the whole dataset, which are written after those of the images."""
        for name in self._LISTED:
            if (file := self.found.path / name).is_file():
                yield name, file.read_bytes()

    def _name(self, index: int) -> str:
        """Return the file name of an image, which must be below a folder."""
        name = PurePosixPath(self.photos.file_name(index).replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts:
            raise DatasetError(
                f"{self.photos.annotations_file}: expected file names of images below one folder, got {str(name)!r}; "
                "convert the dataset first (segpaste convert), which copies the images to one folder"
            )
        return name.as_posix()


class YoloParts(PartFiles):
    """Images and label files of YOLO in ``images/PART`` and ``labels/PART``, with a data YAML."""

    part_names = SPLIT_KEYS

    def __init__(self, found: FoundDataset, split: str, photos: AnnotatedImages) -> None:
        super().__init__(found, split, photos)
        path = found.path
        self._yaml = find_yaml(path) if path.is_dir() else path if path.suffix.lower() in YAML_SUFFIXES else None
        paths = [os.path.abspath(photos.path_of(index)) for index in range(len(photos))]
        self._names = _below_images(paths)

    def _own_files(self, index: int, part: str) -> Iterator[Copied]:
        image, target = self.photos.path_of(index), PurePosixPath("images", part, self._names[index])
        yield target, image
        if (labels := found_labels(image)).is_file():
            yield PurePosixPath(label_path(Path(target)).as_posix()), labels

    def closing(self, parts: Parts) -> Iterator[Made]:
        """Yield the data YAML: all keys of the given one, but with the folders of the parts."""
        import yaml

        given = {} if self._yaml is None else read_yaml(self._yaml)
        kept = {key: value for key, value in given.items() if key not in ("path", "validation", *SPLIT_KEYS)}
        if self._yaml is None and self.photos.names_classes:
            kept = {"nc": len(self.photos.class_names), "names": dict(enumerate(self.photos.class_names))}
        if kept:
            document = {**{part: f"images/{part}" for part in parts}, **kept}
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
            yield "data.yaml", text.encode()


class VocParts(PartFiles):
    """Files of VOC in its folders, with an image set for each part; or XML files beside images, in a folder a part."""

    _LISTED = ("class_names.txt", "labelmap.txt")

    def __init__(self, found: FoundDataset, split: str, photos: AnnotatedImages) -> None:
        from segpaste.datasets.formats.voc.files import BOXES, JPEG_IMAGES, VocFolder

        super().__init__(found, split, photos)
        self._folder = VocFolder(found.path, split)
        self._images, self._boxes = JPEG_IMAGES, BOXES

    def _own_files(self, index: int, part: str) -> Iterator[Copied]:
        folder, name = self._folder, PurePosixPath(self._name(index))
        of_images, of_boxes = self._places(part)
        yield of_images / name, folder.images_dir / name
        if (xml := folder.xml_file(name.stem)) is not None:
            yield of_boxes / xml.name, xml
        for kind in folder.maps:
            if (file := folder.map_file(kind, name.stem)).is_file():
                yield PurePosixPath(kind, file.name), file

    def _places(self, part: str) -> tuple[PurePosixPath, PurePosixPath]:
        """Return the folders of the images and of the XML files of a part."""
        if not self._folder.is_flat:
            return PurePosixPath(self._images), PurePosixPath(self._boxes)
        are_apart = self._folder.images_dir != self._folder.boxes_dir
        return PurePosixPath("images" if are_apart else "", part), PurePosixPath("labels" if are_apart else "", part)

    def closing(self, parts: Parts) -> Iterator[Made]:
        """Yield the lists of the parts; and that of the classes, so that they have the same numbers in all parts."""
        from segpaste.datasets.formats.voc.files import VOC_CLASSES, listed_classes

        yield from super().closing(parts)
        names = list(self.photos.class_names)
        is_standard = not self._folder.is_flat and {*names} <= {*VOC_CLASSES}
        if listed_classes(self.found.path)[0] is None and not is_standard:
            yield "class_names.txt", class_list_text(["background", *names]).encode()
        if self._folder.is_flat:
            return
        kinds = ["Main"] if (self.found.path / self._boxes).is_dir() else []
        for kind in [*kinds, *(["Segmentation"] if self._folder.maps else [])]:
            for part, indices in parts.items():
                stems = [PurePosixPath(self.photos.file_name(index)).stem for index in indices]
                yield f"ImageSets/{kind}/{part}.txt", "".join(f"{stem}\n" for stem in stems).encode()


class LabelmeParts(PartFiles):
    """Images and JSON files of labelme, in a folder for each part."""

    _LISTED = ("labels.txt",)

    def _own_files(self, index: int, part: str) -> Iterator[Copied]:
        yield PurePosixPath(part, self._name(index)), self.photos.path_of(index)
        labels = self.photos.label_file(index)
        assert labels is not None
        yield PurePosixPath(part, labels.name), labels

    def closing(self, parts: Parts) -> Iterator[Made]:
        """Yield the list of classes, so that they have the same numbers in all parts."""
        found = [*super().closing(parts)]
        names = [name for name in self.photos.class_names if name != "__ignore__"]
        yield from found or [("labels.txt", "".join(f"{name}\n" for name in names).encode())]


def _below_images(paths: Sequence[str]) -> list[str]:
    """Return the name of each image below its last folder ``images``; if names repeat, below the common folder."""
    names = []
    for path in map(PurePosixPath, paths):
        last = max((i for i, part in enumerate(path.parts[:-1]) if part == "images"), default=len(path.parts) - 2)
        names.append(PurePosixPath(*path.parts[last + 1 :]).as_posix())
    if max(Counter(names).values(), default=0) > 1:
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
        names = [PurePosixPath(os.path.relpath(path, common)).as_posix() for path in paths]
    return names
