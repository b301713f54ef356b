"""Readers of COCO's annotation files through an index of byte positions: the base, and instances, LVIS, and boxes only.

The format is described at https://cocodataset.org/#format-data, "Object Detection". The index of a file has columns of
the images and of their annotations, with their positions in the file; the entries are decoded on demand. For panoptic
segments see `segpaste.datasets.formats.coco.segments`; captions are not read.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.datasets.entries import IGNORED, INSTANCE, NEITHER, UNMASKED, Categories, JsonRow, TableColumns, box_of
from segpaste.datasets.formats.image_annotations import ImageAnnotations, Transforms
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import (
    Column,
    Index,
    firsts_of,
    id_column,
    join_columns,
    narrow,
    positions_in,
    unpack_text,
)
from segpaste.datasets.large_json.recent import RecentRecords
from segpaste.datasets.repeated_ids import DROPPED, RENUMBERED, RepeatedIds
from segpaste.datasets.tables import CLASS_LISTS, INSTANCES, AnnotationTables, Images

_TABLES = {"images", "annotations", "categories"}
_FEW_ENTRIES = 1000
"""Annotations of an image above which its record is not kept."""


def image_columns(tables: AnnotationTables, images: Images) -> dict[str, Column]:
    """Return the columns of an index for the images of a file: ids, sizes (H, W), names, and positions of the rows."""
    return {
        "image_ids": narrow(images.ids),
        "image_sizes": narrow(images.sizes),
        "image_marks": narrow(tables.json.marks("images")),
        "file_names": images.names,
        "file_name_ends": narrow(images.name_ends),
    }


class IndexedRecords(Sequence[JsonRow]):
    """Images of an annotation file, decoded on demand; values in the columns are not decoded.

    Args:
        file: the annotation file.
        index: an index with the columns of `image_columns`.
    """

    def __init__(self, file: AnnotationFile, index: Index) -> None:
        self._file = file
        self._index = index
        self._columns = index.arrays

    def __len__(self) -> int:
        return len(self._columns["image_ids"])

    @abstractmethod
    def __getitem__(self, index: Any) -> Any:
        """Decode the record of a sample."""

    @abstractmethod
    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Decode the entries of an image's annotations."""

    @property
    def top_level_names(self) -> list[str]:
        """Top-level keys of the file, in file order."""
        return [name for name, *_ in self._index.facts["values"]]

    def top_level(self, name: str) -> Any:
        """Decode a top-level value; None if there is none."""
        return self._file.value(self._index, name)

    def image_id(self, index: int) -> int:
        """Return the id of an image."""
        return int(self._columns["image_ids"][self._place(index)])

    def file_name(self, index: int) -> str:
        """Return the file name of an image."""
        return unpack_text(self._columns["file_names"], self._columns["file_name_ends"], self._place(index))

    def size(self, index: int) -> tuple[int, int]:
        """Return the (H, W) of an image."""
        height, width = self._columns["image_sizes"][self._place(index)].tolist()
        return height, width

    def image_row(self, index: int) -> JsonRow:
        """Decode the entry of an image."""
        place, marks = self._place(index), self._columns["image_marks"]
        return self._file.row(int(marks[place]) + 1, int(marks[place + 1]), self.image_id(index))

    def _place(self, index: int) -> int:
        """Return the position of an image in the ``images`` table."""
        return range(len(self))[index]


