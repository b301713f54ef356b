"""Detection and opening of the dataset at a path: an annotation file, a YOLO dataset, or COCO folders.

    data.yaml, or images/ and labels/      YOLO, see `segpaste.datasets.formats.yolo.data`
    train/_annotations.coco.json           Roboflow: each split's photos beside its annotations
    images/ and annotations.json           COCO, as `segpaste augment` writes it

File names decide the layout, and the keys of a YAML that is not called ``data.yaml``. Splits called ``val...`` or
``test...`` are held out: they are opened only by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from segpaste.datasets.formats.coco import CocoDetectionV2
from segpaste.datasets.formats.coco_panoptic import CocoPanoptic
from segpaste.datasets.formats.indexed.file import AnnotationFile
from segpaste.datasets.formats.records import DatasetError
from segpaste.datasets.formats.splits import chosen_split
from segpaste.datasets.formats.yolo.data import YAML_SUFFIXES, find_yaml, read_data, split_folders
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.formats.yolo.labels import Task
from segpaste.types import DenseSample

LayoutName = Literal["coco", "roboflow", "yolo"]
ROBOFLOW_FILE = "_annotations.coco.json"
COCO_FILE = "annotations.json"

Transforms = Callable[[DenseSample], DenseSample]
PhotoDataset = CocoDetectionV2 | CocoPanoptic | YoloDataset


@dataclass(frozen=True, slots=True)
class FoundDataset:
    """Dataset found at a path.

    Attributes:
        path: the folder, or the data YAML.
        layout: of its files.
        splits: the names of its splits.
    """

    path: Path
    layout: LayoutName
    splits: tuple[str, ...]

    def chosen_split(self, split: str | None = None) -> str:
        """Return the split of this name, or without a name the one to train on.

        Raises:
            DatasetError: there is no such split; or none is named, and none or several could be the one to train on.
        """
        return chosen_split(self.path, self.splits, split)

    def open(
        self, split: str | None = None, *, task: Task | None = None, transforms: Transforms | None = None
    ) -> PhotoDataset:
        """Open one split; see `open_dataset`."""
        name = self.chosen_split(split)
        if self.layout == "yolo":
            return YoloDataset(self.path, name, task=task, transforms=transforms)
        if task is not None:
            raise DatasetError(
                f"{self.path}: expected a YOLO dataset with the task {task}, got {self.layout}; leave it out"
            )
        file = self.annotations_file(name)
        folder = file.parent if self.layout == "roboflow" else file.parent / "images"
        photos = CocoDetectionV2(folder, file, transforms=transforms)
        if _are_boxes(photos):
            raise DatasetError(
                f"{file}: expected segmentations, got boxes alone, as in exports of object detection projects; export "
                "the project as YOLO, whose boxes are read"
            )
        return photos

    def annotations_file(self, split: str) -> Path:
        """Return the file with the labels of a split; for a YOLO dataset its YAML or folder."""
        if self.layout == "roboflow":
            own = self.path / ROBOFLOW_FILE
            return own if own.is_file() else self.path / split / ROBOFLOW_FILE
        return self.path / COCO_FILE if self.layout == "coco" else self.path


def _are_boxes(photos: CocoDetectionV2) -> bool:
    """Tell whether there are annotations, and none of them has a segmentation."""
    return photos._records.are_boxes


def find_dataset(path: str | PathLike[str]) -> FoundDataset:
    """Find out which dataset lies in a folder, or is described by a YAML.

    Raises:
        DatasetError: there is no known dataset.
    """
    path = Path(path)
    layout = layout_at(path)
    if layout is None and not path.is_dir():
        raise DatasetError(f"{path}: expected a folder or a data YAML, found neither; check the path")
    if layout is None:
        raise DatasetError(
            f"{path}: expected a dataset, got a folder without a data YAML, without images and labels, and without "
            f"{ROBOFLOW_FILE} in its folders; check the path"
        )
    if layout == "yolo":
        return FoundDataset(path, layout, tuple(read_data(path).splits))
    if layout == "coco":
        return FoundDataset(path, layout, ("train",))
    own = (path.resolve().name,) if (path / ROBOFLOW_FILE).is_file() else ()
    return FoundDataset(path, layout, own or tuple(file.parent.name for file in _split_files(path)))


def layout_at(path: Path) -> LayoutName | None:
    """Return the layout of the dataset in a folder, or of a YAML; None where there is none.

    Raises:
        DatasetError: several YAMLs could be the one, or one is no YAML.
    """
    if not path.is_dir():
        return "yolo" if path.is_file() and path.suffix in YAML_SUFFIXES else None
    if find_yaml(path) is not None:
        return "yolo"
    if (path / ROBOFLOW_FILE).is_file() or _split_files(path):
        return "roboflow"
    if (path / COCO_FILE).is_file() and (path / "images").is_dir():
        return "coco"
    return "yolo" if split_folders(path) else None


def _split_files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob(f"*/{ROBOFLOW_FILE}") if not file.parent.name.startswith("."))


def open_dataset(
    path: str | PathLike[str],
    split: str | None = None,
    *,
    images_dir: str | PathLike[str] | None = None,
    panoptic_dir: str | PathLike[str] | None = None,
    task: Task | None = None,
    transforms: Transforms | None = None,
) -> PhotoDataset:
    """Find the dataset at a path and open it.

    Args:
        path: a folder or YAML of a YOLO dataset, a folder of Roboflow's COCO export, or with ``images_dir`` a file of
            COCO or LVIS instances or of COCO panoptic segments.
        split: such as ``train`` or ``valid``. By default the one to train on, never ``val...`` or ``test...``.
        images_dir: for an annotation file, the folder that the file names of the photos start from.
        panoptic_dir: for panoptic segments, the folder of their PNG files; by default the folder of the same name
            beside the file.
        task: see `YoloDataset`.
        transforms: called with every `DenseSample`, returns the one to use instead.

    Raises:
        DatasetError: the dataset is unknown or broken, or has no such split.
    """
    path = Path(path)
    if path.is_dir() or path.suffix in YAML_SUFFIXES:
        if images_dir is not None or panoptic_dir is not None:
            raise DatasetError(f"{path}: expected a folder or a YAML alone, got folders beside it too; leave them out")
        return find_dataset(path).open(split, task=task, transforms=transforms)
    if split is not None or task is not None:
        raise DatasetError(f"{path}: expected a folder or a YAML with a split or a task, got a file; leave them out")
    if images_dir is None:
        raise DatasetError(f"{path}: expected the folder of the photos beside an annotation file, got none; give it")
    file = AnnotationFile(path)
    if file.is_panoptic:
        segments = path.with_suffix("") if panoptic_dir is None else panoptic_dir
        return CocoPanoptic(images_dir, file, segments, transforms=transforms)
    if panoptic_dir is not None:
        raise DatasetError(f"{path}: expected panoptic segments with a folder of their PNG files, got instances")
    return CocoDetectionV2(images_dir, file, transforms=transforms)
