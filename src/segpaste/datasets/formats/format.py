"""Base classes of the dataset formats, and of their readers.

A format recognises datasets and opens their splits. It is one class in one file, listed in
`segpaste.datasets.formats.registry`. Its reader is an `AnnotatedImages`; annotations are read and packed so that loader
workers share them.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np

from segpaste._reprs import counted, described
from segpaste.datasets.contract import AnnotatedDataset, ImageFile, JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.types import DenseSample
from segpaste.types.dense import fill_holes


class PackedRecords(Sequence[JsonRow]):
    """Small dictionaries stored as JSON text in one array.

    Forked workers share one array. They would copy millions of Python objects, because reference counts change.
    """

    def __init__(self, records: Iterable[JsonRow]) -> None:
        texts = [json.dumps(record, separators=(",", ":")).encode() for record in records]
        self._text = np.frombuffer(b"".join(texts), np.uint8)
        self._ends = np.cumsum([len(text) for text in texts], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: Any) -> Any:
        position = range(len(self))[index]
        start = self._ends[position - 1] if position else 0
        return json.loads(self._text[start : self._ends[position]].tobytes())


class PackedRows(Sequence[JsonRow]):
    """Records with ``rows`` whose ``values`` are packed into one array, since JSON of polygons takes long."""

    def __init__(self, records: Iterable[JsonRow]) -> None:
        numbers = array("d")

        def counted() -> Iterator[JsonRow]:
            for record in records:
                start = len(numbers)
                for row in record["rows"]:
                    numbers.extend(row["values"])
                rows = [{**row, "values": len(row["values"])} for row in record["rows"]]
                yield {**record, "rows": rows, "start": start}

        self._records = PackedRecords(counted())
        self._numbers = np.frombuffer(numbers, np.float64) if numbers else np.zeros(0)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        record = self._records[index]
        start = record.pop("start")
        for row in record["rows"]:
            end = start + row["values"]
            row["values"], start = self._numbers[start:end].tolist(), end
        return record


class AnnotatedImages(AnnotatedDataset):
    """Base of the readers: images with annotations in one file or in a file per image.

    All annotations are read at construction. Pickles contain paths, not annotations: spawned workers read them again,
    forked workers share them.

    Attributes:
        drawn_upright: True if annotations are drawn on images rotated by their EXIF orientation, unless their size
            shows otherwise.
        around: function that finds the unread files in the folders of the dataset, see
            `segpaste.datasets.formats.sidecar_maps`; None if it is given as a file.
    """

    annotations_file: Path
    drawn_upright: bool = False
    _RECENT: ClassVar[int] = 64
    around: Callable[[Any], Mapping[Path, str]] | None = None

    def __init__(
        self,
        images_dir: str | PathLike[str],
        annotations_file: str | PathLike[str],
        *,
        transforms: Callable[[DenseSample], DenseSample] | None = None,
    ) -> None:
        self.images_dir = expect_folder(images_dir)
        self.annotations_file = Path(annotations_file)
        self.transforms = transforms
        self._records = self._read_records()

    @abstractmethod
    def _read_records(self) -> Sequence[JsonRow]:
        """Read the annotations; each record has at least ``id`` and ``file_name``."""

    @abstractmethod
    def _read_sample(self, record: JsonRow) -> DenseSample:
        """Read the sample of one record."""

    @cached_property
    def _records(self) -> Sequence[JsonRow]:
        return self._read_records()

    @cached_property
    def _ids_of_recent(self) -> dict[int, tuple[int, ...]]:
        """Ids of the instances of images that were read lately, by the id of the image."""
        return {}

    def _remember(self, image_id: int, ids: Iterable[int]) -> None:
        """Keep the ids of the instances of a read image, so that nobody decodes its masks again to learn them."""
        if len(self._ids_of_recent) >= self._RECENT:
            self._ids_of_recent.clear()
        self._ids_of_recent[image_id] = tuple(ids)

    def __getstate__(self) -> JsonRow:
        return {name: value for name, value in self.__dict__.items() if name not in ("_records", "_document")}

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        """Return counts, fields and the file; images of a copy that has not read its file yet are not counted."""
        return described(
            self,
            lambda: str(self.__dict__["annotations_file"]),
            lambda: counted(len(self.__dict__["_records"]), "image"),
            lambda: counted(len(self.class_names), "class", "classes"),
            lambda: "masks" if self.has_masks else None,
            lambda: "semantic maps" if self.has_semantic_maps else None,
            lambda: "panoptic" if self.schema is not None else None,
            lambda: None if self.keypoint_schema is None else counted(len(self.keypoint_schema.names), "keypoint"),
        )

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample.

        Raises:
            DatasetError: its image or one of its annotations cannot be read.
        """
        return self._finished(index, self._read_sample(self._records[index]))

    def _finished(self, index: int, sample: DenseSample) -> DenseSample:
        """Add the fields of files beside the annotations to a sample, transform it, and fill holes in depth."""
        if self.beside is not None:
            sample = self.beside(sample, self.file_name(index), self.image_row(index))
        sample = self.transforms(sample) if self.transforms else sample
        return fill_holes(sample) if self.depth_fill else sample

    @abstractmethod
    def instance_labels(self, index: int) -> Sequence[int]:
        """Return the class of each object, from the annotations alone; no image is read."""

    @abstractmethod
    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the dataset's id of each instance; instance id i + 1 is at position i, before ``transforms``."""

    def image_id(self, index: int) -> int:
        """Return the id of the image in the annotations."""
        return int(self._records[index]["id"])

    def file_name(self, index: int) -> str:
        """Return the image's file, relative to ``images_dir``."""
        return str(self._records[index]["file_name"])

    def photo_file(self, index: int) -> ImageFile:
        """Return the path of an image, and its (H, W) in the annotations, or None if they do not give it."""
        record = self._records[index]
        size = (record["height"], record["width"]) if "height" in record else None
        return self.images_dir / record["file_name"], size

    def label_file(self, index: int) -> Path | None:
        """Return the file with the annotations of an image; None if they are in several files."""
        return self.annotations_file if self.annotations_file.is_file() else None

    def files_of(self, index: int) -> tuple[Path, ...]:
        """Return the files with the annotations and maps of an image."""
        file = self.label_file(index)
        return (*(() if file is None else (file,)), *self.map_files(index))

    def unread_paths(self) -> Mapping[Path, str]:
        """Return the files in the folder of the dataset that belong to no image, with words for their kind."""
        return {} if self.around is None else self.around(self)

    def is_drawn_upright(self, index: int) -> bool:
        """Return ``drawn_upright``."""
        return self.drawn_upright


