"""Reader of vectors from CSV and ``.npy`` files, with errors that name the line and the column.

A CSV has a column of names. The vectors are either in ``.npy`` files, listed in a column of paths relative to the
folder of the CSV, or in columns of numbers such as ``embedding_0``, ``embedding_1``. If there is a column of paths,
columns of numbers are ignored. A listed file has one vector, or a matrix, whose row is the number in a column ``row``.

The vectors can also be the rows of one matrix, ``x.npy``; the names are in ``x.csv``, a line for each row, in order.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste._utf8 import NotUtf8Error, decode_utf8

ROW = "row"
"""Column of the row, from 0, in a file with a matrix."""

MOST_OPEN = 64
"""Highest number of files that are mapped into memory at once; each takes a descriptor."""

_NUMBERS = "fiu"  # kinds of dtype


class VectorsError(ValueError):
    """Error raised for an invalid file of vectors; its message says where the error is and what to do."""


class CsvColumns(NamedTuple):
    """Names of the columns of a CSV.

    Attributes:
        name: column with the name of each vector, such as its label.
        path: column with the paths of ``.npy`` files.
        prefix: prefix of the columns of numbers.
        what: content of the column of names, in the plural, for messages.
        options: options with which the user sets other names, of the column of names and of the columns of vectors.
        extra: optional column that is read too.
    """

    name: str
    path: str
    prefix: str
    what: str = "labels"
    options: tuple[str, str] = ("data.label_column", "data.path_column or data.embedding_prefix")
    extra: str | None = None


class Table(NamedTuple):
    """Content of a CSV.

    Attributes:
        names: name in each line.
        vectors: float32 [N, D].
        columns: columns of numbers; empty if the vectors come from files.
        extra: text of the extra column in each line; None if there is no such column.
    """

    names: list[str]
    vectors: NDArray[np.float32]
    columns: tuple[str, ...]
    extra: list[str] | None


def read_csv(path: Path, columns: CsvColumns) -> Table:
    """Read a CSV of vectors.

    Raises:
        VectorsError: a column, a value or a file is invalid, or there are no vectors.
        OSError: the CSV cannot be read.
    """
    header, lines = _header_and_lines(path)
    name_idx, vector_idx = _find(path, header, columns)
    called = tuple(header[i] for i in vector_idx)
    has_paths = called == (columns.path,)
    row_idx = header.index(ROW) if ROW in header else None
    matrices: dict[Path, NDArray[Any]] = {}
    vectors: list[NDArray[np.float32]] = []

    def read_vector(where: str, row: list[str]) -> None:
        texts = [row[i] for i in vector_idx]
        if not has_paths:
            vectors.append(_parse(texts, called, where))
            return
        where, file = f"{where}, column {columns.path!r}", path.parent / texts[0]
        if row_idx is None:
            vector = _as_vector(_load(file, where), file, where)
        else:
            array = matrices[file] if file in matrices else _load(file, where, is_mapped=True)
            if array.ndim == 2:
                if len(matrices) >= MOST_OPEN:
                    matrices.clear()
                matrices[file] = array
                array = array[_row_number(row[row_idx], len(array), where)]
            vector = _as_vector(array, file, where)
        if vectors and len(vector) != len(vectors[0]):
            raise VectorsError(f"{where}: expected {len(vectors[0])} numbers as in the lines before, got {len(vector)}")
        vectors.append(vector)

    names, extra = _read_names(path, header, lines, (name_idx, columns), read_vector)
    return Table(names, np.stack(vectors), () if has_paths else called, extra)


def read_matrix(path: Path, columns: CsvColumns) -> Table:
    """Read the rows of a matrix [N, D] in a ``.npy`` file, and their names from the CSV of the same name.

    Raises:
        VectorsError: a file is missing or invalid, or the CSV has more or fewer lines than the matrix has rows.
        OSError: the CSV cannot be read.
    """
    matrix, beside = _load(path, str(path)), path.with_suffix(".csv")
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in _NUMBERS:
        raise VectorsError(f"{path}: expected numbers [N, D], got {matrix.dtype} {list(matrix.shape)}")
    if not beside.exists():
        raise VectorsError(
            f"{path}: expected a {beside.name} beside it with a line for each row and a column {columns.name!r} of "
            f"{columns.what}, found none"
        )
    header, lines = _header_and_lines(beside)
    name_idx = _find_name(beside, header, columns)
    names, extra = _read_names(beside, header, lines, (name_idx, columns), lambda where, row: None)
    if len(names) != len(matrix):
        raise VectorsError(
            f"{beside}: expected {len(matrix):,} lines, one for each row of {path.name}, got {len(names):,}"
        )
    with np.errstate(over="ignore"):
        vectors = np.asarray(matrix.astype(np.float32))
    broken = np.flatnonzero(~np.isfinite(vectors).all(1))
    if broken.size:
        raise VectorsError(f"{path}: row {broken[0]}: expected finite numbers, got NaN or an infinite value")
    return Table(names, vectors, (), extra)


def _header_and_lines(path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns of a CSV, and its other lines, of which there is one."""
    rows = csv_rows(path)
    _, header = next(rows, (0, []))
    first = next(rows, None)
    if first is None:
        raise VectorsError(f"{path}: expected a line with the names of the columns and one for each vector, got none")
    return header, chain([first], rows)


