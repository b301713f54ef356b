"""Vectors with a label each, from a CSV or a bank, read into memory, 4 bytes a number."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste.bank import open_bank
from segpaste.bank.storage.folder import is_url, local_path
from segpaste.encoder.data.banks import read_embeddings
from segpaste.encoder.data.vector_csv import CsvColumns, VectorsError, read_csv
from segpaste.encoder.model.codes import are_signs


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
    if is_url(path) or Path(local_path(path)).is_dir():
        names, vectors, embedder = _read_bank(path)
        return LabelledVectors(vectors, *_numbered(names, label_names), embedder=embedder)
    called = CsvColumns(label_column, path_column, embedding_prefix)
    names, vectors, columns, _ = read_csv(Path(local_path(path)), called)
    return LabelledVectors(vectors, *_numbered(names, label_names), columns)


class NamedVectors(NamedTuple):
    """Vectors that have a name each.

    Attributes:
        vectors: float32 [N, D], finite.
        row_of: the row of each name.
        labels: of each row, any text; None without a column of them.
        embedder: what made the embeddings of a bank, if it says so.
    """

    vectors: NDArray[np.float32]
    row_of: dict[str, int]
    labels: list[str] | None
    embedder: str | None


def read_named(
    path: str | os.PathLike[str], id_column: str, label_column: str, columns: tuple[str, str]
) -> NamedVectors:
    """Read vectors by their ids from a CSV; from a bank, whose crops are called 0, 1 and so on.

    Args:
        path: a CSV in UTF-8, or a bank's folder or URL.
        id_column: the CSV's column of ids, each another one.
        label_column: its column of labels, which may be missing.
        columns: that of ``.npy`` files, and what those of numbers begin with, see `read_vectors`.

    Raises:
        VectorsError: a column, a value or a file is not what it must be, or an id comes twice.
        BankError: there is no bank, or it is broken.
        OSError: the CSV cannot be read.
    """
    if is_url(path) or Path(local_path(path)).is_dir():
        labels, vectors, embedder = _read_bank(path)
        return NamedVectors(vectors, {str(row): row for row in range(len(vectors))}, labels, embedder)
    options = ("--id-column", "--path-column or --embedding-prefix")
    called = CsvColumns(id_column, *columns, what="ids", options=options, extra=label_column)
    found = read_csv(Path(local_path(path)), called)
    row_of = {name: row for row, name in enumerate(found.names)}
    if len(row_of) < len(found.names):
        twice = next(name for row, name in enumerate(found.names) if row_of[name] != row)
        raise VectorsError(f"{os.fspath(path)}: column {id_column!r}: expected each id once, got {twice!r:.60} twice")
    return NamedVectors(found.vectors, row_of, found.extra, None)


def expect_alike(train_set: LabelledVectors, other: LabelledVectors, name: str) -> None:
    """Expect another set's vectors to be of the training set's kind.

    Args:
        train_set: what is trained on.
        other: what is measured on.
        name: of the other set, for the message.

    Raises:
        VectorsError: they are of another length, of other columns, or of another embedder.
    """
    mine, theirs = train_set.vectors.shape[1], other.vectors.shape[1]
    if mine != theirs:
        raise VectorsError(f"expected {name} vectors of {mine} numbers, as for training, got {theirs}")
    for source, of_other in ((train_set.columns, other.columns), (train_set.embedder, other.embedder)):
        if source and of_other and source != of_other:
            raise VectorsError(f"expected {name} vectors of {_said(source)}, as for training, got {_said(of_other)}")


def _said(source: str | tuple[str, ...]) -> str:
    """What vectors are, in words: the columns of a CSV, or the embedder of a bank."""
    return f"the embedder {source}" if isinstance(source, str) else f"the columns {source[0]} to {source[-1]}"


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
        vectors = read_embeddings(bank).astype(np.float32)
        names = [bank.class_names[c] for c in bank.crop_class_ids().tolist()]
        embedder = bank.meta.built_from.get("embedder")
    if are_signs(vectors):
        raise VectorsError(f"{os.fspath(path)}: expected embeddings, got codes; take the bank that they were made of")
    return names, vectors, embedder
