"""Index of a file of COCO instances or LVIS: the annotations of each image, and their positions in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.coco_keypoints import CocoPoints, checked_points, read_schema
from segpaste.datasets.formats.large_json.columns import (
    Column,
    check_references,
    check_unique,
    firsts_of,
    id_column,
    join_columns,
    narrow,
    positions_in,
)
from segpaste.datasets.formats.large_json.file import AnnotationFile
from segpaste.datasets.formats.large_json.images import IndexedRecords, image_columns
from segpaste.datasets.formats.large_json.store import Index
from segpaste.datasets.formats.large_json.tables import JsonTables
from segpaste.datasets.formats.records import (
    IMAGE_COLUMNS,
    TableColumns,
    box_of,
    class_indices,
    class_list,
    file_name_of,
    flag_of,
)
from segpaste.types import KeypointSchema

TABLES: dict[str, TableColumns] = {
    "images": {key: kind for key, kind in IMAGE_COLUMNS.items() if key != "file_name"},
    "annotations": {"id": int, "image_id": int, "category_id": int},
    "categories": {"id": int, "name": str},
}

_INSTANCE, _CROWD, _IGNORED, _UNMASKED, _NEITHER = 0, 1, 2, 3, 4
"""Kinds of annotations: objects with a mask, regions, objects with a box only, and objects with neither.