def _read_names(
    path: Path,
    header: list[str],
    lines: Iterator[tuple[int, list[str]]],
    named: tuple[int, CsvColumns],
    read_vector: Callable[[str, list[str]], None],
) -> tuple[list[str], list[str] | None]:
    """Return the name and the extra text of each line, and call a function with the place and the texts of each."""
    name_idx, columns = named
    extra_idx = header.index(columns.extra) if columns.extra in header else None
    names: list[str] = []
    extra: list[str] | None = None if extra_idx is None else []
    for line, row in lines:
        where = f"{path}: line {line}"
        if not row[name_idx]:
            raise VectorsError(f"{where}, column {columns.name!r}: expected a {columns.what[:-1]}, got none")
        read_vector(where, row)
        names.append(row[name_idx])
        if extra is not None and extra_idx is not None:
            if not row[extra_idx]:
                raise VectorsError(f"{where}, column {columns.extra!r}: expected a text, or no such column, got none")
            extra.append(row[extra_idx])
    return names, extra


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield each line, the names of the columns first, with its number; empty lines are skipped.

    Raises:
        VectorsError: the file is not a CSV in UTF-8, a column occurs twice, or a line has more or fewer columns.
        OSError: the file cannot be read.
    """
    header: list[str] = []
    with path.open("rb") as file:
        if b"\0" in file.read(1000):  # UTF-16 of Latin letters is valid UTF-8
            raise _other_encoding(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        try:
            for row in filter(None, reader):
                if not header and (twice := sorted({name for name in row if row.count(name) > 1})):
                    raise VectorsError(f"{path}: line 1: expected each column once, got {twice[0]!r} twice")
                header = header or row
                if len(row) != len(header):
                    raise VectorsError(
                        f"{path}: line {reader.line_num}: expected {len(header)} columns, got {len(row)}"
                    )
                yield reader.line_num, row
        except UnicodeDecodeError as error:
            raise _other_encoding(path) from error
        except csv.Error as error:
            raise VectorsError(
                f"{path}: line {reader.line_num + 1}: expected a CSV in UTF-8, got something else: {error}"
            ) from error


def _other_encoding(path: Path) -> VectorsError:
    """Return the error of a file that is not UTF-8."""
    try:
        decode_utf8(path.read_bytes())
    except NotUtf8Error as error:
        return VectorsError(f"{path}: {error}")
    raise AssertionError("expected a file that is not UTF-8")


def shown_columns(header: list[str]) -> str:
    """Return the names of the first columns, for a message."""
    shown = [name if name == name.strip() else repr(name) for name in header[:8]]
    return ", ".join(shown) + (f" and {len(header) - 8} more" if len(header) > 8 else "")


def _find(path: Path, header: list[str], columns: CsvColumns) -> tuple[int, list[int]]:
    """Return the index of the column of names, and those of the column of paths or the columns of numbers."""
    name_idx = _find_name(path, header, columns)
    if columns.path in header:
        return name_idx, [header.index(columns.path)]
    called = re.compile(re.escape(columns.prefix) + r"(\d+)", re.ASCII)
    matches = [called.fullmatch(name) for name in header]
    numbered = sorted((int(match[1]), i) for i, match in enumerate(matches) if match)
    if not {i for _, i in numbered} - {name_idx}:
        raise VectorsError(
            f"{path}: line 1: expected a column {columns.path!r} of .npy files, or columns {columns.prefix}0, "
            f"{columns.prefix}1 and so on, got the columns {shown_columns(header)}; set others with "
            f"{columns.options[1]}"
        )
    for (number, i), (following, j) in pairwise(numbered):
        if following != number + 1:
            expected = f"{columns.prefix}{number + 1} to follow {header[i]}"
            raise VectorsError(f"{path}: line 1: expected a column {expected}, got {header[j]}")
    return name_idx, [i for _, i in numbered if i != name_idx]


def _find_name(path: Path, header: list[str], columns: CsvColumns) -> int:
    """Return the index of the column of names."""
    if columns.name not in header:
        raise VectorsError(
            f"{path}: line 1: expected a column {columns.name!r} of {columns.what}, got the columns "
            f"{shown_columns(header)}; set another with {columns.options[0]}"
        )
    return header.index(columns.name)


def _parse(texts: list[str], called: Sequence[str], where: str) -> NDArray[np.float32]:
    """Return the numbers of one line, [D]; ``called`` names their columns in errors."""
    vector = _numbers(texts)
    if np.isfinite(vector).all():
        return vector
    pairs = zip(called, texts, strict=True)
    name, text = next((name, text) for name, text in pairs if not np.isfinite(_numbers([text])).all())
    raise VectorsError(f"{where}, column {name!r}: expected a finite number, got {text!r:.60}")


def _numbers(texts: list[str]) -> NDArray[np.float32]:
    """Convert texts to numbers, [D]; all are NaN if one of them is not a number."""
    try:
        with np.errstate(over="ignore"):
            return np.array(texts, np.float64).astype(np.float32)
    except ValueError:
        return np.full(len(texts), np.nan, np.float32)


def _row_number(text: str, num: int, where: str) -> int:
    """Return the number of a row of a matrix with ``num`` rows."""
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or int(text) >= num:
        raise VectorsError(
            f"{where}: expected a {ROW} from 0 to {num - 1}, the last one of the matrix, got {text!r:.60}"
        )
    return int(text)


def _load(path: Path, where: str, is_mapped: bool = False) -> NDArray[Any]:
    """Read the array of a file, or map it into memory."""
    try:
        array: Any = np.load(path, "r" if is_mapped else None, allow_pickle=False)
    except FileNotFoundError as error:
        raise VectorsError(f"{where}: expected a .npy file, found no {path}") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise VectorsError(f"{where}: expected a .npy file, got {path} that cannot be read: {error}") from error
    if not isinstance(array, np.ndarray):
        raise VectorsError(f"{where}: expected numbers in {path}, got an archive of arrays")
    return array


def _as_vector(array: NDArray[Any], path: Path, where: str) -> NDArray[np.float32]:
    """Return the array of a file as a vector, [D]."""
    if array.ndim != 1 or not array.size or array.dtype.kind not in _NUMBERS:
        hint = f"; a column {ROW!r} with numbers from 0 takes a row of a matrix" if array.ndim == 2 else ""
        raise VectorsError(f"{where}: expected numbers [D] in {path}, got {array.dtype} {list(array.shape)}{hint}")
    with np.errstate(over="ignore"):
        vector = np.array(array, np.float32)
    if not np.isfinite(vector).all():
        raise VectorsError(f"{where}: expected finite numbers in {path}, got NaN or an infinite value")
    return vector
