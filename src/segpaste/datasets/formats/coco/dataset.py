"""Reader of COCO instances, of LVIS, and of files with boxes only.

The format is described at https://cocodataset.org/#format-data, "Object Detection". The index of a file has the
annotations of each image, and their positions in the file. For semantic and panoptic maps use
`segpaste.datasets.formats.coco.panoptic`; captions are not read.
"""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.datasets.contract import FederatedLabels, JsonRow
from segpaste.datasets.entries import IGNORED, INSTANCE, NEITHER, UNMASKED, Categories, box_of
from segpaste.datasets.formats.coco.indexed import IndexedPhotos, IndexedRecords, image_columns
from segpaste.datasets.formats.format import Transforms
from segpaste.datasets.formats.instances import InstancePhotos
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import Column, Index, firsts_of, join_columns, narrow
from segpaste.datasets.tables import CLASS_LISTS, INSTANCES, AnnotationTables


class CocoDetectionV2(IndexedPhotos, InstancePhotos):
    """Images with instances, one `DenseSample` each, in the order of the file's ``images``.

    A sample has image (uint8), boxes that fit their masks tightly (not those of the file), labels, instance ids 1..N,
    instance masks, and keypoints if a category names some. Crowd (``iscrowd``) and ignored (``ignore``) regions are not
    instances. If the file has any, samples have a crowd mask: the union of their masks, or of their boxes where a mask
    is empty. An image without annotations gives N = 0. Annotations with an empty mask are left out with one warning,
    and counted in ``num_empty_masks``.

    LVIS files are read too. An image without ``file_name`` is named by the end of its ``coco_url``, such as
    ``train2017/000000391895.jpg``. `federated` returns the classes that were annotated in an image.

    Args:
        images_dir: the folder to which file names of images are relative.
        annotations_file: the JSON file.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Attributes:
        class_names: the name of each class; labels index it.
        category_ids: the id of each class in the file, ascending; these may have gaps, labels have none.
        keypoint_schema: names of the keypoints; None without keypoints.
        has_crowds: True if samples have a crowd mask.

    Raises:
        DatasetError: the folder is missing, or the file is missing, broken or incomplete.
    """

    category_ids: tuple[int, ...]

    @cached_property
    def _records(self) -> CocoRecords:
        return self._read_records()

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each annotation except crowds, from the file alone; no image or mask is read.

        Annotations with an empty mask are included, although they are not instances.
        """
        return tuple(self._records.labels(index, instances=True))

    def left_out(self, index: int) -> dict[str, int]:
        """Count the annotations of a read image that are not instances: ``crowd`` or ignored, ``empty`` masks."""
        num_empty = sum(row_id in self._empty_ids for row_id in self._records.ids(index, crowds=False))
        return {"crowd": len(self._records.ids(index, crowds=True)), "empty": num_empty}

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if the file does not say."""
        named = self._records.class_lists(self._records.image_row(index))
        if named["negative"] is None:
            return None
        positive = set(self._records.labels(index, instances=False))
        lists = positive, named["negative"], named["not_exhaustive"] or []
        return FederatedLabels(*(tuple(sorted(labels)) for labels in lists))

    def _read_records(self) -> CocoRecords:
        index, categories = self._index("instances", INSTANCES, lambda found: found.schema, make_index)
        self.category_ids, self.class_names = categories.ids, categories.names
        self.keypoint_schema, self.has_crowds = categories.schema, index.facts["has_crowds"]
        return CocoRecords(self._file, index, categories)


def open_instances(images_dir: Path, file: str | PathLike[str], transforms: Transforms | None) -> CocoDetectionV2:
    """Open a file of COCO instances: with masks, or with boxes only if no annotation has a segmentation.

    Raises:
        DatasetError: see `segpaste.datasets.CocoDetectionV2`.
    """
    photos = CocoDetectionV2(images_dir, file, transforms=transforms)
    photos.has_masks = not photos._records.are_boxes
    return photos


