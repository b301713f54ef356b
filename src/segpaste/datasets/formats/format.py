"""Base of the dataset formats: how a format is recognised, and how one split of it is opened.

A format is one class in one file, listed in `segpaste.datasets.formats.registry`. Its reader is an
`segpaste.datasets.formats.records.AnnotatedPhotos`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from segpaste.datasets.formats.records import AnnotatedPhotos, DatasetError
from segpaste.types import DenseSample

Transforms = Callable[[DenseSample], DenseSample]
Task = Literal["detect", "segment", "pose"]
"""Which labels a YOLO dataset has: boxes alone, polygons, or boxes with keypoints."""
TASKS: tuple[Task, ...] = ("detect", "segment", "pose")
WrittenTask = Literal["detect", "segment", "pose", "obb"]
"""Which labels a YOLO dataset is written with: those of `Task`, or the corners of oriented boxes."""

NO_SPLIT = ""
"""The name of the only split of a dataset that has none."""


_ON_COMMAND_LINE = {"images_dir": "--images", "panoptic_dir": "--panoptic-dir", "task": "--task"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a dataset may need besides its path; None where it is not given.

    Attributes:
        images_dir: the folder that the file names of the photos start from.
        panoptic_dir: the folder of the PNG files of panoptic segments.
        task: which labels are read of a dataset of YOLO or of a labelling tool.
        transforms: called with every `DenseSample`, returns the one to use instead.
    """

    images_dir: Path | None = None
    panoptic_dir: Path | None = None
    task: Task | None = None
    transforms: Transforms | None = None

    def given(self) -> list[str]:
        """Return the names of the options that are given, without ``transforms``, which every format takes."""
        names = (field.name for field in fields(self) if field.name != "transforms")
        return [name for name in names if getattr(self, name) is not None]


class Format(ABC):
    """A dataset format that is read.

    Attributes:
        name: what ``format=`` and ``--from`` call it.
        title: its name in the documentation.
        files: the files that it is recognised by, in words.
        gives: the fields of its samples besides image, boxes and labels, in words.
        takes: the names of the `ReadOptions` that it takes besides ``transforms``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    files: ClassVar[str]
    gives: ClassVar[str]
    takes: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the splits of the dataset at a path; None if there is no dataset of this format.

        A dataset without splits has the one split `NO_SPLIT`. This looks at names and at the heads of files: it must be
        fast.

        Raises:
            DatasetError: it is of this format, and which files are meant is not clear.
        """

    @abstractmethod
    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedPhotos:
        """Open one of the splits.

        Raises:
            DatasetError: the dataset is broken, or lacks what it must hold.
        """

    def copies(self, path: Path, split: str) -> Iterator[tuple[PurePosixPath, Path]]:
        """Yield the files of a split: where each goes in a copy of the dataset, and where it is.

        Only for formats in which a dataset is written again with its other splits; others yield nothing.
        """
        yield from ()

    def expect_taken(self, path: Path, options: ReadOptions) -> None:
        """Refuse options that this format has no use for.

        Raises:
            DatasetError: one is given.
        """
        for name in options.given():
            if name not in self.takes:
                raise DatasetError(
                    f"{path}: expected no {name} ({_ON_COMMAND_LINE[name]}) with {self.title}, got it; leave it out"
                )