An index has the first four. Objects with neither are instances with an empty mask, and objects with a box are instances
in a file without any mask.
"""
_FEW = (0, 2, 4)
"""Numbers of an entry that is no polygon of three points or more. Four numbers are a box."""


@dataclass(frozen=True, slots=True)
class CocoClasses:
    """Classes of a file, in ascending order of their ids.

    Attributes:
        ids: ids in the file.
        names: name of each class.
        has_keypoints: for each class, True if it names keypoints.
        schema: schema of the keypoints; None without keypoints.
        label_of: class of each id.
    """

    ids: tuple[int, ...]
    names: tuple[str, ...]
    has_keypoints: tuple[bool, ...]
    schema: KeypointSchema | None
    label_of: Mapping[int, int]

    @classmethod
    def read(cls, path: Path, rows: Iterable[JsonRow]) -> CocoClasses:
        """Read the ``categories`` table; raise `DatasetError` if ids repeat, or names of keypoints are invalid."""
        categories = class_indices(path, rows)
        found = categories.values()
        return cls(
            tuple(categories),
            tuple(row["name"] for row in found),
            tuple(bool(row.get("keypoints")) for row in found),
            read_schema(path, found),
            {category_id: label for label, category_id in enumerate(categories)},
        )


def make_index(tables: JsonTables, classes: CocoClasses) -> Index:
    """Read and check all images and annotations.

    Raises:
        DatasetError: the file is broken, or an annotation refers to a missing image or class.
    """
    path = tables.path

    def checked_name(row: JsonRow) -> str:
        for key in ("neg_category_ids", "not_exhaustive_category_ids"):
            class_list(path, row, key, classes.label_of)
        return file_name_of(path, row)

    images = image_columns(tables, TABLES["images"], checked_name)
    rows = _read_annotations(tables, classes)
    has_masks = bool((rows["kinds"] == _INSTANCE).any())
    are_instances = (_NEITHER,) if has_masks else (_NEITHER, _UNMASKED)
    rows["kinds"][np.isin(rows["kinds"], are_instances)] = _INSTANCE
    check_unique(path, "annotations", rows["ids"])
    photos = positions_in(images["image_ids"], rows["image_ids"])
    labels = rows["labels"].astype(np.int64)
    check_references(
        path, rows["ids"], {"images": (rows["image_ids"], photos), "categories": (rows["category_ids"], labels)}
    )
    order = np.argsort(photos, kind="stable")
    marks = tables.marks("annotations")
    arrays = {
        **images,
        "firsts": narrow(firsts_of(photos, len(images["image_ids"]))),
        "starts": narrow(marks[:-1][order] + 1),
        "lengths": narrow(np.diff(marks)[order] - 1),
        "ids": narrow(rows["ids"][order]),
        "labels": narrow(labels[order]),
        "kinds": rows["kinds"][order],
    }
    return Index({"has_masks": has_masks, "has_crowds": bool(rows["kinds"].any())}, arrays)


def _read_annotations(tables: JsonTables, classes: CocoClasses) -> dict[str, Column]:
    """Return columns of the annotations in file order."""
    parts: dict[str, list[Column]] = {name: [] for name in ("ids", "image_ids", "category_ids")}
    parts |= {"labels": [np.zeros(0, np.int32)], "kinds": [np.zeros(0, np.uint8)]}
    for rows in tables.blocks("annotations", TABLES["annotations"]):
        kinds = [_kind_of(tables.path, row) for row in rows]
        labels = [classes.label_of.get(row["category_id"], -1) for row in rows]
        parts["ids"].append(id_column(row["id"] for row in rows))
        parts["image_ids"].append(id_column(row["image_id"] for row in rows))
        parts["category_ids"].append(id_column(row["category_id"] for row in rows))
        parts["labels"].append(np.array(labels, np.int32))
        parts["kinds"].append(np.array(kinds, np.uint8))
        for row, kind, label in zip(rows, kinds, labels, strict=True):
            if kind not in (_CROWD, _IGNORED) and classes.schema is not None:
                _points_of(tables.path, row, label, classes)
    return {name: join_columns(columns) for name, columns in parts.items()}


def has_segmentation(row: JsonRow) -> bool:
    """Return whether an entry has run lengths, or a polygon of three points or more.

    Some tools write an empty list, or a list with the four numbers of the box. Neither is a mask. Anything else is
    checked when it is decoded.
    """
    value = row.get("segmentation")
    if not isinstance(value, list):
        return value is not None
    return not all(
        isinstance(polygon, list) and len(polygon) in _FEW and all(isinstance(n, int | float) for n in polygon)
        for polygon in value
    )


def _kind_of(path: Path, row: JsonRow) -> int:
    is_crowd, is_ignored = (flag_of(path, f"annotation {row['id']}", row, key) for key in ("iscrowd", "ignore"))
    if is_crowd or is_ignored:
        return _IGNORED if is_ignored else _CROWD
    if has_segmentation(row):
        return _INSTANCE
    return _NEITHER if box_of(row) is None else _UNMASKED


def _points_of(path: Path, row: JsonRow, label: int, classes: CocoClasses) -> CocoPoints | None:
    """Return the keypoints of an instance, None if its class has none; raise `DatasetError` if they are invalid."""
    return checked_points(path, row, classes.schema) if label >= 0 and classes.has_keypoints[label] else None


class CocoRecords(IndexedRecords):
    """Images of a file of instances.

    A record has the keys of the ``images`` table, ``file_name``, and lists of ``annotations`` (``id``, ``label``,
    ``segmentation``, ``keypoints``, ``box``), of ``crowds`` (``ignored`` and ``unmasked`` instead of keypoints), and of
    the classes that the image names as ``negative`` and ``not_exhaustive``.
    """

    def __init__(self, file: AnnotationFile, index: Index, classes: CocoClasses) -> None:
        super().__init__(file, index)
        self._classes = classes
        self.has_crowds: bool = index.facts["has_crowds"]
        self.are_boxes = bool((index.arrays["kinds"] == _INSTANCE).any()) and not index.facts["has_masks"]

    def __getitem__(self, index: Any) -> Any:
        path, image = self._file.path, self.image_row(index)
        labels, kinds = self._column("labels", index), self._column("kinds", index)
        instances: list[JsonRow] = []
        crowds: list[JsonRow] = []
        for row, label, kind in zip(self.annotation_rows(index), labels, kinds, strict=True):
            region = {"id": row["id"], "label": label, "segmentation": row.get("segmentation")}
            if kind == _INSTANCE:
                points = _points_of(path, row, label, self._classes)
                instances.append({**region, "keypoints": points, "box": box_of(row)})
            else:
                of_crowd = {"ignored": kind == _IGNORED, "unmasked": kind == _UNMASKED, "box": box_of(row)}
                crowds.append({**region, **of_crowd})
        return {
            **{key: image[key] for key in TABLES["images"]},
            "file_name": self.file_name(index),
            "annotations": instances,
            "crowds": crowds,
            **self.class_lists(image),
        }

    def class_lists(self, image: JsonRow) -> dict[str, list[int] | None]:
        """Return the classes that an image's entry lists as ``negative`` (None without) and ``not_exhaustive``."""
        negative, not_exhaustive = (
            class_list(self._file.path, image, key, self._classes.label_of)
            for key in ("neg_category_ids", "not_exhaustive_category_ids")
        )
        return {"negative": negative, "not_exhaustive": not_exhaustive or []}

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Decode the entries of an image's annotations, in file order."""
        columns = zip(*(self._column(name, index) for name in ("starts", "lengths", "ids")), strict=True)
        return [self._file.row(start, start + length, int(row_id)) for start, length, row_id in columns]

    def labels(self, index: int, *, instances: bool) -> list[int]:
        """Return the classes of an image's annotations; with ``instances`` those of instances only."""
        labels, kinds = self._column("labels", index), self._column("kinds", index)
        return [label for label, kind in zip(labels, kinds, strict=True) if kind == _INSTANCE or not instances]

    def ids(self, index: int, *, crowds: bool) -> list[int]:
        """Return the ids of an image's instances; with ``crowds`` those of its crowds and ignored regions instead."""
        ids, kinds = self._column("ids", index), self._column("kinds", index)
        return [int(row_id) for row_id, kind in zip(ids, kinds, strict=True) if (kind != _INSTANCE) == crowds]

    def _column(self, name: str, index: int) -> list[Any]:
        firsts, place = self._columns["firsts"], self._place(index)
        found: list[Any] = self._columns[name][int(firsts[place]) : int(firsts[place + 1])].tolist()
        return found
