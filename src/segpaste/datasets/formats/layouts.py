"""Layouts of a written dataset in its folder: COCO, Roboflow's COCO, or YOLO.

    coco       images/NAME.png         annotations.json
    roboflow   train/NAME.png          train/_annotations.coco.json
    yolo       images/train/NAME.png   annotations.json    labels/train/NAME.txt    data.yaml

All of them have the tables of `segpaste.datasets.formats.coco_writer`, which say where every object comes from.
Trainers for YOLO do not read them. Depth, normals and panoptic maps lie in the same folders in every layout.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from segpaste.datasets.formats.coco_folders import COCO_FILE, ROBOFLOW_FILE
from segpaste.datasets.formats.coco_writer import SampleRows, Write, write_sample
from segpaste.datasets.formats.format import Task
from segpaste.datasets.formats.yolo.data import label_path
from segpaste.datasets.formats.yolo.writer import sample_labels
from segpaste.types import DenseSample
from segpaste.workspace import write_whole

LayoutName = Literal["coco", "roboflow", "yolo"]
LAYOUTS: tuple[LayoutName, ...] = ("coco", "roboflow", "yolo")
_KEY = "layout"


@dataclass(frozen=True, slots=True)
class WrittenLayout:
    """Layout of the files of a written dataset.

    Attributes:
        name: of the layout.
        split: the split that is written.
        task: that of the label files of a YOLO dataset.
        point_size: numbers per keypoint in the label files.
    """

    name: LayoutName = "coco"
    split: str = "train"
    task: Task = "segment"
    point_size: int = 3

    @property
    def images(self) -> str:
        """The folder of the photos, relative to the dataset's."""
        return {"coco": "images", "roboflow": self.split, "yolo": f"images/{self.split}"}[self.name]

    @property
    def tables(self) -> str:
        """The file of the instances, relative to the dataset's folder."""
        return f"{self.split}/{ROBOFLOW_FILE}" if self.name == "roboflow" else COCO_FILE

    def note(self) -> dict[str, Any]:
        """Return the layout as JSON for the ``info`` of the tables, where `of_folder` finds it; empty for COCO."""
        return {} if self.name == "coco" else {_KEY: asdict(self)}

    def write(self, folder: Path, image_id: int, sample: DenseSample, *args: Any, **options: Any) -> SampleRows:
        """Write one sample, see `segpaste.datasets.formats.coco_writer.write_sample`, with its label file if any."""
        write: Write = options.get("write", write_whole)
        options |= {"images": self.images, "boxes_only": self.name == "yolo" and self.task != "segment"}
        rows = write_sample(folder, image_id, sample, *args, **options)
        if self.name == "yolo":
            path = label_path(folder / self.images / rows.image["file_name"])
            write(path, sample_labels(sample, self.task, self.point_size).encode())
        return rows

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders whose files are named after samples, except those of further modalities."""
        return (self.images, f"labels/{self.split}") if self.name == "yolo" else (self.images,)


def of_folder(folder: Path) -> WrittenLayout:
    """Return the layout of a written dataset; COCO if its tables name no other."""
    for path in (folder / COCO_FILE, *sorted(folder.glob(f"*/{ROBOFLOW_FILE}"))):
        if path.is_file() and (found := _noted(path)) is not None:
            return found
    return WrittenLayout()


def _noted(path: Path) -> WrittenLayout | None:
    """Read the layout from the first line of tables, where `write_tables` puts ``info``; None if it is not there."""
    with path.open() as file, contextlib.suppress(ValueError, KeyError, TypeError):
        return WrittenLayout(**json.loads(file.readline().rstrip(",\n") + "}")["info"]["segpaste"][_KEY])
    return None
