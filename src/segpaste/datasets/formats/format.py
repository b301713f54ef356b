"""Base class of the dataset formats, and the options of their readers.

A format recognises datasets and opens their splits. It is one class in one file, listed in
`segpaste.datasets.formats.registry`. An `ImageAnnotations` reads the annotations, which needs no torch; an
`AnnotatedImages` has the samples, too. A format imports the module of the latter when it opens a split.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Literal

from segpaste.datasets.annotations import Annotations
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_annotations import ImageAnnotations, Transforms
from segpaste.datasets.repeated_ids import RepeatedIds

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages


def expect_outside(dataset: Annotations, out: str | PathLike[str]) -> None:
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


Task = Literal["detect", "segment", "pose"]
"""Labels of a YOLO dataset: boxes only, polygons, or boxes with keypoints."""
TASKS: tuple[Task, ...] = ("detect", "segment", "pose")
WrittenTask = Literal["detect", "segment", "pose", "obb"]
"""Written labels of a YOLO dataset: those of `Task`, or the corners of oriented boxes."""

NO_SPLIT = ""
"""Name of the only split of a dataset without splits."""
_HELD_OUT = ("val", "test")
"""Beginnings of the names of splits that are opened only by name."""


_ON_COMMAND_LINE = {
    "images_dir": "--images",
    "panoptic_dir": "--panoptic-dir",
    "task": "--task",
    "repeated_ids": "--repeated-ids",
    "class_attribute": "--class-attribute",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a dataset besides its path; None if not given.

    Attributes:
        images_dir: the folder to which file names of images are relative.
        panoptic_dir: the folder of the PNG files of panoptic segments.
        task: labels to read from a dataset of YOLO or of a labelling tool.
        depth_fill: give holes in the depth of objects their nearest valid depth; they stay invalid.
        transforms: called with each `DenseSample`; its result replaces the sample.
        repeated_ids: what becomes of annotations of COCO that have no id of their own; by default they are errors.
        class_attribute: the attribute of regions that is their class, in files of VIA.
    """

    images_dir: Path | None = None
    panoptic_dir: Path | None = None
    task: Task | None = None
    depth_fill: bool = False
    transforms: Transforms | None = None
    repeated_ids: RepeatedIds | None = None
    class_attribute: str | None = None

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

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the annotations of one of the splits without its samples, and so without torch.

        By default the split is opened.

        Raises:
            DatasetError: the dataset is broken or incomplete.
        """
        return self.open(path, split, options)

    def places(self, path: Path, split: str) -> tuple[Path, ...]:
        """Return the files and folders of a split, to know its files without opening it; empty if they are unknown."""
        return ()

    def is_absent(self, path: Path, split: str) -> bool:
        """Return whether a dataset names a split to test on of which there is no file.

        Exports name one also where they have none; what trains on the dataset does not read it.
        """
        return False

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
        split: the name; by default ``train``, or the only one that is named neither ``val...`` nor ``test...``, in
            lower or upper case.

    Raises:
        DatasetError: there is no such split; or no name is given, and there is not exactly one training split.
    """
    if split is not None:
        if split in splits:
            return split
        raise DatasetError(f"{path}: expected one of the splits {', '.join(splits)}, got {split!r}")
    free = [name for name in splits if not name.lower().startswith(_HELD_OUT)]
    if trained := [name for name in free if name.lower() == "train"]:
        return "train" if "train" in trained else trained[0]
    if len(free) == 1:
        return free[0]
    raise DatasetError(
        f"{path}: expected a split to train on, got {', '.join(splits)}; name the split (split=..., --split)"
    )