class IndexedAnnotations(ImageAnnotations):
    """Annotations of images in one JSON file, which is read through an index.

    The first reader of a large file makes the index and stores it in the cache folder (``SEGPASTE_CACHE``, or
    ``~/.cache/segpaste``) under the digest of the file. Workers and later runs map it into memory. The entries of an
    image are decoded when it is read, so the file must not change meanwhile. A file that is renamed into its place is
    read only by datasets opened afterwards.

    Args:
        images_dir: the folder to which file names of images are relative.
        annotations_file: the JSON file.
        transforms: called with each `DenseSample`; its result replaces the sample.
    """

    def __init__(
        self,
        images_dir: str | PathLike[str],
        annotations_file: str | PathLike[str],
        *,
        transforms: Transforms | None = None,
    ) -> None:
        self.repeated_ids: RepeatedIds | None = None
        if isinstance(annotations_file, AnnotationFile):
            self._file, self.repeated_ids = annotations_file, annotations_file.repeated_ids
        super().__init__(images_dir, annotations_file, transforms=transforms)
        rule = self.repeated_ids
        self.digest = self._file.digest if rule is None else f"{self._file.digest} {rule}"

    @abstractmethod
    def _read_records(self) -> IndexedRecords:
        """Read the index, or make it."""

    def _index(
        self,
        kind: str,
        columns: Mapping[str, TableColumns],
        check: Callable[[Categories], object],
        make: Callable[[AnnotationTables], Index],
    ) -> tuple[Index, Categories]:
        """Return the index of a kind and the categories, which ``check`` checks; see `AnnotationFile.index`."""
        read: list[Categories] = []

        def made() -> Index:
            tables = AnnotationTables(self._file, columns)
            read.append(tables.categories)
            check(tables.categories)
            tables.json.check_others(columns)
            return make(tables)

        index = self._file.index(kind, made)
        if not read:
            read.append(Categories(self.annotations_file, self._file.value(index, "categories")))
        return index, read[0]

    @cached_property
    def _records(self) -> IndexedRecords:
        return self._read_records()

    @cached_property
    def _file(self) -> AnnotationFile:
        return AnnotationFile(self.annotations_file, self.repeated_ids)

    def __getstate__(self) -> JsonRow:
        return {name: value for name, value in super().__getstate__().items() if name != "_file"}

    def image_id(self, index: int) -> int:
        """Return the id of the image in the annotations."""
        return self._records.image_id(index)

    def file_name(self, index: int) -> str:
        """Return the image's file, relative to ``images_dir``."""
        return self._records.file_name(index)

    def image_size(self, index: int) -> tuple[int, int]:
        """Return the (H, W) of the image in the annotations."""
        return self._records.size(index)

    def photo_file(self, index: int) -> tuple[Path, tuple[int, int] | None]:
        """Return the path of an image, and its (H, W) in the annotations, from the index alone."""
        return self.images_dir / self.file_name(index), self.image_size(index)

    @property
    def categories(self) -> list[JsonRow]:
        """Entries of the classes as in the file, in file order; classes are numbered by ascending ``id``."""
        rows: list[JsonRow] = self._records.top_level("categories")
        return rows

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of an image as in the file, with all its keys."""
        return self._records.image_row(index)

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of an image's annotations as in the file, in file order, with all their keys."""
        return self._records.annotation_rows(index)

    def tables(self) -> JsonRow:
        """Return the other keys of the file, such as ``info`` and ``licenses``, as in the file and in file order."""
        names = [name for name in self._records.top_level_names if name not in _TABLES]
        return {name: self._records.top_level(name) for name in names}


