"""Vectors with a label each, from a CSV or a bank.

A CSV has a column of labels, and the vectors either as files, in a column of paths to ``.npy`` files relative to the
CSV's folder, or as numbers, in columns such as ``embedding_0``, ``embedding_1``. With a column of paths the columns of
numbers are not looked at. All of it is read into memory, 4 bytes a number.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste.bank import open_bank
from segpaste.bank.remote import is_url, local_path
from segpaste.encoder.codes import are_signs

_BLOCK = 4096


class VectorsError(ValueError):
    """A file of vectors is not what it must be; one line says where and what to do."""


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Vectors and what they show; make it with `of`, or with `read_vectors`.

    Attributes:
        vectors: float32 [N, D], finite.
        labels: int64 [N], from 0.
        label_names: of each label; some may have no vector.
        columns: of a CSV that the numbers stood in; none if they did not.
        embedder: what made the embeddings of a bank, if it says so.

    Raises:
        VectorsError: the arrays are not so.
    """

    vectors: NDArray[np.float32]
    labels: NDArray[np.int64]
    label_names: tuple[str, ...]
    columns: tuple[str, ...] = ()
    embedder: str | None = None

    def __post_init__(self) -> None:
        vectors, labels = self.vectors, self.labels
        if vectors.ndim != 2 or not vectors.size or vectors.dtype != np.float32 or not np.isfinite(vectors).all():
            raise VectorsError(
                f"vectors: expected finite float32 [N, D], neither 0, got {vectors.dtype} {list(vectors.shape)}"
                + (" with NaN or infinite values" if vectors.dtype == np.float32 and vectors.size else "")
            )
        if labels.shape != vectors.shape[:1] or labels.dtype != np.int64:
            raise VectorsError(
                f"labels: expected int64 [{len(vectors)}], one for each vector, got {labels.dtype} {list(labels.shape)}"
            )
        if labels.min() < 0 or labels.max() >= len(self.label_names):
            raise VectorsError(
                f"labels: expected numbers from 0 to {len(self.label_names) - 1}, for {len(self.label_names)} names, "
                f"got {labels.min()} to {labels.max()}"
            )

    @classmethod
    def of(cls, vectors: ArrayLike, labels: ArrayLike, label_names: Sequence[str] = ()) -> LabelledVectors:
        """Make it of arrays.

        Args:
            vectors: numbers [N, D].
            labels: of each, [N], integers or strings; their names are what they are as text.
            label_names: those that have a number already, such as those of the training set; others come after them.

        Raises:
            VectorsError: the lengths differ, there are none, or a number is not finite.
        """
        names = [str(label) for label in np.asarray(labels).ravel().tolist()]
        with np.errstate(over="ignore"):
            return cls(np.asarray(vectors).astype(np.float32), *_numbered(names, label_names))

    def __len__(self) -> int:
        return len(self.vectors)

    def digest(self) -> str:
        """Another one for other content: SHA-256, hexadecimal."""
        found = hashlib.sha256(repr((self.vectors.shape, self.label_names)).encode())
        found.update(np.ascontiguousarray(self.vectors, "<f4").data)
        found.update(np.ascontiguousarray(self.labels, "<i8").data)
        return found.hexdigest()


def read_vectors(
    path: str | os.PathLike[str],
    *,
    label_column: str = "label",
    path_column: str = "path",
    embedding_prefix: str = "embedding_",
    label_names: Sequence[str] = (),
) -> LabelledVectors:
    """Read a CSV, or the embeddings and classes of a bank.

    Args:
        path: a CSV in UTF-8, or a bank's folder or URL.
        label_column: the CSV's column of labels, any text.
        path_column: its column of ``.npy`` files, each with a vector [D].
        embedding_prefix: what its columns of numbers begin with; they are taken in the order of the number that
            follows.
        label_names: those that have a number already, such as those of the training set; others come after them.

    Raises:
        VectorsError: a column, a value or a file is not what it must be, named; or there are no vectors.
        BankError: there is no bank, or it is broken.
        OSError: the CSV cannot be read.
    """
    columns: tuple[str, ...] = ()
    embedder: str | None = None
    if is_url(path) or Path(local_path(path)).is_dir():
        names, vectors, embedder = _read_bank(path)
    else:
        called = _Columns(label_column, path_column, embedding_prefix)
        names, vectors, columns = _read_csv(Path(local_path(path)), called)
    return LabelledVectors(vectors, *_numbered(names, label_names), columns, embedder)


