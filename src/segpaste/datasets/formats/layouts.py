"""Layouts of the datasets that `segpaste augment` writes, one for each format of `segpaste.datasets.formats.written`.

All layouts have the tables of `segpaste.datasets.formats.coco_writer`, which record the origin of each object, and the
label files of their format. Trainers for formats other than COCO do not read the tables. Depth, normals and panoptic
maps are in the same folders in every layout.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.coco.folders import COCO_FILE, ROBOFLOW_FILE
from segpaste.datasets.formats.coco_writer import Crowds, SampleRows, Write, crowds_left, write_sample
from segpaste.datasets.formats.format import NO_SPLIT, WrittenTask
from segpaste.datasets.formats.kept_shapes import KeptShape
from segpaste.datasets.formats.written.format import LabelForm, LabelledPhoto, WrittenFormat, WrittenSplit
from segpaste.datasets.formats.written.registry import WRITTEN, written_format
from segpaste.types import DenseSample
from segpaste.workspace import write_whole

LayoutName = Literal["coco", "coco-panoptic", "lvis", "roboflow", "yolo", "voc", "label-maps"]
LAYOUTS: tuple[str, ...] = tuple(known.name for known in WRITTEN)
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

    name: LayoutName = "coco"
    split: str = "train"
    task: WrittenTask = "segment"
    point_size: int = 3
    keeps_shapes: bool = False

    @property
    def format(self) -> WrittenFormat:
        """Written format."""
        return written_format(self.name)

    @property
    def images(self) -> str:
        """Folder of the images, relative to the dataset's folder."""
        return self.format.photos_dir(NO_SPLIT if self.name in _OF_COCO else self.split)

    @property
    def tables(self) -> str:
        """File of the instances, relative to the dataset's folder."""
        return f"{self.split}/{ROBOFLOW_FILE}" if self.name == "roboflow" else COCO_FILE

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders whose files are named after samples, except those of further modalities."""
        return self.format.folders(NO_SPLIT if self.name in _OF_COCO else self.split)

    @property
    def has_boxes_alone(self) -> bool:
        """True if objects are written without masks."""
        return self.task not in ("segment", "obb")

    def note(self) -> dict[str, Any]:
        """Return the layout as JSON for the ``info`` of the tables, where `of_folder` finds it; empty for COCO."""
        return {} if self == WrittenLayout(split=self.split) else {_KEY: asdict(self)}

    def write(
        self,
        folder: Path,
        image_id: int,
        sample: DenseSample,
        categories: Sequence[JsonRow],
        *,
        kept: Sequence[KeptShape] = (),
        **options: Any,
    ) -> SampleRows:
        """Write one sample, see `segpaste.datasets.formats.coco_writer.write_sample`, with its label files.

        ``kept`` has the given numbers of each instance.

        Raises:
            ValueError: the layout cannot hold the sample.
        """
        if self.name == "coco-panoptic" and sample.panoptic_map is None:
            raise ValueError("--layout coco-panoptic: expected panoptic maps, got none; choose another layout")
        write: Write = options.get("write", write_whole)
        has_maps = self.format.keeps_semantic_maps and sample.semantic_map is not None
        options |= {"images": self.images, "boxes_only": self.has_boxes_alone or has_maps}
        options |= {"kept": [shape.entry for shape in kept]} if kept else {}
        rows = write_sample(folder, image_id, sample, categories, **options)
        for path, content in self._label_files(sample, categories, rows, options.get("crowds", ()), kept):
            write(folder / path, content)
        return rows

    def write_closing(self, folder: Path, categories: Sequence[JsonRow], has_semantic_maps: bool) -> None:
        """Write the files that follow all samples and tables; none for COCO's layouts and YOLO.

        Args:
            folder: the dataset's folder.
            categories: the category of each class, in the order of the classes.
            has_semantic_maps: True if samples have semantic maps.
        """
        if self.name in (*_OF_COCO, "roboflow", "yolo"):
            return
        found = json.loads((folder / self.tables).read_bytes())
        tables = {key: value for key, value in found.items() if key not in ("images", "annotations", "categories")}
        of_image: dict[int, list[JsonRow]] = {row["id"]: [] for row in found["images"]}
        for row in found["annotations"]:
            of_image[row["image_id"]].append(row)

        def rows() -> Iterator[SampleRows]:
            return (SampleRows(row, of_image[row["id"]]) for row in found["images"])

        split = WrittenSplit(self.split, tables, categories, rows)
        form = self._form(categories, has_semantic_maps)
        for path, content in self.format.closing_files([split], form, Counter()):
            write_whole(folder / path, content)

    def _label_files(
        self,
        sample: DenseSample,
        categories: Sequence[JsonRow],
        rows: SampleRows,
        crowds: Crowds,
        kept: Sequence[KeptShape],
    ) -> Iterator[Any]:
        form = self._form(categories, sample.semantic_map is not None)
        regions = [(crowd, origin.get("carried", {})) for crowd, origin in crowds_left(sample, crowds)]
        own = rows.annotations[: sample.num_instances]
        lines = [shape.line for shape in kept]
        boxes = [shape.entry.get("bbox") for shape in kept]
        photo = LabelledPhoto(self.split, rows.image["file_name"], rows.image, sample, own, regions, lines, boxes)
        return self.format.label_files(photo, form, Counter())

    def _form(self, categories: Sequence[JsonRow], has_semantic_maps: bool) -> LabelForm:
        names = [str(row["name"]) for row in categories]
        return LabelForm(names, self.task, self.point_size, None, has_semantic_maps)


def of_folder(folder: Path) -> WrittenLayout:
    """Return the layout of a written dataset; COCO if its tables name no layout."""
    for path in (folder / COCO_FILE, *sorted(folder.glob(f"*/{ROBOFLOW_FILE}"))):
        if path.is_file() and (found := _noted(path)) is not None:
            return found
    return WrittenLayout()


def _noted(path: Path) -> WrittenLayout | None:
    """Read the layout from the first line of tables, where `write_tables` writes ``info``; None if it is missing."""
    with path.open() as file, contextlib.suppress(ValueError, KeyError, TypeError):
        return WrittenLayout(**json.loads(file.readline().rstrip(",\n") + "}")["info"]["segpaste"][_KEY])
    return None
