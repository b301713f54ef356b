"""Annotation tables in COCO's form: the images, annotations and categories of a file, checked entry by entry.

All readers, checks and counts of such files read them here. The error of an entry goes to `refuse`, which raises it, or
inside `collected` collects it and leaves the entry out: readers stop at the first error, a check finds all. A file that
is not a JSON object of tables is an error in both cases. Entries are decoded block by block, so memory does not depend
on outlines. `segpaste.datasets.large_json` finds the entries in the bytes of the file.

This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.entries import (
    Categories,
    CocoPoints,
    JsonRow,
    Segment,
    TableColumns,
    check_row,
    file_name_of,
    missing,
    repeated,
)
from segpaste.datasets.errors import DatasetError, collected, each, refuse
from segpaste.datasets.large_json.file import AnnotationFile, JsonTables
from segpaste.datasets.large_json.index import (
    Column,
    id_column,
    join_columns,
    pack_texts,
    positions_in,
    repeats,
    unpack_text,
)
from segpaste.datasets.repeated_ids import IdRepair

IMAGE_COLUMNS: TableColumns = {"id": int, "file_name": str, "height": int, "width": int}
"""Keys of every entry of ``images``, with their types."""
INSTANCES: Mapping[str, TableColumns] = {
    "images": {key: kind for key, kind in IMAGE_COLUMNS.items() if key != "file_name"},
    "annotations": {"id": int, "image_id": int, "category_id": int},
    "categories": {"id": int, "name": str},
}
"""Tables of COCO instances and LVIS, and the keys of their entries; LVIS has ``coco_url`` instead of ``file_name``."""
SEGMENTS: Mapping[str, TableColumns] = {
    "images": IMAGE_COLUMNS,
    "annotations": {"image_id": int, "file_name": str, "segments_info": list},
    "categories": {"id": int, "name": str, "isthing": bool},
}
"""Tables of COCO panoptic segments: an annotation is a map of an image, and lists its segments."""
CLASS_LISTS = "neg_category_ids", "not_exhaustive_category_ids"
"""Keys of an image in LVIS that list classes."""
_REPAIRED = ", or have new ones written (repeated_ids='renumber'; segpaste convert --repeated-ids renumber)"
"""Advice on ids of annotations."""
_FARTHEST = 1 << 40  # pixels; above the sides of all images


class Images(NamedTuple):
    """Images of a file, in columns.

    Attributes:
        ids: ids in the file.
        sizes: (H, W) of each, [images, 2].
        names: file names, see `pack_texts`.
        name_ends: ends of the names.
    """

    ids: Column
    sizes: Column
    names: Column
    name_ends: Column

    def name(self, position: int) -> str:
        """Return the file name of an image."""
        return unpack_text(self.names, self.name_ends, position)


class Block(NamedTuple):
    """Consecutive annotations of a file.

    Attributes:
        places: their positions in the table.
        rows: their entries.
        ids: their ids.
        image_ids: ids of their images.
        labels: their classes; -1 if a refused category is unknown.
        kinds: `INSTANCE`, `CROWD`, `IGNORED`, `UNMASKED` or `NEITHER`.
        points: their keypoints; None without some.
    """

    places: Sequence[int]
    rows: list[JsonRow]
    ids: Column
    image_ids: Column
    labels: list[int]
    kinds: list[int]
    points: list[CocoPoints | None]


class Map(NamedTuple):
    """Panoptic map of an image: the id of the image, the name of its PNG, and its segments, checked when iterated."""

    image_id: int
    file_name: str
    segments: Iterator[Segment]


class AnnotationTables:
    """Tables of a file.

    Args:
        file: the file.
        columns: for each table the keys that its entries must have, and their types, such as `INSTANCES`.

    Attributes:
        path: the file.
        json: positions of the entries.

    Raises:
        DatasetError: the file cannot be read, is not JSON, or has no such tables.
    """

    def __init__(self, file: AnnotationFile, columns: Mapping[str, TableColumns]) -> None:
        self.path, self._columns, self._rule = file.path, dict(columns), file.repeated_ids
        if self._rule is not None:  # ids of annotations are given anew
            self._columns["annotations"] = {key: kind for key, kind in columns["annotations"].items() if key != "id"}
        self.json: JsonTables = file.tables(*columns)
        self.json.check_lists(*columns)

    @cached_property
    def repair(self) -> IdRepair | None:
        """New ids of annotations without an id of their own; None if these are errors."""
        if self._rule is None:
            return None
        with collected():  # broken entries are refused when they are read
            return IdRepair(self.blocks("annotations"), self._rule)

    @cached_property
    def categories(self) -> Categories:
        """Entries of the classes, and checks of the entries that refer to them."""
        return Categories(self.path, self.rows("categories"))

    def rows(self, name: str) -> Iterator[JsonRow]:
        """Yield the entries of a table, see `blocks`."""
        for _, rows in self.blocks(name):
            yield from rows

    def blocks(self, name: str) -> Iterator[tuple[Sequence[int], list[JsonRow]]]:
        """Yield the entries of a table that have the expected keys, and their positions, in file order."""
        columns = self._columns[name]

        def whole(entry: tuple[int, JsonRow]) -> tuple[int, JsonRow]:
            advice = _REPAIRED if name == "annotations" and "id" in columns else ""
            check_row(f"{self.path}: {name}[{entry[0]}]", entry[1], columns, {"id": advice})
            return entry

        for first, rows in self.json.blocks(name):
            places: Sequence[int] = range(first, first + len(rows))
            if not _are_whole(rows, columns):
                kept = [*each(zip(places, rows, strict=True), whole)]
                places, rows = [place for place, _ in kept], [row for _, row in kept]
            yield places, rows

    def images(self, *, named: bool = True) -> Images:
        """Read the images, and check their sizes; with ``named``, also their file names and lists of classes."""
        ids, names = list[Column](), list[Column]()
        sizes, ends, num_bytes = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)], 0
        for _, rows in self.blocks("images"):
            found = [*each(rows, self._named if named else self._sized)]
            ids.append(id_column(row["id"] for row, _ in found))
            block = [[min(max(row[key], 0), _FARTHEST) for key in ("height", "width")] for row, _ in found]
            sizes.append(np.array(block, np.int64).reshape(-1, 2))
            packed, own_ends = pack_texts(name for _, name in found)
            names.append(packed)
            ends.append(own_ends + num_bytes)
            num_bytes += len(packed)
        texts = np.concatenate([np.zeros(0, np.uint8), *names])
        images = Images(join_columns(ids), np.concatenate(sizes), texts, np.concatenate(ends))
        is_first = self._are_first(images.ids, "images")
        if is_first.all():
            return images
        packed, name_ends = pack_texts(images.name(i) for i in np.flatnonzero(is_first).tolist())
        return Images(images.ids[is_first], images.sizes[is_first], packed, name_ends)

    def annotations(self) -> Iterator[Block]:
        """Yield the annotations; `place` finds their images."""
        categories = self.categories
        for places, rows in self.blocks("annotations"):
            if self.repair is not None:
                places, rows = self.repair.applied(places, rows)
            labels = [categories.label(row) for row in rows]
            kinds = [categories.kind(row) for row in rows]
            points: list[CocoPoints | None] = [None] * len(rows)
            if categories.schema is not None:
                points = [categories.points(*of) for of in zip(rows, labels, kinds, strict=True)]
            ids, image_ids = (id_column(row[key] for row in rows) for key in ("id", "image_id"))
            yield Block(places, rows, ids, image_ids, labels, kinds, points)

    def maps(self) -> Iterator[Map]:
        """Yield the panoptic maps; `place_maps` finds their images."""
        for row in self.rows("annotations"):
            yield Map(row["image_id"], row["file_name"], self.categories.segments(row))

    def place(self, ids: Column, image_ids: Column, images: Images) -> NDArray[np.int64]:
        """Return the position of each annotation's image; -1 if there is none, or if the annotation repeats an id."""
        is_first = self._are_first(ids, "annotations")
        positions = positions_in(images.ids, image_ids)
        for row in np.flatnonzero(is_first & (positions < 0)).tolist():
            what = f"annotation {int(ids[row])}"
            refuse(missing(self.path, what, int(image_ids[row]), "images"), annotation=int(ids[row]))
        return np.where(is_first, positions, -1)

    def place_maps(self, image_ids: Column, images: Images) -> NDArray[np.int64]:
        """Return the position of each panoptic map's image; -1 if there is none, or if the image has a map already."""
        positions, is_again = positions_in(images.ids, image_ids), repeats(image_ids)
        for row in np.flatnonzero(is_again | (positions < 0)).tolist():
            image_id = int(image_ids[row])
            if positions[row] < 0:
                refuse(missing(self.path, f"the annotation of image {image_id}", image_id, "images"))
                continue
            text = f"{self.path}: expected one annotation of image {image_id}, got two; remove one"
            refuse(DatasetError(text, kind="duplicate_id"), image=images.name(int(positions[row])))
        return np.where(is_again, -1, positions)

    def objects(self) -> Iterator[tuple[JsonRow, int, int]]:
        """Yield entry, class and image id of each object, also of segments; crowds and ignored regions are left out."""
        for annotation in self.rows("annotations"):
            for row in self._parts(annotation):
                label = self.categories.label(row)
                if not row.get("iscrowd") and not row.get("ignore"):
                    yield row, label, annotation["image_id"]

    def _parts(self, annotation: JsonRow) -> list[JsonRow]:
        """Return the segments of a panoptic annotation; another annotation is its own only one."""
        rows = annotation.get("segments_info", [annotation])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            text = f"expected a list of segments of image {annotation['image_id']}, got {rows!r:.60}; correct it"
            refuse(DatasetError(f"{self.path}: {text}", kind="broken_entry"))
            return []
        return rows

    def _named(self, row: JsonRow) -> tuple[JsonRow, str]:
        """Return the entry of an image and its file name; check its size, and its lists of classes."""
        name = file_name_of(self.path, row)
        if "category_id" in self._columns["annotations"]:
            for key in CLASS_LISTS:
                self.categories.class_list(row, key, name)
        return self._sized(row, name)

    def _sized(self, row: JsonRow, name: str = "") -> tuple[JsonRow, str]:
        if row["height"] < 1 or row["width"] < 1:
            size = f"{row['width']} x {row['height']}"
            text = f"{self.path}: expected a size of image {row['id']} > 0, got {size}; correct it"
            refuse(DatasetError(text, kind="broken_entry"), image=name)
        return row, name

    def _are_first(self, ids: Column, name: str) -> NDArray[np.bool_]:
        is_again = repeats(ids)
        for row in np.flatnonzero(is_again).tolist():
            refuse(repeated(self.path, name, int(ids[row]), _REPAIRED if name == "annotations" else ""))
        return ~is_again


def read_tables(path: Path, columns: Mapping[str, TableColumns]) -> dict[str, list[JsonRow]]:
    """Read all entries of some tables of a file, see `AnnotationTables`."""
    tables = AnnotationTables(AnnotationFile(path), columns)
    return {name: [*tables.rows(name)] for name in columns}


def _are_whole(rows: list[Any], columns: TableColumns) -> bool:
    """Return whether all rows certainly have the columns, checked column by column."""
    try:
        return all(type(row) is dict for row in rows) and all(
            {type(row[key]) for row in rows} == {wanted} for key, wanted in columns.items()
        )
    except KeyError:
        return False
