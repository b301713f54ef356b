"""Annotation file with its digest and its index, and its tables, decoded block by block.

Memory depends on the block and not on the file. `segpaste.datasets.tables` checks the rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pydantic_core

from segpaste._utf8 import explain, line_of
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.large_json.index import Index, load_index, note_digest, noted_digest, save_index
from segpaste.datasets.large_json.text import Positions, ScanError, Source, Value, scan
from segpaste.datasets.repeated_ids import RepeatedIds

_BLOCK_BYTES = 1 << 18
_PARSED_BYTES = 1 << 26  # larger files that are not objects are not parsed to find the reason


def open_source(path: Path) -> Source:
    """Open an annotation file.

    Raises:
        DatasetError: it is missing or cannot be read.
    """
    try:
        return Source(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an annotation file in JSON, found no such file; check the path") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a readable annotation file, got {error.strerror or error}") from error
    except ValueError as error:
        raise malformed(path, error) from error


class JsonTables:
    """JSON object of tables, which are lists of objects.

    Args:
        path: the file, for errors.
        source: its bytes.
        expected: names of the expected tables, for errors about another document.

    Attributes:
        values: the position of each top-level value, in file order.

    Raises:
        DatasetError: the file is not a JSON object.
    """

    def __init__(self, path: Path, source: Source, expected: tuple[str, ...]) -> None:
        self.path = path
        self._source = source
        try:
            self.values = scan(source)
        except ScanError as error:
            raise self._scan_error(error, expected) from error
        except OSError as error:
            raise DatasetError(f"{path}: expected a readable annotation file, got {error.strerror or error}") from error

    def value(self, name: str) -> Any:
        """Decode a top-level value.

        Raises:
            DatasetError: it is not JSON.
        """
        return read_value(self.path, self._source, self.values[name])

    def check_lists(self, *names: str) -> None:
        """Raise `DatasetError` if one of the tables is missing or not a list."""
        for name in names:
            found = self.values.get(name)
            if found is None or found.marks is None:
                rows = None if found is None else self.value(name)
                raise DatasetError(
                    f"{self.path}: expected a list under the key '{name}', got "
                    f"{'none' if rows is None else type(rows).__name__}; the file has the keys "
                    f"{', '.join(sorted(self.values))}"
                )

    def marks(self, name: str) -> Positions:
        """Return the positions of the rows of a table: row i from marks[i] + 1 up to marks[i + 1]; [rows + 1] int64."""
        marks = self.values[name].marks
        assert marks is not None, name
        is_empty = len(marks) == 2 and not self._source.read(int(marks[0]) + 1, int(marks[1])).strip(b" \t\r\n")
        return marks[:1] if is_empty else marks

    def blocks(self, name: str) -> Iterator[tuple[int, list[Any]]]:
        """Yield the rows of a table, unchecked, in lists of about 256 KiB of text, with the position of the first.

        Args:
            name: name of a table, see `check_lists`.

        Raises:
            DatasetError: a row is not JSON.
        """
        marks = self.marks(name)
        first = 0
        while first < len(marks) - 1:
            last = int(np.searchsorted(marks, marks[first] + _BLOCK_BYTES))
            last = min(max(last, first + 1), len(marks) - 1)
            yield first, self._decode(name, marks, first, last)
            first = last

    def check_others(self, names: Mapping[str, Any]) -> None:
        """Decode all values except those of ``names``, block by block; raise `DatasetError` if one is not JSON."""
        for name, value in self.values.items():
            if name in names:
                continue
            if value.marks is None:
                self.value(name)
                continue
            marks = self.marks(name)
            for first in range(0, len(marks) - 1, 1000):
                self._decode(name, marks, first, min(first + 1000, len(marks) - 1))

    def _decode(self, name: str, marks: Positions, first: int, last: int) -> list[Any]:
        """Decode elements of a list together, or one by one as `json` does if that fails."""
        start = int(marks[first]) + 1
        text = self._source.read(start, int(marks[last]))
        try:
            rows: list[Any] = pydantic_core.from_json(b"[" + text + b"]", cache_strings="keys")
        except ValueError:
            rows = []
            for i in range(first, last):
                row = text[int(marks[i]) + 1 - start : int(marks[i + 1]) - start]
                try:
                    rows.append(json.loads(row))
                except (ValueError, RecursionError) as error:
                    raise malformed(self.path, error, f"{name}[{i}], byte {int(marks[i]) + 1}: ") from error
        return rows

    def _scan_error(self, error: ScanError, expected: tuple[str, ...]) -> DatasetError:
        if self._source.size <= _PARSED_BYTES:
            try:
                return not_an_object(self.path, expected, json.loads(self._source.read(0, self._source.size)))
            except (ValueError, RecursionError) as parse_error:
                return malformed(self.path, parse_error)
        return malformed(self.path, error)


def read_value(path: Path, source: Source, place: Value) -> Any:
    """Decode the value at a position; raise `DatasetError` if it cannot be read or is not JSON."""
    try:
        return json.loads(source.read(place.start, place.stop))
    except OSError as error:
        raise DatasetError(f"{path}: expected a readable annotation file, got {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise malformed(path, error) from error


def malformed(path: Path, error: object, where: str = "") -> DatasetError:
    """Return the error of a file that is not JSON, at a place if it is known."""
    if isinstance(error, DatasetError):
        return error
    if isinstance(error, UnicodeDecodeError):
        place = f"at {where.rstrip(': ')}" if where else line_of(error.object, error.start)
        return DatasetError(f"{path}: {explain(error.object, place)}")
    return DatasetError(
        f"{path}: expected JSON, got truncated or malformed text ({where}{error}); download or write it again"
    )


def not_an_object(path: Path, tables: Iterable[str], document: object) -> DatasetError:
    """Return the error of a JSON file that is not an object of tables."""
    return DatasetError(
        f"{path}: expected a JSON object with the keys {', '.join(tables)}, got a {type(document).__name__}; "
        "is this the annotation file of a whole dataset?"
    )


_NOTED_BYTES = 256 << 20  # smaller files are hashed in 0.3 s
_SEGMENTS = b"segments_info"


class AnnotationFile(PathLike[str]):
    """JSON file of annotations that is read once for all uses, and only on demand.

    It is also the path of the file, so readers can use it in place of a path.

    Args:
        path: the file.
        repeated_ids: what becomes of annotations without an id of their own, see `segpaste.datasets.repeated_ids`; by
            default they are errors.
    """

    def __init__(self, path: str | PathLike[str], repeated_ids: RepeatedIds | None = None) -> None:
        self.path, self.repeated_ids = Path(path), repeated_ids

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
