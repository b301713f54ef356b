"""Base of the written formats: the folders of images, the files of each image, and the files after all images.

A format is one class in one file, listed in `segpaste.datasets.formats.written.registry`. It turns samples and entries
into the contents of files; `segpaste.datasets.conversion` and `segpaste augment` write them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from segpaste.datasets.contract import Crowd, JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.coco_writer import SampleRows
from segpaste.datasets.formats.format import WrittenTask
from segpaste.datasets.formats.name_lists import is_background
from segpaste.types import DenseSample, KeypointSchema
from segpaste.workspace import Content

Losses = Counter[str]
"""Counts of lost annotations by description."""
File = tuple[str, Content]
"""Path of a file, relative to the dataset's folder, and its content."""


@dataclass(frozen=True, slots=True)
class LabelForm:
    """Form of the labels of a dataset, which is the same in all splits.

    Attributes:
        class_names: names of the classes.
        task: task of YOLO labels.
        point_size: numbers per keypoint of YOLO labels.
        schema: schema of the keypoints; None without keypoints.
        has_semantic_maps: True if samples have semantic maps.
        source_yaml: the keys of the data YAML of a converted YOLO dataset that are still true.
    """

    class_names: Sequence[str]
    task: WrittenTask = "segment"
    point_size: int = 3
    schema: KeypointSchema | None = None
    has_semantic_maps: bool = False
    source_yaml: JsonRow | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPhoto:
    """Image with its labels.

    Attributes:
        split: its split.
        file_name: its file, relative to the folder of the images of its split.
        image: its entry.
        sample: its sample; labels index the class names of the `LabelForm`.
        rows: the entry of each instance, possibly empty.
        crowds: its crowd and ignored regions, and its objects without a mask, each with its entry.
        lines: the numbers of the row of each instance in a YOLO label file if they are given; see `label_rows`.
        given_boxes: the box of each instance, (x, y, width, height), in all its digits, if it is given.
    """

    split: str
    file_name: str
    image: JsonRow
    sample: DenseSample
    rows: Sequence[JsonRow]
    crowds: Sequence[tuple[Crowd, JsonRow]] = ()
    lines: Sequence[Sequence[float] | None] = ()
    given_boxes: Sequence[Sequence[float] | None] = ()

    @property
    def boxed(self) -> list[tuple[Crowd, tuple[float, float, float, float], JsonRow]]:
        """Objects without a mask, each with its box (x1, y1, x2, y2) and its entry."""
        return [(crowd, crowd.box, row) for crowd, row in self.crowds if crowd.box is not None]

    @property
    def regions(self) -> list[tuple[Crowd, JsonRow]]:
        """Crowd and ignored regions, each with its entry."""
        return [(crowd, row) for crowd, row in self.crowds if crowd.box is None]

    @property
    def stem(self) -> str:
        """File name without its suffix."""
        return PurePosixPath(self.file_name).with_suffix("").as_posix()


@dataclass(frozen=True, slots=True, eq=False)
class WrittenSplit:
    """Split whose images are written.

    Attributes:
        name: name of the split.
        tables: the other tables of its file, such as ``info`` and ``licenses``.
        categories: the entries of its classes.
        rows: function that returns the entries of its images.
    """

    name: str
    tables: JsonRow
    categories: Sequence[JsonRow]
    rows: Callable[[], Iterable[SampleRows]]


