"""Base of the readers of annotation files that are read through an index of byte positions.

An index has columns of the images and of their annotations, and the entries are decoded on demand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.entries import Categories, TableColumns
from segpaste.datasets.formats.format import AnnotatedPhotos
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import Column, Index, narrow, unpack_text
from segpaste.datasets.tables import AnnotationTables, Images
from segpaste.types import DenseSample

_TABLES = {"images", "annotations", "categories"}


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


class IndexedPhotos(AnnotatedPhotos):
    """Images with annotations in one JSON file, which is read through an index.

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
        transforms: Callable[[DenseSample], DenseSample] | None = None,
    ) -> None:
        if isinstance(annotations_file, AnnotationFile):
            self._file = annotations_file
        super().__init__(images_dir, annotations_file, transforms=transforms)
        self.digest = self._file.digest

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
        return AnnotationFile(self.annotations_file)

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
