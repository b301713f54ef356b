"""Labelled vectors, read from files or a bank into memory, 4 bytes per number, and codes in the embeddings of a bank.

A code of K bits is the first K of the 256 numbers of an embedding, -1 or 1; the others are zero. The cosine of two
codes is 1 - 2 d / K, where d is the number of attributes that differ. So functions that compare embeddings, such as
`segpaste.bank.near_duplicates` and `segpaste.bank.SimilarToPrototype`, compare codes by their Hamming distance.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from segpaste.bank import BankError, StoredBank, open_bank
from segpaste.bank.embed.copies import Announce, replace_embeddings
from segpaste.bank.schema.meta import Format
from segpaste.bank.schema.record import EMBEDDING_SIZE, Array
from segpaste.bank.storage.folder import is_url, local_path
from segpaste.encoder.codes import Bits, are_signs
from segpaste.encoder.kaldi import SUFFIXES, read_kaldi, read_speakers
from segpaste.encoder.model import BinaryAttributeEncoder
from segpaste.encoder.vector_csv import CsvColumns, Table, VectorsError, read_csv, read_matrix

_BLOCK = 4096
_SPEAKERS = "utt2spk"


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Vectors with a label each; create it with `of` or with `read_vectors`.

    Attributes:
        vectors: float32 [N, D], finite.
        labels: int64 [N], from 0.
        label_names: name of each label; labels may have no vector.
        columns: columns of numbers in the CSV; empty if the vectors come from other files or a bank.
        embedder: name of the embedder, if the vectors come from a bank that states it.

    Raises:
        VectorsError: an array has another shape, dtype or range.
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
        """Create labelled vectors from arrays.

        Args:
            vectors: numbers [N, D].
            labels: label of each vector, [N], integers or strings; its text is its name.
            label_names: names of the first labels, such as those of the training set; other names follow them.

        Raises:
            VectorsError: the lengths differ, there are no vectors, or a number is not finite.
        """
        names = [str(label) for label in np.asarray(labels).ravel().tolist()]
        with np.errstate(over="ignore"):
            return cls(np.asarray(vectors).astype(np.float32), *_numbered(names, label_names))

    def __len__(self) -> int:
        return len(self.vectors)

    def digest(self) -> str:
        """Return the SHA-256 of the content, hexadecimal."""
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
    utt2spk: str | os.PathLike[str] | None = None,
    label_names: Sequence[str] = (),
) -> LabelledVectors:
    """Read vectors and labels from files, or the embeddings and classes of a bank.

    Args:
        path: a CSV in UTF-8; a ``.npy`` matrix [N, D] with a CSV of the same name beside it, whose lines are the labels
            of its rows, in order; Kaldi's ``.scp`` or ``.ark``; or the folder or URL of a bank.
        label_column: column of labels in the CSV, any text.
        path_column: column of paths to ``.npy`` files, each with a vector [D], or with a matrix whose row is the number
            in a column ``row``.
        embedding_prefix: prefix of the columns of numbers, which are sorted by the number after the prefix.
        utt2spk: speakers of the utterances in Kaldi's files, which are the labels; by default ``utt2spk`` beside
            ``path``.
        label_names: names of the first labels, such as those of the training set; other names follow them.

    Raises:
        VectorsError: a column, a value or a file is invalid (the message names it), or there are no vectors.
        BankError: there is no bank, or it is broken.
        OSError: the CSV cannot be read.
    """
    if is_url(path) or Path(local_path(path)).is_dir():
        names, vectors, embedder = _read_bank(path)
        return LabelledVectors(vectors, *_numbered(names, label_names), embedder=embedder)
    file = Path(local_path(path))
    if file.suffix in SUFFIXES:
        found = read_kaldi(file)
        names = read_speakers(file.with_name(_SPEAKERS) if utt2spk is None else Path(utt2spk), found.ids)
        return LabelledVectors(found.vectors, *_numbered(names, label_names))
    names, vectors, columns, _ = _read_table(file, CsvColumns(label_column, path_column, embedding_prefix))
    return LabelledVectors(vectors, *_numbered(names, label_names), columns)


class NamedVectors(NamedTuple):
    """Vectors with a name each.

    Attributes:
        vectors: float32 [N, D], finite.
        row_of: row of each name.
        labels: label of each row, any text; None if there is no column of labels.
        embedder: name of the embedder, if the vectors come from a bank that states it.
    """

    vectors: NDArray[np.float32]
    row_of: dict[str, int]
    labels: list[str] | None
    embedder: str | None


def read_named(
    path: str | os.PathLike[str],
    id_column: str,
    label_column: str,
    columns: tuple[str, str],
    utt2spk: str | os.PathLike[str] | None = None,
) -> NamedVectors:
    """Read vectors with ids from files, or from a bank, whose crops have the ids 0, 1 and so on.

    Args:
        path: a CSV, a ``.npy`` matrix, Kaldi's files or a bank, see `read_vectors`.
        id_column: column of ids in the CSV, which must be unique.
        label_column: column of labels, which may be missing.
        columns: column of paths to ``.npy`` files, and prefix of the columns of numbers; see `read_vectors`.
        utt2spk: speakers of the utterances; by default ``utt2spk`` beside ``path``, or none.

    Raises:
        VectorsError: a column, a value or a file is invalid, or an id occurs twice.
        BankError: there is no bank, or it is broken.
        OSError: the CSV cannot be read.
    """
    if is_url(path) or Path(local_path(path)).is_dir():
        classes, vectors, embedder = _read_bank(path)
        return NamedVectors(vectors, {str(row): row for row in range(len(vectors))}, classes, embedder)
    file = Path(local_path(path))
    if file.suffix in SUFFIXES:
        utterances = read_kaldi(file)
        beside = file.with_name(_SPEAKERS) if utt2spk is None else Path(utt2spk)
        has_labels = utt2spk is not None or beside.exists()
        labels = read_speakers(beside, utterances.ids) if has_labels else None
        row_of = _rows_of(
            utterances.ids, f"{file}: expected a vector for each utterance, got for", "a matrix of several"
        )
        return NamedVectors(utterances.vectors, row_of, labels, None)
    options = ("--id-column", "--path-column or --embedding-prefix")
    called = CsvColumns(id_column, *columns, what="ids", options=options, extra=label_column)
    found = _read_table(file, called)
    row_of = _rows_of(found.names, f"{os.fspath(path)}: column {id_column!r}: expected each id once, got", "twice")
    return NamedVectors(found.vectors, row_of, found.extra, None)


def _read_table(path: Path, columns: CsvColumns) -> Table:
    return read_matrix(path, columns) if path.suffix == ".npy" else read_csv(path, columns)


def _rows_of(ids: Sequence[str], before: str, after: str) -> dict[str, int]:
    """Return the row of each id; an error names an id of two rows between two texts."""
    row_of = {name: row for row, name in enumerate(ids)}
    if len(row_of) < len(ids):
        twice = next(name for row, name in enumerate(ids) if row_of[name] != row)
        raise VectorsError(f"{before} {twice!r:.60} {after}")
    return row_of


def expect_alike(train_set: LabelledVectors, other: LabelledVectors, name: str) -> None:
    """Check that the vectors of another set are of the same kind as those of the training set.

    Args:
        train_set: training set.
        other: validation or test set.
        name: name of the other set, for the message.

    Raises:
        VectorsError: the vectors have another length, other columns, or another embedder.
    """
    mine, theirs = train_set.vectors.shape[1], other.vectors.shape[1]
    if mine != theirs:
        raise VectorsError(f"expected {name} vectors of {mine} numbers, as for training, got {theirs}")
    for source, of_other in ((train_set.columns, other.columns), (train_set.embedder, other.embedder)):
        if source and of_other and source != of_other:
            raise VectorsError(f"expected {name} vectors of {_said(source)}, as for training, got {_said(of_other)}")


def _said(source: str | tuple[str, ...]) -> str:
    """Describe the source of vectors: the columns of a CSV, or the embedder of a bank."""
    return f"the embedder {source}" if isinstance(source, str) else f"the columns {source[0]} to {source[-1]}"


def _numbered(names: Sequence[str], known: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each name, and the names in the order of their numbers, known names first."""
    number_of = {name: number for number, name in enumerate(dict.fromkeys([*known, *names]))}
    return np.array([number_of[name] for name in names], np.int64), tuple(number_of)