def _numbered(names: Sequence[str], known: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of each name, those that are known first, and the names by their numbers."""
    number_of = {name: number for number, name in enumerate(dict.fromkeys([*known, *names]))}
    return np.array([number_of[name] for name in names], np.int64), tuple(number_of)


def _read_bank(path: str | os.PathLike[str]) -> tuple[list[str], NDArray[np.float32], str | None]:
    """The class name of every crop, the embeddings, [N, 256], and what made them."""
    with open_bank(path) as bank:
        if "embedding" not in bank.layout.groups:
            raise VectorsError(
                f"{os.fspath(path)}: expected a bank with embeddings, got one without; make one with segpaste bank "
                f"embed"
            )
        if not len(bank):
            raise VectorsError(f"{os.fspath(path)}: expected a bank with crops, got an empty one")
        blocks = [np.arange(first, min(first + _BLOCK, len(bank))) for first in range(0, len(bank), _BLOCK)]
        read = [bank.read(block, ("embedding",))["embedding"].astype(np.float32) for block in blocks]
        names = [bank.class_names[c] for c in bank.crop_class_ids().tolist()]
        embedder = bank.meta.built_from.get("embedder")
    vectors = np.concatenate(read)
    if (broken := ~np.isfinite(vectors).all(axis=1)).any():
        crop = int(np.flatnonzero(broken)[0])
        raise VectorsError(f"{os.fspath(path)}: crop {crop}: expected a finite embedding, got NaN or an infinite value")
    if are_signs(vectors):
        raise VectorsError(f"{os.fspath(path)}: expected embeddings, got codes; take the bank that they were made of")
    return names, vectors, embedder


class _Columns(NamedTuple):
    """What the columns of a CSV are called."""

    label: str
    path: str
    prefix: str


def _read_csv(path: Path, columns: _Columns) -> tuple[list[str], NDArray[np.float32], tuple[str, ...]]:
    """The label of every line, the vectors, [N, D], and which columns they stood in."""
    rows = _rows(path)
    _, header = next(rows, (0, []))
    first = next(rows, None)
    if first is None:
        raise VectorsError(f"{path}: expected a line with the names of the columns and one for each vector, got none")
    label_idx, vector_idx = _find(path, header, columns)
    called = tuple(header[i] for i in vector_idx)
    has_paths = called == (columns.path,)
    names: list[str] = []
    vectors: list[NDArray[np.float32]] = []
    for line, row in chain([first], rows):
        where = f"{path}: line {line}"
        if len(row) != len(header):
            raise VectorsError(f"{where}: expected {len(header)} columns, got {len(row)}")
        if not row[label_idx]:
            raise VectorsError(f"{where}, column {columns.label!r}: expected a label, got none")
        texts = [row[i] for i in vector_idx]
        if has_paths:
            vector = _load(path.parent / texts[0], f"{where}, column {columns.path!r}")
            if vectors and len(vector) != len(vectors[0]):
                expected = f"{len(vectors[0])} numbers as in the lines before, got {len(vector)}"
                raise VectorsError(f"{where}, column {columns.path!r}: expected {expected}")
        else:
            vector = _parse(texts, called, where)
        names.append(row[label_idx])
        vectors.append(vector)
    return names, np.stack(vectors), () if has_paths else called


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each line, the names of the columns first, and its number; empty lines are passed over."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise VectorsError(
                f"{path}: line {reader.line_num + 1}: expected a CSV in UTF-8, got something else: {error}"
            ) from error


def _find(path: Path, header: list[str], columns: _Columns) -> tuple[int, list[int]]:
    """Which column has the labels, and which the paths or the numbers."""
    shown = [name if name == name.strip() else repr(name) for name in header[:8]]
    got = ", ".join(shown) + (f" and {len(header) - 8} more" if len(header) > 8 else "")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise VectorsError(f"{path}: line 1: expected each column once, got {twice[0]!r} twice")
    if columns.label not in header:
        raise VectorsError(
            f"{path}: line 1: expected a column {columns.label!r} of labels, got the columns {got}; say another with "
            f"data.label_column"
        )
    if columns.path in header:
        return header.index(columns.label), [header.index(columns.path)]
    called = re.compile(re.escape(columns.prefix) + r"(\d+)", re.ASCII)
    matches = [called.fullmatch(name) for name in header]
    numbered = sorted((int(match[1]), i) for i, match in enumerate(matches) if match)
    label_idx = header.index(columns.label)
    if not {i for _, i in numbered} - {label_idx}:
        raise VectorsError(
            f"{path}: line 1: expected a column {columns.path!r} of .npy files, or columns {columns.prefix}0, "
            f"{columns.prefix}1 and so on, got the columns {got}; say others with data.path_column or "
            f"data.embedding_prefix"
        )
    for (number, i), (following, j) in pairwise(numbered):
        if following != number + 1:
            expected = f"{columns.prefix}{number + 1} to follow {header[i]}"
            raise VectorsError(f"{path}: line 1: expected a column {expected}, got {header[j]}")
    return label_idx, [i for _, i in numbered if i != label_idx]


def _parse(texts: list[str], called: Sequence[str], where: str) -> NDArray[np.float32]:
    """The numbers of one line, [D]; of columns that are called so."""
    try:
        with np.errstate(over="ignore"):
            vector = np.array(texts, np.float64).astype(np.float32)
    except ValueError:
        vector = np.full(len(texts), np.nan, np.float32)
    if np.isfinite(vector).all():
        return vector
    name, text = next((name, text) for name, text in zip(called, texts, strict=True) if not _is_finite(text))
    raise VectorsError(f"{where}, column {name!r}: expected a finite number, got {text!r:.60}")


def _is_finite(text: str) -> bool:
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.array(text, np.float64).astype(np.float32)))
    except ValueError:
        return False


def _load(path: Path, where: str) -> NDArray[np.float32]:
    """The vector of a file, [D]."""
    try:
        array: Any = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise VectorsError(f"{where}: expected a .npy file, found no {path}") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise VectorsError(f"{where}: expected a .npy file, got {path} that cannot be read: {error}") from error
    if not isinstance(array, np.ndarray) or array.ndim != 1 or not array.size or array.dtype.kind not in "fiu":
        got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "an archive of arrays"
        raise VectorsError(f"{where}: expected numbers [D] in {path}, got {got}")
    with np.errstate(over="ignore"):
        vector = np.asarray(array.astype(np.float32))
    if not np.isfinite(vector).all():
        raise VectorsError(f"{where}: expected finite numbers in {path}, got NaN or an infinite value")
    return vector
