"""Format of YOLO datasets: images with a text file of boxes, polygons or keypoints each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from segpaste.datasets.formats.folders import other_labels
from segpaste.datasets.formats.format import Format, ReadOptions
from segpaste.datasets.formats.image_annotations import ImageAnnotations
from segpaste.datasets.formats.yolo.annotations import YoloAnnotations
from segpaste.datasets.formats.yolo.darknet import DATA_FILE, read_flat
from segpaste.datasets.formats.yolo.data import (
    SPLIT_KEYS,
    YAML_SUFFIXES,
    find_yaml,
    found_labels,
    images_of,
    label_path,
    read_data,
    split_folders,
)

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages


class YoloFormat(Format):
    """YOLO datasets, see `segpaste.datasets.formats.yolo.data`."""

    name = "yolo"
    title = "YOLO"
    files = "data.yaml, or images/ and labels/; or obj.data; or images, their text files and classes.txt in one folder"
    gives = "masks of polygons; or boxes only; or keypoints"
    takes = frozenset({"task"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the splits of the data YAML, or the names of the folders."""
        if path.is_file():
            is_one = path.suffix.lower() in YAML_SUFFIXES or path.name == DATA_FILE.name
            return tuple(read_data(path).splits) if is_one else None
        if find_yaml(path) is None and not (path / DATA_FILE).is_file() and read_flat(path) is None:
            folders = split_folders(path).values()
            if not folders or other_labels({path / "labels", *(label_path(f / "photo.jpg").parent for f in folders)}):
                return None
        return tuple(read_data(path).splits)

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split."""
        from segpaste.datasets.formats.yolo.dataset import YoloDataset  # with torch, for samples

        return YoloDataset(path, split, task=options.task, transforms=options.transforms)

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the annotations of a split."""
        return YoloAnnotations(path, split, task=options.task)

    def is_absent(self, path: Path, split: str) -> bool:
        """Return whether the split is ``test``, and none of its folders and lists exists."""
        return split == "test" and not any(source.exists() for source in read_data(path).splits.get(split, ()))

    def copies(self, path: Path, split: str) -> Iterator[tuple[PurePosixPath, Path]]:
        """Yield images and label files, which are copied to ``images/SPLIT`` and ``labels/SPLIT``."""
        sources = read_data(path).splits[split]
        for number, source in enumerate(sources):
            if not source.exists():
                warnings.warn(
                    f"{source}: expected the images of '{split}', found none; the split is left out", stacklevel=2
                )
                continue
            for image in images_of(source):
                below = (str(number),) if len(sources) > 1 else ()  # two folders may have images of the same name
                target = PurePosixPath("images", split, *below, _name_in(source, image))
                yield target, image
                if (labels := found_labels(image)).is_file():
                    yield PurePosixPath(label_path(Path(target)).as_posix()), labels


def _name_in(source: Path, image: Path) -> str:
    """Return the name of an image relative to the folder of its split, or for a list to its last folder ``images``."""
    if source.is_dir():
        return image.relative_to(source).as_posix()
    parts = image.parts
    last = max((i for i, part in enumerate(parts[:-1]) if part == "images"), default=len(parts) - 2)
    return PurePosixPath(*parts[last + 1 :]).as_posix()


def split_keys(names: Sequence[str], trained: str | None = None) -> dict[str, str | None]:
    """Return the key of each split in a data YAML, by name: the one that the name begins with, else None.

    ``train`` is the key of the split ``trained``, and if no name begins with a key, of all: a YAML without a split
    cannot be opened.
    """
    keys = {name: next((key for key in SPLIT_KEYS if name.lower().startswith(key)), None) for name in names}
    if trained in keys:
        keys[trained] = keys[trained] or "train"
    return keys if any(keys.values()) else dict.fromkeys(names, "train")
