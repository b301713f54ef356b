"""Reader of the annotations of YOLO datasets: a text file of boxes, polygons or keypoints for each image.

`segpaste.datasets.formats.yolo.data` finds the files, `segpaste.datasets.formats.yolo.labels` parses the label files.
Tracks and class folders, which Ultralytics stores in folders of the same names, are not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import TASKS, Task, WrittenTask, chosen_split
from segpaste.datasets.formats.image_annotations import ImageAnnotations, PackedRows, Transforms
from segpaste.datasets.formats.yolo.data import (
    YoloData,
    expect_labels,
    found_labels,
    images_of,
    read_data,
    stray_labels,
)
from segpaste.datasets.formats.yolo.labels import (
    BOX_NUMBERS,
    ORIENTED_NUMBERS,
    LabelFormat,
    exact_box,
    keypoint_schema,
    numbered_classes,
    parse_labels,
    polygon_px,
    read_labels,
)

ONE_KIND = "complete the polygons, or read all as boxes with the task detect"
"""Advice for a dataset with both boxes and polygons."""


class YoloAnnotations(ImageAnnotations):
    """Annotations of one split of a YOLO dataset; `YoloDataset` has the samples, too.

    Args:
        path: the data YAML, or its folder; without a YAML a folder with ``images`` and ``labels``.
        split: a key of the YAML, or the name of a folder; by default the training split, never ``val...`` or
            ``test...``.
        task: ``segment``, ``detect`` or ``pose``; by default that of the labels.
        transforms: function that changes each sample.

    Attributes:
        data: contents of the YAML.
        split: name of the split.
        task: task of the labels that were read.
        is_oriented: True if all labels are oriented boxes, a class and four corners, and no task was asked for.
        num_duplicates: number of rows left out because an equal row comes before them in the file.
        stray_labels: label files without an image.

    Raises:
        DatasetError: a folder or file is missing, or a line is invalid.
    """

    data: YoloData
    split: str
    drawn_upright = True
    task: Task
    is_oriented: bool
    num_duplicates: int
    stray_labels: tuple[Path, ...]

    def __init__(
        self,
        path: str | PathLike[str],
        split: str | None = None,
        *,
        task: Task | None = None,
        transforms: Transforms | None = None,
    ) -> None:
        if task is not None and task not in TASKS:
            raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {task!r}")
        self.data, self._asked = read_data(Path(path)), task
        self.split = chosen_split(Path(path), self.data.splits, split)
        if task == "pose" and self.data.keypoint_shape is None:
            raise DatasetError(f"{self.data.file}: expected the key 'kpt_shape', for task='pose', got none; add it")
        super().__init__(self.data.root, self.data.file, transforms=transforms)
        self._warn()

    def stray_files(self) -> dict[Path, str]:
        """Return the label files without an image."""
        return dict.fromkeys(self.stray_labels, "label files")

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folders of all splits; without a YAML their parent, where a new folder would be a split."""
        if self.data.file.is_dir():
            return (self.data.root if not (self.data.root / "images").is_dir() else self.data.root / "images",)
        return tuple(folder for folders in self.data.splits.values() for folder in folders if folder.is_dir())

    @property
    def categories(self) -> list[JsonRow]:
        """Classes in COCO's form, with ids from 1."""
        points = {"keypoints": list(schema.names), "skeleton": []} if (schema := self.keypoint_schema) else {}
        return [{"id": label + 1, "name": name, **points} for label, name in enumerate(self.class_names)]

    def files_of(self, index: int) -> tuple[Path, ...]:
        """Return the label file of an image."""
        return (found_labels(self.path_of(index)),)

    @property
    def written_task(self) -> WrittenTask:
        """Task of label files that hold what these hold: ``obb`` for oriented boxes."""
        return "obb" if self.is_oriented else self.task

    def polygons(self, index: int, size: Size) -> dict[int, list[float]]:
        """Return the polygon of each polygon row, [x1, y1, x2, ...] in pixels of an image of (H, W)."""
        rows = self._records[index]["rows"]
        return {row["line"]: polygon_px(row["values"], size) for row in rows if self.task == "segment"}

    def shape_rows(self, index: int, size: Size) -> dict[int, JsonRow]:
        """Return the polygon, or else the box, of each row by its line, in pixels of an image of (H, W)."""
        if self.task == "segment":
            return {line: {"segmentation": [polygon]} for line, polygon in self.polygons(index, size).items()}
        return {row["line"]: {"bbox": exact_box(row["values"], size)} for row in self.rows(index)}

    def label_numbers(self, index: int, task: str) -> dict[int, list[float]]:
        """Return the numbers of each row by its line, if its form is that of the task."""
        is_same = task == self.written_task or (task, self.task) == ("segment", "segment")
        return {row["line"]: row["values"] for row in self.rows(index)} if is_same else {}

    def rows(self, index: int) -> list[JsonRow]:
        """Return the rows of an image: ``line``, from 1, ``label``, and ``values``, fractions of the image's sides."""
        rows: list[JsonRow] = self._records[index]["rows"]
        return rows

    def num_equal(self, index: int) -> int:
        """Return the number of rows of an image's label file that are left out, because they equal another."""
        return sum(bool(line.strip()) for line in self.label_text(index).splitlines()) - len(self.rows(index))

    def num_reduced(self, index: int) -> int:
        """Return the number of rows of an image whose outline or keypoints are read as a box, with the task detect."""
        lines = self.label_text(index).splitlines() if self.task == "detect" else []
        return sum(len(line.split()) > BOX_NUMBERS for line in lines)

    def label_text(self, index: int) -> str:
        """Return the text of an image's label file; empty if it has none."""
        return read_labels(found_labels(self._image_file(self._records[index])))

    def kept_text(self, index: int) -> str:
        """Return the text of an image's label file without the rows that equal another."""
        text = self.label_text(index)
        lines = text.splitlines(keepends=True)
        return "".join(lines[row["line"] - 1] for row in self.rows(index)) if self.num_equal(index) else text

    def _read_records(self) -> Sequence[JsonRow]:
        data = self.data
        self.class_names = numbered_classes(data) if data.class_names is None else data.class_names
        label_format = LabelFormat(len(self.class_names), data.keypoint_shape, self._asked)
        digest = hashlib.sha256(json.dumps([self.class_names, data.keypoint_shape, data.flip_idx]).encode())
        self.num_duplicates = 0
        first_lines: dict[Task, str] = {}
        images, labelled, num_numbers = self._images(), list[bool](), set[int]()

        def records() -> Iterator[JsonRow]:
            for number, image in enumerate(images, start=1):
                file_name, labels = Path(os.path.relpath(image, data.root)).as_posix(), found_labels(image)
                text = read_labels(labels)
                labelled.append(labels.is_file())
                rows, num_twice = parse_labels(labels, text, label_format)
                self.num_duplicates += num_twice
                for row in rows:
                    num_numbers.add(1 + len(row["values"]))
                    if (kind := row.pop("kind")) not in first_lines:
                        first_lines[kind] = f"{labels}: line {row['line']}"
                digest.update(json.dumps([file_name, text]).encode())
                yield {"id": number, "file_name": file_name, "rows": rows}

        packed = PackedRows(records())
        expect_labels(data.splits[self.split], images, sum(labelled))
        self.task = self._task_of(first_lines)
        self.has_masks = self.task == "segment"
        self.is_oriented = self.has_masks and self._asked is None and num_numbers == {ORIENTED_NUMBERS}
        digest.update(self.task.encode())
        self.digest = digest.hexdigest()
        self.stray_labels = tuple(path for source in data.splits[self.split] for path in stray_labels(source, images))
        self.keypoint_schema = None
        if self.task == "pose" and data.keypoint_shape is not None:
            self.keypoint_schema = keypoint_schema(data.keypoint_names, data.keypoint_shape[0], data.flip_idx)
        return packed

    def _images(self) -> list[Path]:
        """Return the unique images of the split, sorted by path."""
        sources = self.data.splits[self.split]
        images = sorted({image for source in sources for image in images_of(source)})
        if not images:
            names = ", ".join(map(str, sources))
            raise DatasetError(f"{names}: expected at least one image of '{self.split}', got none")
        return images

    def _task_of(self, first_lines: dict[Task, str]) -> Task:
        """Return the common task of all rows, given the position of the first row of each kind."""
        if len(first_lines) > 1:
            raise DatasetError(
                f"{first_lines['detect']} has a box, {first_lines['segment']} a polygon: expected one of "
                f"them in all rows, since boxes give no masks; {ONE_KIND}"
            )
        default: Task = "detect" if self.data.keypoint_shape is None else "pose"
        return next(iter(first_lines), self._asked or default)

    def _warn(self) -> None:
        """Warn about label files and rows that are left out, and about keypoints without ``flip_idx``."""
        if self.stray_labels:
            num = len(self.stray_labels)
            warnings.warn(
                f"{self.stray_labels[0]}: expected an image of this name, found none; {num} label "
                f"{'file has' if num == 1 else 'files have'} no image and {'is' if num == 1 else 'are'} not read",
                stacklevel=3,
            )
        if self.num_duplicates:
            num = self.num_duplicates
            warnings.warn(
                f"{self.data.file}: left out {num} {'row' if num == 1 else 'rows'} of '{self.split}' that "
                f"{'is' if num == 1 else 'are'} in the same label file already",
                stacklevel=3,
            )
        if self.keypoint_schema is not None and self.data.flip_idx is None:
            warnings.warn(
                f"{self.data.file}: expected 'flip_idx' with 'kpt_shape', got none: no points swap when flipped; add "
                "it, or disable flips (placement.hflip_probability=0, and vflip_probability=0)",
                stacklevel=3,
            )

    def _image_file(self, record: JsonRow) -> Path:
        return self.images_dir / str(record["file_name"])
