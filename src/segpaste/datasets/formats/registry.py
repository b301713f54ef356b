"""Registry of the dataset formats: `find_dataset` recognises a dataset at a path, `open_dataset` opens it.

Formats are recognised by the names and the first bytes of files. The first match in `FORMATS` is used, unless it leaves
the dataset to a richer format; the order matters, because a YOLO dataset of `segpaste augment` also has COCO's tables.
Splits named ``val...`` or ``test...`` are held out: they are opened only by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from segpaste.datasets.annotations import Annotations
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.folders import CocoFile, CocoFolder, LvisFolder, PanopticFolder, RoboflowFolder
from segpaste.datasets.formats.cvat import CvatFile
from segpaste.datasets.formats.folders import LABELS, files_with, other_labels
from segpaste.datasets.formats.format import NO_SPLIT, Format, ReadOptions, Task, chosen_split
from segpaste.datasets.formats.image_annotations import ImageAnnotations, Images, Transforms
from segpaste.datasets.formats.label_studio import LabelStudioFile
from segpaste.datasets.formats.labelme import LabelmeFolder
from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE
from segpaste.datasets.formats.maps.formats import Ade20k, Ade20kFull, CamVid, Cityscapes, DeclaredMaps, LabelMapFiles
from segpaste.datasets.formats.maps.hints import UndeclaredMaps
from segpaste.datasets.formats.sidecar_maps import expect_own_maps, find_beside, unread_around
from segpaste.datasets.formats.text_files import head_of
from segpaste.datasets.formats.via import ViaFile
from segpaste.datasets.formats.voc.format import VocFormat
from segpaste.datasets.formats.yolo.format import YoloFormat
from segpaste.datasets.formats.yolo.ndjson import NdjsonFile
from segpaste.datasets.repeated_ids import RepeatedIds, checked_rule

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages


FORMATS: Sequence[Format] = (
    DeclaredMaps(),
    Cityscapes(),
    Ade20k(),
    Ade20kFull(),
    LabelMapFiles(),
    YoloFormat(),
    LabelStudioFile(),
    RoboflowFolder(),
    CocoFolder(),
    LvisFolder(),
    PanopticFolder(),
    VocFormat(),
    CvatFile(),
    LabelmeFolder(),
    ViaFile(),
    NdjsonFile(),
    CocoFile(),
    CamVid(),
    UndeclaredMaps(),
)
"""Formats that are read, in the order in which they are tried."""


_TABLE = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
"""Table of COCO in the first bytes of a file."""


@dataclass(frozen=True, slots=True)
class FoundDataset:
    """Dataset found at a path.

    Attributes:
        path: the folder or file.
        format: the format of its files.
        splits: the names of its splits; only `NO_SPLIT` for a dataset without splits.
    """

    path: Path
    format: Format
    splits: tuple[str, ...]

    def chosen_split(self, split: str | None = None) -> str:
        """Return the named split, or without a name the training split.

        Raises:
            DatasetError: there is no such split; or no name is given, and there is not exactly one training split.
        """
        if self.splits == (NO_SPLIT,):
            if split is not None:
                raise DatasetError(
                    f"{self.path}: expected no split (--split), since the dataset has none, got {split!r}; leave it out"
                )
            return NO_SPLIT
        return chosen_split(self.path, self.splits, split)

    def open(
        self,
        split: str | None = None,
        options: ReadOptions | None = None,
        opened: dict[str, AnnotatedImages] | None = None,
    ) -> AnnotatedImages:
        """Open one split; see `open_dataset`.

        Args:
            split: its name.
            options: its options.
            opened: splits that are open, by name; this one is added.
        """
        return self._split(self.format.open, split, options, {} if opened is None else opened)

    def read(self, split: str | None = None, options: ReadOptions | None = None) -> ImageAnnotations:
        """Read the annotations of one split without its samples; see `open_dataset`.

        Args:
            split: its name.
            options: its options.
        """
        return self._split(self.format.read, split, options, {})

    def digest_of(self, dataset: Annotations) -> str:
        """Return the digest of a split, by which an interrupted run knows it again."""
        return dataset.digest

    def _split(
        self,
        reader: Callable[[Path, str, ReadOptions], Images],
        split: str | None,
        options: ReadOptions | None,
        opened: dict[str, Images],
    ) -> Images:
        options = ReadOptions() if options is None else options
        self.format.expect_taken(self.path, options)
        name = self.chosen_split(split)
        dataset = reader(self.path, name, options)
        dataset.beside = find_beside(self.path, name, dataset)
        if self.path.is_dir():
            bare = replace(options, transforms=None)
            others = [
                (self.format.places(self.path, other), partial(self._other, reader, other, bare, opened))
                for other in self.splits
                if other != name
            ]
            dataset.around = partial(unread_around, self.path, self.format.name, others)
            alone = {other: partial(reader, self.path, other, bare) for other in self.splits if other != name}
            expect_own_maps(self.path, dataset, alone)
        dataset.depth_fill = options.depth_fill
        opened[name] = dataset
        return dataset

    def _other(
        self,
        reader: Callable[[Path, str, ReadOptions], Images],
        split: str,
        options: ReadOptions,
        opened: dict[str, Images],
    ) -> Images:
        return opened.get(split) or self._split(reader, split, options, opened={})


def find_dataset(path: str | PathLike[str], format: str | None = None) -> FoundDataset:
    """Recognise the dataset at a path.

    Args:
        path: a folder or file.
        format: the name of its format; by default the first one of `FORMATS` that recognises it.

    Raises:
        DatasetError: there is no known dataset, no dataset of this format, or no such format.
    """
    path = Path(path)
    if (found := found_at(path, format)) is not None:
        return found
    if not path.exists():
        raise DatasetError(f"{path}: expected a dataset, found neither file nor folder; check the path")
    names = ", ".join(known.name for known in FORMATS)
    known = format_named(format).title if format else f"one of the formats {names} (docs/guide/formats.md)"
    raise DatasetError(
        f"{path}: expected a dataset of {known}, got a {'folder' if path.is_dir() else 'file'} without the files of "
        f"one{_other_files(path)}; check the path, {_file_to_give(path)}declare maps in {DECLARATION_FILE} "
        "(docs/guide/maps.md), write COCO JSON, or make samples in Python (docs/tasks/own-format.md)"
    )


def _other_files(folder: Path) -> str:
    """Return in words what is in a folder of labels; empty without one."""
    for name in LABELS:
        for labels in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if found := other_labels([labels]):
                return f", but {found} in {labels.relative_to(folder).as_posix()}/"
        if files_with(folder / name, ".txt"):
            return f", but text files in {name}/ (those of YOLO are in labels/ beside images/)"
    return ""


def _file_to_give(folder: Path) -> str:
    """Return the advice to give a JSON file in a folder instead of the folder; empty if there is none."""
    places = (folder, folder / "annotations")
    files = [file for place in places for file in files_with(place, ".json") if _TABLE.search(head_of(file))]
    if not files:
        return ""
    return f"give the file {files[0]} with the folder of its images (images_dir=, --images), "


def found_at(path: Path, format: str | None = None) -> FoundDataset | None:
    """Return the dataset at a path; None if no format recognises it.

    Raises:
        DatasetError: it is of a known format, but its files are ambiguous; or there is no such format.
    """
    if not path.exists():
        return None
    for known in FORMATS if format is None else [format_named(format)]:
        if (splits := known.splits(path)) is not None and (format is not None or known.is_preferred(path)):
            return FoundDataset(path, known, splits)
    return None


def format_named(name: str) -> Format:
    """Return a format by its name.

    Raises:
        DatasetError: there is no such format.
    """
    for known in FORMATS:
        if known.name == name:
            return known
    names = [known.name for known in FORMATS]
    near = difflib.get_close_matches(name, names, 1)
    advice = f"the nearest is {near[0]!r}" if near else "choose one of them, or leave it out"
    raise DatasetError(f"format (--from): expected one of {', '.join(names)}, got {name!r}; {advice}")


def open_dataset(
    path: str | PathLike[str],
    split: str | None = None,
    *,
    format: str | None = None,
    images_dir: str | PathLike[str] | None = None,
    panoptic_dir: str | PathLike[str] | None = None,
    task: Task | None = None,
    depth_fill: bool = False,
    transforms: Transforms | None = None,
    repeated_ids: RepeatedIds | None = None,
    class_attribute: str | None = None,
) -> AnnotatedImages:
    """Recognise the dataset at a path and open it.

    Args:
        path: a folder or file of one of the formats; an annotation file of COCO or LVIS requires ``images_dir``.
        split: name of the split, such as ``train`` or ``valid``. By default the training split, never ``val...`` or
            ``test...``.
        format: the name of its format; by default it is recognised.
        images_dir: for an annotation file, the folder to which file names of images are relative.
        panoptic_dir: for panoptic segments, the folder of their PNG files; by default the folder of the same name
            beside the file.
        task: ``segment``, ``detect`` or ``pose``; by default that of the labels. See `YoloDataset`; datasets of
            labelling tools with both outlines and boxes need it.
        depth_fill: give holes in the depth of objects their nearest valid depth, after ``transforms``; they stay
            invalid. See ``depth_order`` of the paste config.
        transforms: called with each `DenseSample`; its result replaces the sample.
        repeated_ids: for COCO's annotations that have no id, or that of an annotation before them: ``renumber`` gives
            them new ids, ``drop`` leaves them out, with a warning; by default they are an error.
        class_attribute: for files of VIA, the attribute of regions that is their class; by default the only one with a
            list of values, or the only one.

    Raises:
        DatasetError: the dataset or the format is unknown, the dataset is broken or has no such split, or the format
            does not use an option.
    """
    options = ReadOptions(
        images_dir=None if images_dir is None else Path(images_dir),
        panoptic_dir=None if panoptic_dir is None else Path(panoptic_dir),
        task=task,
        depth_fill=depth_fill,
        transforms=transforms,
        repeated_ids=checked_rule(repeated_ids),
        class_attribute=class_attribute,
    )
    return find_dataset(path, format).open(split, options)
