"""Columns of an index for the ``images`` table of an annotation file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.large_json.columns import (
    Column,
    check_unique,
    id_column,
    join_columns,
    narrow,
    pack_texts,
    unpack_text,
)
from segpaste.datasets.formats.large_json.file import AnnotationFile
from segpaste.datasets.formats.large_json.store import Index
from segpaste.datasets.formats.large_json.tables import JsonTables
from segpaste.datasets.formats.records import TableColumns, no_size

_FARTHEST = 1 << 40  # pixels; above the sides of all images


def image_columns(
    tables: JsonTables, columns: TableColumns, file_name_of: Callable[[JsonRow], str]
) -> dict[str, Column]:
    """Read the ``images`` table into columns: ids, sizes (H, W), file names, and the positions of the rows.

    ``file_name_of`` returns the file name of a row, or raises `DatasetError`.

    Raises:
        DatasetError: a row is broken, an id repeats, or a size is not positive.
    """
    ids, sizes, names, ends, num_bytes = [], [], [], [], 0
    wrong: JsonRow | None = None
    for rows in tables.blocks("images", columns):
        ids.append(id_column(row["id"] for row in rows))
        found = [(row["height"], row["width"]) for row in rows]
        if wrong is None and any(height < 1 or width < 1 for height, width in found):
            wrong = next(row for row in rows if row["height"] < 1 or row["width"] < 1)
        sizes.append(np.array([[min(max(v, 0), _FARTHEST) for v in size] for size in found], np.int64))
        packed, own_ends = pack_texts(map(file_name_of, rows))
        names.append(packed)
        ends.append(own_ends + num_bytes)
        num_bytes += len(packed)
    all_ids = join_columns(ids)
    check_unique(tables.path, "images", all_ids)
    if wrong is not None:
        raise no_size(tables.path, wrong)
    return {
        "image_ids": narrow(all_ids),
        "image_sizes": narrow(np.concatenate(sizes) if sizes else np.zeros((0, 2), np.int64)),
        "image_marks": narrow(tables.marks("images")),
        "file_names": np.concatenate(names) if names else np.zeros(0, np.uint8),
        "file_name_ends": narrow(np.concatenate(ends) if ends else np.zeros(0, np.int64)),
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