def _read_bank(path: str | os.PathLike[str]) -> tuple[list[str], NDArray[np.float32], str | None]:
    """Return the class name of each crop, the embeddings, [N, 256], and the name of their embedder."""
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


def encode_bank(
    bank: StoredBank,
    out: str | os.PathLike[str],
    encoder: BinaryAttributeEncoder,
    *,
    embedder: str | None = None,
    batch_size: int = 256,
    format: Format | None = None,
    announce: Announce | None = None,
) -> Path | str:
    """Write a bank with the same crops, and codes instead of embeddings.

    Args:
        bank: bank with embeddings of the kind that the encoder was trained on; it is not changed.
        out: folder of the new bank; it must not exist, or be empty.
        encoder: encoder with at most 256 attributes.
        embedder: name of the embedder of the encoder's training vectors; a bank that states another one is rejected.
        batch_size: number of crops that are copied at once.
        format: format of the new bank, by default that of the old one.
        announce: callback for the progress.

    Returns:
        The folder.

    Raises:
        ValueError: the encoder takes vectors of another length, or has more than 256 attributes.
        BankError: the bank has no embeddings, has those of another embedder, or cannot be read, or the folder is taken.
    """
    _expect_encodable(bank, encoder, embedder)

    def codes_of(_: Array, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors = bank.read(indices, ("embedding",))["embedding"].astype(np.float32)
        codes = encoder.encode(torch.from_numpy(vectors)).numpy()
        signs = np.zeros((len(indices), EMBEDDING_SIZE), np.float32)
        signs[:, : codes.shape[1]] = 2.0 * codes - 1.0
        return signs

    name = f"codes of {encoder.num_attributes} attributes"
    return replace_embeddings(bank, out, codes_of, name, batch_size=batch_size, format=format, announce=announce)


def read_embeddings(bank: StoredBank) -> NDArray[np.floating[Any]]:
    """Read all embeddings of a bank, [N, 256], as stored, block by block; the bank must have embeddings and crops."""
    blocks = (np.arange(first, min(first + _BLOCK, len(bank))) for first in range(0, len(bank), _BLOCK))
    return np.concatenate([bank.read(rows, ("embedding",))["embedding"] for rows in blocks])


def read_codes(bank: StoredBank) -> Bits:
    """Read the codes that `encode_bank` wrote, [N, K].

    Raises:
        BankError: the bank has no codes.
    """
    if "embedding" not in bank.layout.groups or not len(bank):
        raise BankError(f"{bank.where}: expected a bank with codes, found none; segpaste bank embed --codes writes one")
    signs = read_embeddings(bank)
    num = int((signs[0] != 0).sum())
    if not num or not (np.abs(signs[:, :num]) == 1).all() or signs[:, num:].any():
        raise BankError(
            f"{bank.where}: expected codes of -1 and 1, got other embeddings; segpaste bank embed --codes writes them"
        )
    return np.asarray(signs[:, :num] > 0)


def _expect_encodable(bank: StoredBank, encoder: BinaryAttributeEncoder, embedder: str | None) -> None:
    """Check that the bank has embeddings of the kind that the encoder was trained on; see `encode_bank`."""
    if "embedding" not in bank.layout.groups:
        raise BankError(f"{bank.where}: expected a bank with embeddings; segpaste bank embed writes one")
    made_by = bank.meta.built_from.get("embedder")
    if embedder is not None and made_by is not None and made_by != embedder:
        raise BankError(f"{bank.where}: expected embeddings of {embedder}, as in training, got those of {made_by}")
    if are_signs(bank.read(np.arange(min(len(bank), 64)), ("embedding",))["embedding"]):
        raise BankError(f"{bank.where}: expected embeddings, got codes already; take the bank that they were made of")
    if encoder.num_inputs != EMBEDDING_SIZE or encoder.num_attributes > EMBEDDING_SIZE:
        raise ValueError(
            f"encode_bank: expected an encoder of vectors of {EMBEDDING_SIZE} numbers into at most {EMBEDDING_SIZE} "
            f"attributes, got one of {encoder.num_inputs} into {encoder.num_attributes}"
        )