def expect_folder(path: str | PathLike[str]) -> Path:
    """Return the path of a folder; raise `DatasetError` if there is none."""
    if not Path(path).is_dir():
        raise DatasetError(f"{path}: expected a folder of images, found none; check the path")
    return Path(path)


def expect_outside(dataset: AnnotatedDataset, out: str | PathLike[str]) -> None:
    """Raise `DatasetError` if a dataset would find new files in ``out`` when it is opened again.

    Args:
        dataset: a dataset.
        out: a folder that need not exist.
    """
    place = Path(out).resolve()
    for folder in dataset.searched_folders():
        if place.is_relative_to(folder.resolve()):
            raise DatasetError(
                f"{out}: expected a folder outside of {folder}, where the dataset's images are searched for, since "
                "it would be read as a part of the dataset; choose another"
            )


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Transforms = Callable[[DenseSample], DenseSample]
Task = Literal["detect", "segment", "pose"]
"""Labels of a YOLO dataset: boxes only, polygons, or boxes with keypoints."""
TASKS: tuple[Task, ...] = ("detect", "segment", "pose")
WrittenTask = Literal["detect", "segment", "pose", "obb"]
"""Written labels of a YOLO dataset: those of `Task`, or the corners of oriented boxes."""

NO_SPLIT = ""
"""Name of the only split of a dataset without splits."""
_HELD_OUT = ("val", "test")
"""Beginnings of the names of splits that are opened only by name."""


