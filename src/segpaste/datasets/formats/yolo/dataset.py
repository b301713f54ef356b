"""Reader of YOLO datasets: the samples of `segpaste.datasets.formats.yolo.annotations`."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste._pixels import Size
from segpaste.datasets._windows import runs_natively
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.drawn_masks import DrawnMasks, lone_objects, read_segmentation, whole
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.image_pixels import read_upright
from segpaste.datasets.formats.instances import sample_of_boxes
from segpaste.datasets.formats.yolo.annotations import YoloAnnotations
from segpaste.datasets.formats.yolo.data import found_labels
from segpaste.datasets.formats.yolo.labels import box_px, points_px, polygon_px
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.types import DenseSample


class YoloDataset(YoloAnnotations, AnnotatedImages):
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

    def left_out(self, index: int) -> dict[str, int]:
        """Count the ``empty`` objects of a read image, which are not instances."""
        return {"empty": len(self._empty.get(self._records[index]["id"], ()))}

    @cached_property
    def _empty(self) -> dict[int, set[int]]:
        """Lines of each image that this process has left out so far because they have no pixel."""
        return {}

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
