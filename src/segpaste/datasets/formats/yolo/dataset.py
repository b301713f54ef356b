"""Format and reader of YOLO datasets: images with a text file of boxes, polygons or keypoints each.

`segpaste.datasets.formats.yolo.data` finds the files, `segpaste.datasets.formats.yolo.labels` parses the label files.
Tracks and class folders, which Ultralytics stores in folders of the same names, are not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.datasets._windows import runs_natively
from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.drawn_masks import DrawnMasks, lone_objects, read_segmentation, whole
from segpaste.datasets.formats.folders import other_labels
from segpaste.datasets.formats.format import (
    TASKS,
    AnnotatedImages,
    Format,
    PackedRows,
    ReadOptions,
    Task,
    WrittenTask,
    chosen_split,
)
from segpaste.datasets.formats.image_files import read_upright, upright_size
from segpaste.datasets.formats.instances import sample_of_boxes
from segpaste.datasets.formats.yolo.data import (
    YAML_SUFFIXES,
    YoloData,
    expect_labels,
    find_yaml,
    found_labels,
    images_of,
    label_path,
    read_data,
    split_folders,
    stray_labels,
)
from segpaste.datasets.formats.yolo.labels import (
    BOX_NUMBERS,
    ORIENTED_NUMBERS,
    LabelFormat,
    box_px,
    exact_box,
    keypoint_schema,
    numbered_classes,
    parse_labels,
    points_px,
    polygon_px,
    read_labels,
)
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.types import DenseSample
from segpaste.types.sampling import Size

ONE_KIND = "complete the polygons, or read all as boxes with the task detect"
"""Advice for a dataset with both boxes and polygons."""


class YoloDataset(AnnotatedImages):
    """One split of a YOLO dataset, one `DenseSample` for each image, sorted by path.

    Polygons and oriented boxes give samples with instance masks and boxes that fit them. Box labels give boxes only,
    pose labels boxes and keypoints; these are pasted only with ``source.mask_from``. An image without a label file, or
    with an empty one, has no objects; that no image has one, but that there are other files, is an error. Images are
    rotated by their EXIF orientation, because labels are drawn on the rotated image.

    All label files are read at construction. Coordinates may be up to 1 % outside the image; objects are clipped to it.
    Of equal rows only the first one is kept, and `num_duplicates` counts the others. Objects without a pixel are left
    out with a warning. Another warning reports label files without an image, see ``stray_labels``.

    Args:
        path: the data YAML, or its folder; without a YAML a folder with ``images`` and ``labels``.
        split: a key of the YAML, or the name of a folder; by default the training split, never ``val...`` or
            ``test...``.
        task: ``segment``, ``detect`` or ``pose``; by default that of the labels. ``detect`` reads only boxes,
            including those of polygons and pose labels.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Attributes:
        data: contents of the YAML.
        split: name of the split.
        task: task of the labels that were read.
        is_oriented: True if all labels are oriented boxes, a class and four corners, and no task was asked for.
        class_names: the name of each class; labels index it. Classes without names are numbered.
        keypoint_schema: schema of pose labels, else None.
        num_duplicates: number of rows left out because an equal row comes before them in the file.
        stray_labels: label files without an image.
        digest: a digest of names, labels and task; two datasets with the same digest have the same labels.

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
        transforms: Callable[[DenseSample], DenseSample] | None = None,
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

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return the line number of each object in its label file, from 1; instance id i + 1 is at position i."""
        record = self._records[index]
        if (lines := self._ids_of_recent.get(record["id"])) is not None:
            return lines
        return tuple(row["line"] for row in self._objects(record, upright_size(self._image_file(record)))[0])

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each row, from the label file alone; no image is read.

        Objects without a pixel are included, although they are not instances.
        """
        return tuple(row["label"] for row in self._records[index]["rows"])

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

    def left_out(self, index: int) -> dict[str, int]:
        """Count the ``empty`` objects of a read image, which are not instances."""
        return {"empty": len(self._empty.get(self._records[index]["id"], ()))}

    @cached_property
    def _empty(self) -> dict[int, set[int]]:
        """Lines of each image that this process has left out so far because they have no pixel."""
        return {}

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
                "it, or disable flips (placement.hflip_probability=0)",
                stacklevel=3,
            )

    def _image_file(self, record: JsonRow) -> Path:
        return self.images_dir / str(record["file_name"])

    def _read_sample(self, record: JsonRow) -> DenseSample:
        image = read_upright(self._image_file(record))
        size = image.shape[1], image.shape[2]
        rows, drawn = self._objects(record, size)
        if self.task == "segment":
            return drawn.sample(image, [row["label"] for row in rows])
        more: Any = {"keypoints": self._keypoints(rows, size), "keypoint_schema": self.keypoint_schema}
        return sample_of_boxes(image, [(row["label"], box_px(row["values"], size)) for row in rows], **more)

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return the instances of an image to decode one by one, where samples have masks from these files alone."""
        is_plain = type(self)._read_sample is YoloDataset._read_sample and self.transforms is None
        if not (is_plain and self.task == "segment" and self.beside is None and runs_natively()):
            return None
        record = self._records[index]
        path = self._image_file(record)
        size = upright_size(path)
        found = [(row, *read_segmentation([polygon_px(row["values"], size)], whole(size))) for row in record["rows"]]
        for row in (row for row, _, shown in found if not shown.area):
            self._leave_out(record, row)
        kept = [(row, counts, shown) for row, counts, shown in found if shown.area]
        self._remember(record["id"], (row["line"] for row, *_ in kept))
        return lone_objects(path, size, kept, drawn_upright=True)

    def _keypoints(self, rows: list[JsonRow], size: Size) -> Tensor | None:
        shape = self.data.keypoint_shape
        if self.keypoint_schema is None or shape is None:
            return None
        points = [points_px(row["values"], shape, size) for row in rows]
        return torch.from_numpy(np.array(points, np.float32).reshape(-1, shape[0], 3))

    def _objects(self, record: JsonRow, size: Size) -> tuple[list[JsonRow], DrawnMasks]:
        """Return the rows of instances of an image of (H, W), and the masks of polygons."""
        kept: list[JsonRow] = []
        is_segment = self.task == "segment"
        drawn = DrawnMasks(len(record["rows"]) if is_segment else 0, size)
        for row in record["rows"]:
            if is_segment:
                is_there = drawn.draw([polygon_px(row["values"], size)])
            else:
                x1, y1, x2, y2 = box_px(row["values"], size)
                is_there = x1 < x2 and y1 < y2
            if is_there:
                kept.append(row)
            else:
                self._leave_out(record, row)
        self._remember(record["id"], (row["line"] for row in kept))
        return kept, drawn

    def _leave_out(self, record: JsonRow, row: JsonRow) -> None:
        if not self._empty:
            where = f"{found_labels(self._image_file(record))}: line {row['line']}"
            warnings.warn(f"{where} has no pixel and is left out; further ones are only counted", stacklevel=2)
        self._empty.setdefault(record["id"], set()).add(row["line"])


class YoloFormat(Format):
    """YOLO datasets, see `segpaste.datasets.formats.yolo.data`."""

    name = "yolo"
    title = "YOLO"
    files = "data.yaml, or images/ and labels/"
    gives = "masks of polygons; or boxes only; or keypoints"
    takes = frozenset({"task"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the splits of the data YAML, or the names of the folders."""
        if path.is_file():
            return tuple(read_data(path).splits) if path.suffix.lower() in YAML_SUFFIXES else None
        if find_yaml(path) is None:
            folders = split_folders(path).values()
            if not folders or other_labels({path / "labels", *(label_path(f / "photo.jpg").parent for f in folders)}):
                return None
        return tuple(read_data(path).splits)

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split."""
        return YoloDataset(path, split, task=options.task, transforms=options.transforms)

    def copies(self, path: Path, split: str) -> Iterator[tuple[PurePosixPath, Path]]:
        """Yield images and label files, which are copied to ``images/SPLIT`` and ``labels/SPLIT``."""
        sources = read_data(path).splits[split]
        for number, source in enumerate(sources):
            if not source.exists():
                warnings.warn(
                    f"{source}: expected the images of '{split}', found none; the split is left out", stacklevel=2
                )
                continue
            for image in images_of(source):
                below = (str(number),) if len(sources) > 1 else ()  # two folders may have images of the same name
                target = PurePosixPath("images", split, *below, _name_in(source, image))
                yield target, image
                if (labels := found_labels(image)).is_file():
                    yield PurePosixPath(label_path(Path(target)).as_posix()), labels


def _name_in(source: Path, image: Path) -> str:
    """Return the name of an image relative to the folder of its split, or for a list to its last folder ``images``."""
    if source.is_dir():
        return image.relative_to(source).as_posix()
    parts = image.parts
    last = max((i for i, part in enumerate(parts[:-1]) if part == "images"), default=len(parts) - 2)
    return PurePosixPath(*parts[last + 1 :]).as_posix()
