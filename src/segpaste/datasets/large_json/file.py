"""Annotation file with its digest and its index."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.large_json.scan import Value
from segpaste.datasets.large_json.source import Source
from segpaste.datasets.large_json.store import Index, load_index, note_digest, noted_digest, save_index
from segpaste.datasets.large_json.tables import JsonTables, open_source, read_value

_NOTED_BYTES = 256 << 20  # smaller files are hashed in 0.3 s
_SEGMENTS = b"segments_info"


class AnnotationFile(PathLike[str]):
    """JSON file of annotations that is read once for all uses, and only on demand.

    It is also the path of the file, so readers can use it in place of a path.

    Args:
        path: the file.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    @cached_property
    def source(self) -> Source:
        """Bytes of the file; `DatasetError` if it cannot be read."""
        return open_source(self.path)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file, in hex."""
        stamp = self.source.stamp
        is_noted = stamp is not None and stamp.size >= _NOTED_BYTES
        if is_noted and stamp is not None and (noted := noted_digest(stamp)) is not None:
            return noted
        try:
            digest = self.source.compute_digest()
        except OSError as error:
            raise DatasetError(
                f"{self.path}: expected a readable annotation file, got {error.strerror or error}"
            ) from error
        if is_noted and stamp is not None:
            note_digest(stamp, digest)
        return digest

    @cached_property
    def is_panoptic(self) -> bool:
        """True if an entry of ``annotations`` has segments."""
        if not self.source.is_mentioned(_SEGMENTS):
            return False
        tables = self.tables("annotations")
        tables.check_lists("annotations")
        rows = (row for _, rows in tables.blocks("annotations") for row in rows)
        return any(isinstance(row, dict) and "segments_info" in row for row in rows)

    def tables(self, *expected: str) -> JsonTables:
        """Find the tables of the file; an error about another document lists the names that were expected."""
        if self._tables is None:
            self._tables = JsonTables(self.path, self.source, expected)
        return self._tables

    _tables: JsonTables | None = None

    def index(self, kind: str, make: Callable[[], Index]) -> Index:
        """Return the index of a kind from the cache folder, or make it, and store it there if the file is large.

        Args:
            kind: the kind of index; with the digest it is the key in the cache.
            make: function that makes the index from `tables`; it raises `DatasetError` if the file is broken.
        """
        is_kept = not self.source.is_held
        key = f"{self.digest}-{kind}" if is_kept else ""
        found = load_index(key) if is_kept else None
        if found is None:
            found = make()
            found.facts["values"] = [[name, value.start, value.stop] for name, value in self.tables().values.items()]
            self._tables = None
            if is_kept:
                save_index(key, found)
                found = load_index(key) or found
        return found

    def value(self, index: Index, name: str) -> Any:
        """Decode a top-level value; None if there is none."""
        for key, start, stop in index.facts["values"]:
            if key == name:
                return read_value(self.path, self.source, Value(start, stop, None))
        return None

    def row(self, start: int, stop: int, row_id: int, key: str = "id") -> JsonRow:
        """Decode one entry of a table.

        Raises:
            DatasetError: another entry is at this position, because the file was changed after it was opened.
        """
        try:
            row: JsonRow = read_value(self.path, self.source, Value(start, stop, None))
        except DatasetError as error:
            raise self._changed() from error
        if not isinstance(row, dict) or row.get(key) != row_id:
            raise self._changed()
        return row

    def _changed(self) -> DatasetError:
        return DatasetError(
            f"{self.path}: expected the annotations that were there when it was opened, got others; open it again"
        )