_ON_COMMAND_LINE = {"images_dir": "--images", "panoptic_dir": "--panoptic-dir", "task": "--task"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a dataset besides its path; None if not given.

    Attributes:
        images_dir: the folder to which file names of images are relative.
        panoptic_dir: the folder of the PNG files of panoptic segments.
        task: labels to read from a dataset of YOLO or of a labelling tool.
        depth_fill: give holes in the depth of objects their nearest valid depth; they stay invalid.
        transforms: called with each `DenseSample`; its result replaces the sample.
    """

    images_dir: Path | None = None
    panoptic_dir: Path | None = None
    task: Task | None = None
    depth_fill: bool = False
    transforms: Transforms | None = None

    def given(self) -> list[str]:
        """Return the names of the given options, but those that every format takes."""
        names = (field.name for field in fields(self) if field.name not in ("transforms", "depth_fill"))
        return [name for name in names if getattr(self, name) is not None]


class Format(ABC):
    """Readable dataset format.

    Attributes:
        name: its name for ``format=`` and ``--from``.
        title: its name in the documentation.
        files: description of the files that it is recognised by.
        gives: description of the fields of its samples besides image, boxes and labels.
        takes: the names of the `ReadOptions` that it takes besides ``transforms``.
        void_is_contour: True if void of its semantic maps is only a contour around objects. The commands then let
            pastes cover it, see ``placement.cover_void``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    files: ClassVar[str]
    gives: ClassVar[str]
    takes: ClassVar[frozenset[str]] = frozenset()
    void_is_contour: ClassVar[bool] = False

    @abstractmethod
    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the splits of the dataset at a path; None if there is no dataset of this format.

        A dataset without splits has the one split `NO_SPLIT`. This method must be fast, so it reads only the names and
        the first bytes of files.

        Raises:
            DatasetError: the dataset is of this format, but its files are ambiguous.
        """

    def is_preferred(self, path: Path) -> bool:
        """Return whether a dataset that `splits` recognises is opened in this format if none is named.

        False leaves it to a later format that reads more of the same dataset.
        """
        return True

    @abstractmethod
    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open one of the splits.

        Raises:
            DatasetError: the dataset is broken or incomplete.
        """

    def places(self, path: Path, split: str) -> tuple[Path, ...]:
        """Return the files and folders of a split, to know its files without opening it; empty if they are unknown."""
        return ()

    def copies(self, path: Path, split: str) -> Iterator[tuple[PurePosixPath, Path]]:
        """Yield the files of a split, as path in a copy of the dataset and source path.

        Formats yield nothing if `segpaste augment` does not copy their other splits.
        """
        yield from ()

    def expect_taken(self, path: Path, options: ReadOptions) -> None:
        """Reject options that this format does not use.

        Raises:
            DatasetError: such an option is given.
        """
        for name in options.given():
            if name not in self.takes:
                raise DatasetError(
                    f"{path}: expected no {name} ({_ON_COMMAND_LINE[name]}) with {self.title}, got it; leave it out"
                )


def chosen_split(path: Path, splits: Collection[str], split: str | None) -> str:
    """Return the named split, or without a name the training split.

    Args:
        path: path of the dataset, for errors.
        splits: the names of its splits.
        split: the name; by default ``train``, or the only one that is named neither ``val...`` nor ``test...``.

    Raises:
        DatasetError: there is no such split; or no name is given, and there is not exactly one training split.
    """
    if split is not None:
        if split in splits:
            return split
        raise DatasetError(f"{path}: expected one of the splits {', '.join(splits)}, got {split!r}")
    free = [name for name in splits if not name.startswith(_HELD_OUT)]
    if "train" in free or len(free) == 1:
        return "train" if "train" in free else free[0]
    raise DatasetError(
        f"{path}: expected a split to train on, got {', '.join(splits)}; name the split (split=..., --split)"
    )
