"""Base of the readers of possibly large annotation files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.large_json.file import AnnotationFile
from segpaste.datasets.formats.large_json.images import IndexedRecords
from segpaste.datasets.formats.records import AnnotatedPhotos
from segpaste.types import DenseSample

_TABLES = {"images", "annotations", "categories"}


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
