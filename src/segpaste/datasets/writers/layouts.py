"""Layouts of the datasets that `segpaste augment` writes, one for each written format.

All layouts have the tables of COCO, which record the origin of each object, and the
label files of their format. Trainers for formats other than COCO do not read the tables. Depth, normals and panoptic
maps are in the same folders in every layout.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import without_counts
from segpaste.datasets.formats.coco.dataset import open_instances
from segpaste.datasets.formats.coco.folders import COCO_FILE, PANOPTIC_FILE, ROBOFLOW_FILE
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.format import NO_SPLIT, WrittenTask
from segpaste.datasets.writers.annotations import open_split, with_beside
from segpaste.datasets.writers.coco import CocoInstances, RoboflowCoco, camera_keys
from segpaste.datasets.writers.coco_panoptic import CocoSegments
from segpaste.datasets.writers.dataset_writer import DatasetWriter, Part
from segpaste.datasets.writers.format import View, WrittenFormat
from segpaste.datasets.writers.registry import WRITTEN, written_format
from segpaste.types import DenseSample

LAYOUTS: tuple[str, ...] = tuple(known.name for known in WRITTEN)
FOLDERS: Mapping[str, str] = {
    "panoptic": "panoptic/NAME.png: segment id = R + 256 G + 65536 B, 0 is unlabelled; see panoptic.json",
    "depth": "depth/NAME.npy: float32 [H, W], z in metres",
    "depth_valid": "depth_valid/NAME.png: 255 where depth is valid",
    "normals": "normals/NAME.npy: float32 [H, W, 3], x right, y down, z forward, zero where invalid",
    "intrinsics": "intrinsics/NAME.txt: camera matrix in pixels, three lines; the first pixel has its centre at 0.5",
}
"""Descriptions of the folders beside the images, for the ``info`` of the tables."""
_KEY = "layout"
_OF_COCO = ("coco", "coco-panoptic")


@dataclass(frozen=True, slots=True)
class WrittenLayout:
    """Layout of the files of a written dataset.

    Attributes:
        name: name of the layout.
        split: name of the written split.
        task: task of the label files of a YOLO dataset; ``detect`` or ``pose`` for boxes only.
        point_size: numbers per keypoint in the label files.
        keeps_shapes: True if objects that no paste touches have the numbers of the original dataset.
    """

    name: str = "coco"
    split: str = "train"
    task: WrittenTask = "segment"
    point_size: int = 3
    keeps_shapes: bool = False

    @property
    def format(self) -> WrittenFormat:
        """Written format."""
        return written_format(self.name)

    @property
    def written_split(self) -> str:
        """Split of the images and tables; COCO's own tables are written without one."""
        return NO_SPLIT if self.name in _OF_COCO else self.split

    @property
    def images(self) -> str:
        """Folder of the images, relative to the dataset's folder."""
        return self.format.photos_dir(self.written_split)

    @property
    def tables(self) -> str:
        """File of the instances, relative to the dataset's folder."""
        return self._of_tables.tables(self.written_split if self.name == "roboflow" else NO_SPLIT)

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders whose files are named after samples, except those of further modalities."""
        return self.format.folders(self.written_split)

    @property
    def _of_tables(self) -> CocoInstances:
        """Format of the tables of instances."""
        return RoboflowCoco() if self.name == "roboflow" else CocoInstances()

    def note(self) -> dict[str, Any]:
        """Return the layout as JSON for the ``info`` of the tables, where `of_folder` finds it; empty for COCO."""
        return {} if self == WrittenLayout(split=self.split) else {_KEY: asdict(self)}

    def writer(self, folder: Path, categories: Sequence[JsonRow], **facts: Any) -> DatasetWriter:
        """Return the writer of a dataset: of COCO's tables, the label files, and panoptic segments where there are any.

        Args:
            folder: the dataset's folder.
            categories: the category of each class, in the order of the classes.
            facts: further facts of a `View`: ``schema``, ``has_semantic_maps`` and ``source_yaml``.
        """
        categories = without_counts(categories)
        facts |= {"task": self.task, "point_size": self.point_size}
        images, panoptic = folder / self.images, folder / PANOPTIC_FILE
        table = self.written_split if self.name == "roboflow" else NO_SPLIT
        parts = [
            Part(
                self._of_tables,
                View.of("coco", table, categories, **facts),
                lambda: with_beside(folder, open_instances(images, folder / self.tables)),
            ),
            Part(
                CocoSegments(),
                View.of("coco-panoptic", NO_SPLIT, categories, **facts),
                lambda: with_beside(folder, CocoPanoptic(images, panoptic, panoptic.with_suffix(""))),
                "" if self.name == "coco-panoptic" else PANOPTIC_FILE,
            ),
        ]
        if self.name not in (*_OF_COCO, "roboflow"):
            view = View.of(self.name, self.split, categories, **facts)
            parts.insert(0, Part(self.format, view, partial(open_split, folder, view)))
        return DatasetWriter(folder, parts, self.images, hides=True, resolves=True)


def made_entry(number: int, sample: DenseSample, suffix: str, more: JsonRow) -> JsonRow:
    """Return the entry of an image that is made.

    Args:
        number: its id, after which its file is named.
        sample: the image.
        suffix: ``png`` or ``jpg``.
        more: further keys.
    """
    height, width = sample.canvas_size
    row: JsonRow = {"id": number, "file_name": f"{number:06d}.{suffix}", "width": width, "height": height}
    return {**row, **camera_keys(sample), **more}


def of_folder(folder: Path) -> WrittenLayout:
    """Return the layout of a written dataset; COCO if its tables name no layout."""
    for path in (folder / COCO_FILE, *sorted(folder.glob(f"*/{ROBOFLOW_FILE}"))):
        if path.is_file() and (found := _noted(path)) is not None:
            return found
    return WrittenLayout()


def _noted(path: Path) -> WrittenLayout | None:
    """Read the layout from the first line of tables, where ``info`` is written; None if it is missing."""
    with path.open() as file, contextlib.suppress(ValueError, KeyError, TypeError):
        return WrittenLayout(**json.loads(file.readline().rstrip(",\n") + "}")["info"]["segpaste"][_KEY])
    return None
