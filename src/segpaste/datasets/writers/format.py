"""Base of the written formats: the folders of images, the files of each image, and the files after all images.

A format is one class in one file, listed in `segpaste.datasets.writers.registry`. It turns samples and entries
into the contents of files; `segpaste.datasets.conversion` and `segpaste augment` write them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.format import WrittenTask
from segpaste.datasets.formats.kept_shapes import KeptShape, num_with_points
from segpaste.datasets.formats.text_files import is_background
from segpaste.datasets.formats.voc.files import VOID_OF_CLASSES
from segpaste.types import DenseSample, KeypointSchema
from segpaste.workspace import Content

Losses = Counter[str]
"""Counts of lost annotations by description."""
MADE_OF = "made_of.segpaste"
"""Key of entries in notes, which files do not have: ids of the image and annotation that an entry is made of."""
File = tuple[str, Content]
"""Path of a file, relative to the dataset's folder, and its content."""


@dataclass(frozen=True, slots=True)
class View:
    """One of the formats as which a split is written, and read again.

    Attributes:
        format: name of the format.
        split: name of the split in it.
        names: names of its classes.
        task: task of labels of YOLO.
        point_size: numbers per keypoint of YOLO labels.
        with_points: classes whose entries have keypoints.
        has_semantic_maps: True if the samples of the dataset have semantic maps.
        stuff: classes that are stuff, for panoptic segments.
        categories: the entry of each class, in formats with tables.
        schema: schema of the keypoints; None without keypoints.
        source_yaml: the keys of the data YAML of a YOLO dataset that are still true.
    """

    format: str
    split: str
    names: Sequence[str]
    task: WrittenTask = "segment"
    point_size: int = 3
    with_points: frozenset[int] = frozenset()
    has_semantic_maps: bool = False
    stuff: frozenset[int] = frozenset()
    categories: Sequence[JsonRow] = ()
    schema: KeypointSchema | None = None
    source_yaml: JsonRow | None = None

    @classmethod
    def of(cls, format: str, split: str, categories: Sequence[JsonRow], **facts: Any) -> View:
        """Return the view of a format of classes with these entries, in the order of the classes."""
        return cls(
            **{"names": tuple(str(row["name"]) for row in categories), **facts},
            format=format,
            split=split,
            with_points=frozenset(label for label, row in enumerate(categories) if row.get("keypoints")),
            stuff=frozenset(label for label, row in enumerate(categories) if not row.get("isthing", 1)),
            categories=categories,
        )

    @property
    def first_value(self) -> int:
        """Value of class 0 in label maps; 1 after the background."""
        if self.format == "label-maps":
            return int(not self.has_semantic_maps)
        return int(not (self.has_semantic_maps and self.has_background))

    @property
    def has_background(self) -> bool:
        """Whether class 0 is the background of semantic maps."""
        return bool(self.names) and is_background(self.names[0])


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """Annotations of an image that a format takes as they were read, instead of those of the sample.

    Attributes:
        rows: entries of COCO or of panoptic segments, as they are written.
        given: the same as they were read.
        map: for panoptic segments, the entry of the map, and its file.
        text: content of a label file of YOLO.
    """

    rows: Sequence[JsonRow] = ()
    given: Sequence[JsonRow] = ()
    map: tuple[JsonRow, Path] | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImage:
    """Image with its annotations, on its way from a reader to a writer.

    Attributes:
        file_name: its written file, relative to the folder of the images of its split.
        entry: its entry.
        sample: its sample; None if nothing of it is written.
        rows: the entry of each instance with its further keys, and ``id`` and ``image_id`` of its original; possibly
            empty.
        crowds: its crowd and ignored regions, and its objects without a mask, each with its entry.
        shapes: the given numbers of each instance; empty without any.
        unchanged: annotations that are written as they were read; None if all come from the sample.
        source: file that is copied as the image; None if the image of the sample is encoded.
        void: pixels without a class [H, W] that the semantic map of the sample does not hold; None without any.
        is_compared: True if the pixels of an encoded image are compared with those of the sample.
    """

    file_name: str
    entry: JsonRow
    sample: DenseSample | None
    rows: Sequence[JsonRow] = ()
    crowds: Sequence[tuple[Crowd, JsonRow]] = ()
    shapes: Sequence[KeptShape] = ()
    unchanged: Unchanged | None = None
    source: Path | None = None
    void: NDArray[np.bool_] | None = None
    is_compared: bool = True

    @property
    def labelled(self) -> DenseSample:
        """Its sample, for a format that needs it."""
        assert self.sample is not None
        return self.sample

    @property
    def kept(self) -> Sequence[KeptShape]:
        """The given numbers of each instance."""
        return self.shapes or [KeptShape()] * self.labelled.num_instances

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