class CocoRecords(IndexedRecords):
    """Images of a file of instances.

    A record has the keys of the ``images`` table, ``file_name``, and lists of ``annotations`` (``id``, ``label``,
    ``segmentation``, ``keypoints``, ``box``), of ``crowds`` (``ignored`` and ``unmasked`` instead of keypoints), and of
    the classes that the image names as ``negative`` and ``not_exhaustive``.
    """

    def __init__(self, file: AnnotationFile, index: Index, categories: Categories) -> None:
        super().__init__(file, index)
        self._categories = categories
        self.has_crowds: bool = index.facts["has_crowds"]
        self.are_boxes = bool((index.arrays["kinds"] == INSTANCE).any()) and not index.facts["has_masks"]

    def __getitem__(self, index: Any) -> Any:
        image = self.image_row(index)
        labels, kinds = self._column("labels", index), self._column("kinds", index)
        instances: list[JsonRow] = []
        crowds: list[JsonRow] = []
        for row, label, kind in zip(self.annotation_rows(index), labels, kinds, strict=True):
            region = {"id": row["id"], "label": label, "segmentation": row.get("segmentation"), "box": box_of(row)}
            if kind == INSTANCE:
                instances.append({**region, "keypoints": self._categories.points(row, label)})
            else:
                crowds.append({**region, "ignored": kind == IGNORED, "unmasked": kind == UNMASKED})
        return {
            **{key: image[key] for key in INSTANCES["images"]},
            "file_name": self.file_name(index),
            "annotations": instances,
            "crowds": crowds,
            **self.class_lists(image),
        }

    def class_lists(self, image: JsonRow) -> dict[str, list[int] | None]:
        """Return the classes that an image's entry lists as ``negative`` (None without) and ``not_exhaustive``."""
        negative, not_exhaustive = (self._categories.class_list(image, key) for key in CLASS_LISTS)
        return {"negative": negative, "not_exhaustive": not_exhaustive or []}

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Decode the entries of an image's annotations, in file order."""
        columns = zip(*(self._column(name, index) for name in ("starts", "lengths", "ids")), strict=True)
        return [self._file.row(start, start + length, int(row_id)) for start, length, row_id in columns]

    def labels(self, index: int, *, instances: bool) -> list[int]:
        """Return the classes of an image's annotations; with ``instances`` those of instances only."""
        labels, kinds = self._column("labels", index), self._column("kinds", index)
        return [label for label, kind in zip(labels, kinds, strict=True) if kind == INSTANCE or not instances]

    def ids(self, index: int, *, crowds: bool) -> list[int]:
        """Return the ids of an image's instances; with ``crowds`` those of its crowds and ignored regions instead."""
        ids, kinds = self._column("ids", index), self._column("kinds", index)
        return [int(row_id) for row_id, kind in zip(ids, kinds, strict=True) if (kind != INSTANCE) == crowds]

    def _column(self, name: str, index: int) -> list[Any]:
        firsts, place = self._columns["firsts"], self._place(index)
        found: list[Any] = self._columns[name][int(firsts[place]) : int(firsts[place + 1])].tolist()
        return found


def make_index(tables: AnnotationTables) -> Index:
    """Read all images and annotations.

    In an index, objects with neither mask nor box are instances with an empty mask, and objects with a box are
    instances in a file without any mask.

    Raises:
        DatasetError: an entry is broken, or refers to a missing image or class.
    """
    images = tables.images()
    rows = _read_annotations(tables)
    has_masks = bool((rows["kinds"] == INSTANCE).any())
    rows["kinds"][np.isin(rows["kinds"], (NEITHER,) if has_masks else (NEITHER, UNMASKED))] = INSTANCE
    photos = tables.place(rows["ids"], rows["image_ids"], images)
    order = np.argsort(photos, kind="stable")
    marks = tables.json.marks("annotations")
    arrays = {
        **image_columns(tables, images),
        "firsts": narrow(firsts_of(photos, len(images.ids))),
        "starts": narrow(marks[:-1][order] + 1),
        "lengths": narrow(np.diff(marks)[order] - 1),
        "ids": narrow(rows["ids"][order]),
        "labels": narrow(rows["labels"].astype(np.int64)[order]),
        "kinds": rows["kinds"][order],
    }
    return Index({"has_masks": has_masks, "has_crowds": bool(rows["kinds"].any())}, arrays)


def _read_annotations(tables: AnnotationTables) -> dict[str, Column]:
    """Return columns of the annotations in file order."""
    parts: dict[str, list[Column]] = {"ids": [], "image_ids": []}
    parts |= {"labels": [np.zeros(0, np.int32)], "kinds": [np.zeros(0, np.uint8)]}
    for block in tables.annotations():
        parts["ids"].append(block.ids)
        parts["image_ids"].append(block.image_ids)
        parts["labels"].append(np.array(block.labels, np.int32))
        parts["kinds"].append(np.array(block.kinds, np.uint8))
    return {name: join_columns(columns) for name, columns in parts.items()}