class CocoAnnotations(IndexedAnnotations):
    """Annotations of a file of instances; `CocoDetectionV2` has the samples, too.

    Args:
        images_dir: the folder to which file names of images are relative.
        annotations_file: the JSON file.
        transforms: function that changes each sample.

    Attributes:
        category_ids: the id of each class in the file, ascending; these may have gaps, labels have none.
        has_crowds: True if the file has crowd or ignored regions.

    Raises:
        DatasetError: the folder is missing, or the file is missing, broken or incomplete.
    """

    category_ids: tuple[int, ...]
    has_crowds: bool

    @cached_property
    def _records(self) -> CocoRecords:
        return self._read_records()

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each annotation except crowds, from the file alone; no image or mask is read.

        Annotations with an empty mask are included, although they are not instances.
        """
        return tuple(self._records.labels(index, instances=True))

    def _read_records(self) -> CocoRecords:
        kind = "instances" if self.repeated_ids is None else f"instances-{self.repeated_ids}"
        index, categories = self._index(kind, INSTANCES, lambda found: found.schema, make_index)
        self.category_ids, self.class_names = categories.ids, categories.names
        self.keypoint_schema, self.has_crowds = categories.schema, index.facts["has_crowds"]
        return CocoRecords(self._file, index, categories)

    def __init__(
        self,
        images_dir: str | PathLike[str],
        annotations_file: str | PathLike[str],
        *,
        transforms: Transforms | None = None,
    ) -> None:
        super().__init__(images_dir, annotations_file, transforms=transforms)
        if num := self._records.num_without_id:
            what = "are left out" if self.repeated_ids == "drop" else "get new ones"
            warnings.warn(
                f"{self.annotations_file}: {num} annotations have no id, or that of another one, and {what}",
                stacklevel=2,
            )

    def unread(self, index: int) -> dict[str, int]:
        """Count also the annotations of an image that got new ids, or were left out for want of one."""
        num, what = self._records.num_repaired(index), DROPPED if self.repeated_ids == "drop" else RENUMBERED
        return {**super().unread(index), **({what: num} if num else {})}


class CocoRecords(IndexedRecords):
    """Images of a file of instances.

    A record has the keys of the ``images`` table, ``file_name``, and lists of ``annotations`` (``id``, ``label``,
    ``segmentation``, ``keypoints``, ``box``), of ``crowds`` (``ignored`` and ``unmasked`` instead of keypoints), and of
    the classes that the image names as ``negative`` and ``not_exhaustive``.
    """

    def __init__(self, file: AnnotationFile, index: Index, categories: Categories) -> None:
        super().__init__(file, index)
        self._categories = categories
        self._recent = RecentRecords()
        self.has_crowds: bool = index.facts["has_crowds"]
        self.are_boxes = bool((index.arrays["kinds"] == INSTANCE).any()) and not index.facts["has_masks"]

    def __getitem__(self, index: Any) -> Any:
        place, firsts = self._place(index), self._columns["firsts"]
        is_small = firsts[place + 1] - firsts[place] <= _FEW_ENTRIES
        return self._recent.get(place, self._record) if is_small else self._record(place)

    def _record(self, index: int) -> JsonRow:
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
        if self._file.repeated_ids is None:
            return [self._file.row(start, start + length, int(row_id)) for start, length, row_id in columns]
        image_id = self.image_id(index)
        found = (
            (self._file.row(start, start + length, image_id, "image_id"), row_id) for start, length, row_id in columns
        )
        return [{**row, "id": int(row_id)} for row, row_id in found]

    @property
    def num_without_id(self) -> int:
        """Number of annotations that had no id of their own."""
        return int(self._columns["num_repaired"].sum()) if "num_repaired" in self._columns else 0

    def num_repaired(self, index: int) -> int:
        """Return the number of annotations of an image that had no id of their own."""
        return int(self._columns["num_repaired"][self._place(index)]) if "num_repaired" in self._columns else 0

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
    positions = tables.place(rows["ids"], rows["image_ids"], images)
    order = np.argsort(positions, kind="stable")
    marks = tables.json.marks("annotations")
    places = rows["places"][order]
    arrays = {
        **image_columns(tables, images),
        "firsts": narrow(firsts_of(positions, len(images.ids))),
        "starts": narrow(marks[:-1][places] + 1),
        "lengths": narrow(np.diff(marks)[places] - 1),
        "ids": narrow(rows["ids"][order]),
        "labels": narrow(rows["labels"].astype(np.int64)[order]),
        "kinds": rows["kinds"][order],
    }
    if tables.repair is not None:
        own = positions_in(images.ids, id_column(tables.repair.image_ids.values()))
        arrays["num_repaired"] = narrow(np.bincount(own[own >= 0], minlength=len(images.ids)))
    return Index({"has_masks": has_masks, "has_crowds": bool(rows["kinds"].any())}, arrays)


def _read_annotations(tables: AnnotationTables) -> dict[str, Column]:
    """Return columns of the annotations in file order."""
    parts: dict[str, list[Column]] = {"ids": [], "image_ids": []}
    parts |= {"labels": [np.zeros(0, np.int32)], "kinds": [np.zeros(0, np.uint8)], "places": [np.zeros(0, np.int64)]}
    for block in tables.annotations():
        parts["ids"].append(block.ids)
        parts["places"].append(np.array(block.places, np.int64))
        parts["image_ids"].append(block.image_ids)
        parts["labels"].append(np.array(block.labels, np.int32))
        parts["kinds"].append(np.array(block.kinds, np.uint8))
    return {name: join_columns(columns) for name, columns in parts.items()}