@dataclass(frozen=True, slots=True)
class SampleRows:
    """Rows of one image in the tables, as values of JSON.

    Attributes:
        image: its entry in ``images``.
        annotations: its annotations; without ``id`` if they are numbered in the order of the images.
        segments: its ``segments_info``; None if it is not panoptic.
        map: its entry in the panoptic ``annotations`` without the segments; None for the usual one.
        refers: True if keys have ids or names of images or annotations of the dataset of which the image is made; see
            `segpaste.datasets.writers.counterparts`.
    """

    image: JsonRow
    annotations: list[JsonRow]
    segments: list[JsonRow] | None = None
    map: JsonRow | None = None
    refers: bool = False

    def as_note(self) -> JsonRow:
        """Return the fields by name, for the note of a step; rows are not copied."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, eq=False)
class WrittenSplit:
    """Split whose images are written.

    Attributes:
        view: its format and classes.
        tables: the other tables of its file, such as ``info`` and ``licenses``.
        categories: the entries of its classes, in the order of the file.
        rows: function that returns the entries of its images.
        copied: names of the splits that are copied beside this one, the split to train on; None if all are written.
    """

    view: View
    tables: JsonRow
    categories: Sequence[JsonRow]
    rows: Callable[[], Iterable[SampleRows]]
    copied: Sequence[str] | None = None

    @property
    def name(self) -> str:
        """Name of the split."""
        return self.view.split


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

    def lost_name(self, name: str, names: Sequence[str], trained: str | None = None) -> str:
        """Return what is lost of the name of a split among ``names``, with one to train on if it is named; or empty."""
        return ""

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

    def labels(self, image: LabelledImage, view: View, losses: Losses) -> tuple[SampleRows, Sequence[File]]:
        """Return the rows of an image in tables, and its label files; count what is lost. By default `label_files`.

        Raises:
            ValueError: the format cannot hold the sample at all.
        """
        return SampleRows(image.entry, []), [*self.label_files(image, view, losses)]

    def label_files(self, image: LabelledImage, view: View, losses: Losses) -> Iterator[File]:
        """Yield the label files of an image, and count lost annotations; see `labels`."""
        yield from ()

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield the files that are written after all images, such as tables and lists of classes."""
        yield from ()


def made_of(row: JsonRow) -> JsonRow:
    """Return the key of an entry in a note with the ids of the image and the annotation that it is made of."""
    number, image_id = row.get("id"), row.get("image_id")
    return {MADE_OF: [image_id, number]} if isinstance(number, int) and isinstance(image_id, int) else {}


def copied_bytes(path: Path) -> bytes:
    """Return the content of a file that is copied."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder and the name") from None


VOID = "void pixels of maps with more classes than samples hold, in images"
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
OF_OBJECTS = frozenset(
    {
        UNMASKED,
        POINTS,
        "crowd regions",
        "ignored regions",
        "objects partly covered by another",
        "objects wholly covered by others",
        "rows equal to another of their label file",
    }
)
"""Descriptions of annotations that label files may lack, and the tables of COCO hold."""


def unread_losses(unread: Mapping[str, int], to: str) -> Losses:
    """Return what a reader says of an image that neither sample nor entries do, without what a format holds."""
    return Losses({what: num for what, num in unread.items() if what != VOID_OF_CLASSES or to == "voc"})


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


def further_keys(image: LabelledImage, view: View) -> JsonRow:
    """Return the keys of an image's entry, without those that name its split, which is that of its files."""
    return {key: v for key, v in image.entry.items() if key not in ("split", "subset") or v != view.split}


def _is_of_voc(value: object) -> bool:
    """Return whether a value is the attributes that files of VOC have where nothing is known."""
    if not isinstance(value, dict) or not {*value} <= {*_OF_VOC} or not {"pose", "folder"} & {*value}:
        return False
    return all(str(own) in _OF_VOC[key] for key, own in value.items())


def count_lost(
    image: LabelledImage,
    view: View,
    losses: Losses,
    *,
    points: bool = False,
    boxes: bool = False,
    held: Collection[str] = (),
) -> None:
    """Count annotations that most label files cannot hold: crowds, keypoints, further keys, objects without a mask."""
    for crowd, _ in image.regions:
        losses["ignored regions" if crowd.is_ignored else "crowd regions"] += 1
    if image.boxed and not boxes:
        losses[UNMASKED] += len(image.boxed)
    if not points:
        losses[POINTS] += num_with_points(image.labelled, image.rows or [{}] * image.labelled.num_instances)
    count_keys(losses, "images", [further_keys(image, view)], IMAGE_KEYS | {"camera_intrinsics"})
    known = REGION_KEYS | POINT_KEYS | {*held}
    count_keys(losses, "annotations", [*image.rows, *(row for _, row in image.crowds)], known)
