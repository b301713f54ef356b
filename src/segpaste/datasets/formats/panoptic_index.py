"""Index of a file of COCO panoptic segments: the images with segments, and their positions in the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.large_json.columns import (
    Column,
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
from segpaste.datasets.formats.records import IMAGE_COLUMNS, TableColumns, class_indices, flag_of, index_by_id, lookup
from segpaste.types import IGNORE_INDEX

TABLES: dict[str, TableColumns] = {
    "images": IMAGE_COLUMNS,
    "annotations": {"image_id": int, "file_name": str, "segments_info": list},
    "categories": {"id": int, "name": str, "isthing": int},
}


@dataclass(frozen=True, slots=True)
class PanopticClasses:
    """Classes of a file, in ascending order of their ids.

    Attributes:
        ids: ids in the file.
        names: name of each class.
        are_things: for each class, True if it has instances.
    """

    ids: tuple[int, ...]
    names: tuple[str, ...]
    are_things: tuple[bool, ...]

    @classmethod
    def read(cls, path: Path, rows: Iterable[JsonRow]) -> PanopticClasses:
        """Read the ``categories`` table; raise `DatasetError` if ids repeat or there are too many classes."""
        categories = class_indices(path, rows)
        if len(categories) > IGNORE_INDEX:
            raise DatasetError(
                f"{path}: expected at most {IGNORE_INDEX} categories, because {IGNORE_INDEX} means ignore, got "
                f"{len(categories)}; merge or remove some"
            )
        found = categories.values()
        names, are_things = (row["name"] for row in found), (bool(row["isthing"]) for row in found)
        return cls(tuple(categories), tuple(names), tuple(are_things))

    def segments(self, path: Path, annotation: JsonRow) -> list[JsonRow]:
        """Return the checked segments of an image: ``id``, ``class``, ``crowd``, ``ignored``, ``instance_id``.

        ``instance_id`` is 0 for segments that are no instance. Of crowds, this package writes ignored regions with the
        key ``ignore``.

        Raises:
            DatasetError: a segment is broken, an id repeats, or a class is unknown.
        """
        what, rows = f"the annotation of image {annotation['image_id']}", annotation["segments_info"]
        for row in rows:
            if not isinstance(row, dict) or not {"id", "category_id"} <= set(row):
                raise DatasetError(f"{path}: expected segments with 'id' and 'category_id' in {what}, got {row!r:.60}")
            if type(row["id"]) is not int or not 0 < row["id"] < 256**3:
                raise DatasetError(f"{path}: expected segment ids in 1..{256**3 - 1} in {what}, got {row['id']!r:.40}")
        label_of = {category_id: label for label, category_id in enumerate(self.ids)}
        num_things, segments = 0, []
        for row in index_by_id(path, f"segments_info of {what}", rows).values():
            label = lookup(path, f"segment {row['id']}", row["category_id"], label_of, "categories")
            is_crowd = flag_of(path, f"segment {row['id']}", row, "iscrowd")
            is_instance = self.are_things[label] and not is_crowd
            num_things += is_instance
            facts = {
                "id": row["id"],
                "class": label,
                "crowd": is_crowd,
                "ignored": is_crowd and bool(row.get("ignore")),
            }
            segments.append({**facts, "instance_id": num_things if is_instance else 0})
        return segments


def make_index(tables: JsonTables, classes: PanopticClasses) -> Index:
    """Read and check all images and segments.

    Raises:
        DatasetError: the file is broken, an image has two annotations, or no image has an annotation.
    """
    path = tables.path
    images = image_columns(tables, TABLES["images"], lambda row: str(row["file_name"]))
    image_ids, things, num_things = [], [], []
    has_crowds = False
    for rows in tables.blocks("annotations", TABLES["annotations"]):
        image_ids.append(id_column(row["image_id"] for row in rows))
        for row in rows:
            segments = classes.segments(path, row)
            has_crowds = has_crowds or any(segment["crowd"] for segment in segments)
            labels = [segment["class"] for segment in segments if segment["instance_id"]]
            things.append(np.array(labels, np.uint8))
            num_things.append(len(labels))
    photos = _photos_of(path, images["image_ids"], join_columns(image_ids))
    num_images, order = len(images["image_ids"]), np.argsort(photos, kind="stable")
    if num_images and not len(photos):
        raise DatasetError(
            f"{path}: expected an annotation of at least one image, none of {num_images} has one; are the "
            "annotations those of another file?"
        )
    marks = tables.marks("annotations")
    is_annotated = np.zeros(num_images, bool)
    is_annotated[photos] = True
    missing = np.flatnonzero(~is_annotated)
    facts = {
        "has_crowds": has_crowds,
        "num_unannotated": len(missing),
        "first_unannotated": int(images["image_ids"][missing[0]]) if len(missing) else 0,
    }
    arrays = {
        **images,
        "places": narrow(photos[order]),
        "starts": narrow(marks[:-1][order] + 1),
        "stops": narrow(marks[1:][order]),
        "firsts": narrow(firsts_of(np.repeat(photos, num_things), num_images)),
        "things": np.concatenate([things[i] for i in order.tolist()]) if things else np.zeros(0, np.uint8),
    }
    return Index(facts, arrays)


def _photos_of(path: Path, images: Column, wanted: Column) -> Column:
    """Return the image of each annotation; raise `DatasetError` if it is missing, or has two annotations."""
    photos = positions_in(images, wanted)
    seen = np.zeros(len(images), bool)
    seen[photos[photos >= 0]] = True
    if (photos < 0).any() or seen.sum() != len(photos):
        known: set[int] = set()
        for photo, image_id in zip(photos.tolist(), wanted.tolist(), strict=True):
            if photo < 0:
                lookup(path, f"the annotation of image {int(image_id)}", int(image_id), {}, "images")
            if photo in known:
                raise DatasetError(f"{path}: expected one annotation of image {int(image_id)}, got two; remove one")
            known.add(photo)
    return photos


class PanopticRecords(IndexedRecords):
    """Annotated images of a file of panoptic segments.

    A record has the keys of the ``images`` table, ``map``, the file name of its PNG, and ``segments``, see
    `PanopticClasses.segments`.
    """

    def __init__(self, file: AnnotationFile, index: Index, classes: PanopticClasses) -> None:
        super().__init__(file, index)
        self._classes = classes
        self.num_unannotated: int = index.facts["num_unannotated"]
        self.first_unannotated: int = index.facts["first_unannotated"]

    def __len__(self) -> int:
        return len(self._columns["places"])

    def __getitem__(self, index: Any) -> Any:
        annotation, image = self.map_row(index), self.image_row(index)
        return {
            **{key: image[key] for key in IMAGE_COLUMNS},
            "map": annotation["file_name"],
            "segments": self._classes.segments(self._file.path, annotation),
        }

    def map_row(self, index: int) -> JsonRow:
        """Decode the entry of an image's segment map."""
        position = range(len(self))[index]
        start, stop = int(self._columns["starts"][position]), int(self._columns["stops"][position])
        return self._file.row(start, stop, self.image_id(index), "image_id")

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Decode the entries of an image's segments."""
        rows: list[JsonRow] = self.map_row(index)["segments_info"]
        return rows

    def labels(self, index: int) -> list[int]:
        """Return the classes of an image's things."""
        firsts, place = self._columns["firsts"], self._place(index)
        found: list[int] = self._columns["things"][int(firsts[place]) : int(firsts[place + 1])].tolist()
        return found

    def check_num_things(self, most: int) -> None:
        """Raise `DatasetError` if an image has more things than this."""
        counts = np.diff(self._columns["firsts"].astype(np.int64))
        if (too_many := np.flatnonzero(counts > most)).size:
            place = int(too_many[0])
            raise DatasetError(
                f"{self._file.path}: expected at most {most} things in the annotation of image "
                f"{int(self._columns['image_ids'][place])}, got {counts[place]}; raise max_instances_per_image"
            )

    def _place(self, index: int) -> int:
        return int(self._columns["places"][range(len(self))[index]])