class WrittenFormat(ABC):
    """Written dataset format.

    Attributes:
        name: its name for ``--to`` and ``--layout``.
        title: its name in the documentation.
        files: description of its files.
        holds: description of its labels.
        of_entries: True if its files depend on the entries alone; images are then copied without decoding.
        one_class_list: True if all splits share one list of classes.
        num_classes: the numbers of classes that it can hold.
        num_mapped_classes: the same for a dataset with masks or semantic maps.
        flat: True if all images are in one folder without subfolders.
        by_stem: True if label files are named after their image without its suffix.
        suffixes: suffixes of images that readers of the format search for; None if a table names the images.
        has_iscrowd: True if each entry needs the key ``iscrowd``.
        keeps_semantic_maps: True if it holds semantic maps.
        keeps_extra_keys: True if it holds further keys of entries, and other tables.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    files: ClassVar[str]
    holds: ClassVar[str]
    of_entries: ClassVar[bool] = False
    one_class_list: ClassVar[bool] = True
    num_classes: ClassVar[range] = range(sys.maxsize)
    num_mapped_classes: ClassVar[range] = range(sys.maxsize)
    flat: ClassVar[bool] = False
    by_stem: ClassVar[bool] = True
    suffixes: ClassVar[Collection[str] | None] = None
    has_iscrowd: ClassVar[bool] = True
    keeps_semantic_maps: ClassVar[bool] = False
    keeps_extra_keys: ClassVar[bool] = False

    def split_name(self, split: str) -> str:
        """Return the written name of a split; ``train`` for the only split of a dataset without splits."""
        return split or "train"

    def expect_classes(self, place: object, num: int, *, has_maps: bool) -> None:
        """Raise `DatasetError` if the format cannot hold so many classes, or so few.

        Args:
            place: the dataset, for the message.
            num: number of its classes.
            has_maps: True if it has masks or semantic maps.
        """
        if num < self.num_classes.start:
            raise DatasetError(
                f"{place}: expected at least one class for {self.title}, got none; add a category, or write coco"
            )
        most = min(self.num_classes[-1], self.num_mapped_classes[-1] if has_maps else sys.maxsize)
        if num > most:
            other = "coco" if self.name == "label-maps" else "label-maps"
            raise DatasetError(
                f"{place}: expected at most {most:,} classes for {self.title}, got {num:,}; write {other}, or merge "
                "classes"
            )

    @abstractmethod
    def photos_dir(self, split: str) -> str:
        """Return the folder of the images of a split, relative to the dataset's folder."""

    def folders(self, split: str) -> tuple[str, ...]:
        """Return the folders whose files are named after the images of a split."""
        return (self.photos_dir(split),)

    def label_files(self, photo: LabelledPhoto, form: LabelForm, losses: Losses) -> Iterator[File]:
        """Yield the label files of an image, and count lost annotations.

        Raises:
            ValueError: the format cannot hold the sample at all.
        """
        yield from ()

    def closing_files(self, splits: Sequence[WrittenSplit], form: LabelForm, losses: Losses) -> Iterator[File]:
        """Yield the files that are written after all images, such as tables and lists of classes."""
        yield from ()


UNMASKED = "objects without a mask"
"""Description of objects with a box only, in formats of masks."""
_OF_VOC: Mapping[str, tuple[str, ...]] = {
    "pose": ("Unspecified",),
    "truncated": ("0",),
    "occluded": ("0",),
    "difficult": ("0",),
    "folder": ("VOC",),
    "segmented": ("0", "1"),
}
POINTS = "keypoints of objects"
"""Description of objects with labelled keypoints, in formats without keypoints."""


def count_keys(losses: Losses, what: str, rows: Iterable[Mapping[str, object]], held: Collection[str]) -> None:
    """Count the keys of entries that a format does not hold; values that say nothing are not counted."""
    for row in rows:
        for key, value in row.items():
            if key not in held and value not in (None, "", [], {}) and not _is_of_voc(value):
                losses[f"key '{key}' of {what}"] += 1


def count_split(losses: Losses, split: WrittenSplit, held: Collection[str] = ()) -> None:
    """Count the other tables of a split, unless they are empty, and keys of categories.

    A class is a thing, and the background none, without saying so.
    """
    for name, table in split.tables.items():
        if table not in (None, "", [], {}):
            losses[f"table '{name}'"] += 1
    for row in split.categories:
        is_clear = row.get("isthing") == int(not is_background(str(row["name"])))
        count_keys(losses, "categories", [row], {"id", "name", *held, *(["isthing"] if is_clear else ())})


def further_keys(photo: LabelledPhoto) -> JsonRow:
    """Return the keys of an image's entry, without those that name its split, which is that of its files."""
    return {key: v for key, v in photo.image.items() if key not in ("split", "subset") or v != photo.split}


def _is_of_voc(value: object) -> bool:
    """Return whether a value is the attributes that files of VOC have where nothing is known."""
    if not isinstance(value, dict) or not {*value} <= {*_OF_VOC} or not {"pose", "folder"} & {*value}:
        return False
    return all(str(own) in _OF_VOC[key] for key, own in value.items())


def count_lost(
    photo: LabelledPhoto, losses: Losses, *, points: bool = False, boxes: bool = False, held: Collection[str] = ()
) -> None:
    """Count annotations that most label files cannot hold: crowds, keypoints, further keys, objects without a mask."""
    for crowd, _ in photo.regions:
        losses["ignored regions" if crowd.is_ignored else "crowd regions"] += 1
    if photo.boxed and not boxes:
        losses[UNMASKED] += len(photo.boxed)
    if photo.sample.keypoints is not None and not points:
        losses[POINTS] += int((photo.sample.keypoints[..., 2] > 0).any(1).sum())
    count_keys(losses, "images", [further_keys(photo)], IMAGE_KEYS | {"camera_intrinsics", "segpaste"})
    known = REGION_KEYS | POINT_KEYS | {"segpaste", *held}
    count_keys(losses, "annotations", [*photo.rows, *(row for _, row in photo.crowds)], known)
