"""Copies of banks: with embeddings, or with a part of the crops.

A bank is never changed, because its version identifies its content: both functions write another bank, as a whole or
not at all, one batch of crops at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste.bank.embed.embedders import Embedder, make_embedder
from segpaste.bank.format import WRITERS
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.schema.meta import Format
from segpaste.bank.schema.record import Array

Announce = Callable[[int], None]
"""Callback with the number of crops that were written since the last call."""

Vectors = NDArray[np.floating[Any]]
VectorsOf = Callable[[Array, NDArray[np.int64]], Vectors]
"""Function of rows of the new bank, [n], and the indices of their crops, [n]; it returns [n, 256], finite."""


def embed_bank(
    bank: StoredBank,
    out: str | os.PathLike[str],
    embedder: str | Embedder = "statistics",
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    batch_size: int = 64,
    format: Format | None = None,
    announce: Announce | None = None,
) -> Path | str:
    """Write a bank with the same crops and an embedding for each; return its folder.

    Args:
        bank: bank with the crops; embeddings that it has are replaced.
        out: folder of the new bank; it must not exist, or be empty.
        embedder: name, see `segpaste.bank.embed.embedders`, or function.
        weights: file with the parameters of a named model.
        device: device of the model.
        batch_size: number of crops that are embedded at once; the result of ``statistics`` does not depend on it.
        format: format of the new bank, by default that of the old one.
        announce: callback for the progress.

    Raises:
        ValueError: the embedder is unknown, its weights are wrong, or it returns anything but finite [n, 256].
        BankError: the folder is taken, or a crop cannot be read.
    """
    embed = make_embedder(embedder, weights, device) if isinstance(embedder, str) else embedder
    name = embedder if isinstance(embedder, str) else getattr(embedder, "__name__", type(embedder).__name__)

    def vectors_of(rows: Array, _: NDArray[np.int64]) -> Vectors:
        return embed(rows["image"], rows["alpha"])

    return replace_embeddings(bank, out, vectors_of, name, batch_size=batch_size, format=format, announce=announce)


def replace_embeddings(
    bank: StoredBank,
    out: str | os.PathLike[str],
    vectors_of: VectorsOf,
    made_by: str,
    *,
    batch_size: int,
    format: Format | None,
    announce: Announce | None,
) -> Path | str:
    """Write a bank with the same crops and other embeddings, and note ``made_by`` as their embedder.

    The other arguments and the errors are those of `embed_bank`.
    """
    return _write(bank, out, np.arange(len(bank)), format, batch_size, announce, vectors_of, {"embedder": made_by})


def copy_crops(
    bank: StoredBank,
    out: str | os.PathLike[str],
    indices: ArrayLike,
    *,
    format: Format | None = None,
    batch_size: int = 64,
    announce: Announce | None = None,
) -> Path | str:
    """Write a bank with some of the crops, in the given order, and all classes; return its folder.

    Args:
        bank: bank with the crops.
        out: folder of the new bank; it must not exist, or be empty.
        indices: indices of the crops, [n].
        format: format of the new bank, by default that of the old one.
        batch_size: number of crops that are in memory at once.
        announce: callback for the progress.

    Raises:
        IndexError: an index is out of range.
        BankError: the folder is taken, or a crop cannot be read.
    """
    return _write(bank, out, np.asarray(indices, np.int64), format, batch_size, announce)


def _write(
    bank: StoredBank,
    out: str | os.PathLike[str],
    indices: NDArray[np.int64],
    format: Format | None,
    batch_size: int,
    announce: Announce | None,
    vectors_of: VectorsOf | None = None,
    said: Mapping[str, str] | None = None,
) -> Path | str:
    """Copy crops row by row, a batch at a time; ``vectors_of`` gives their embeddings."""
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
    layout = bank.layout if vectors_of is None else bank.layout.also("embedding")
    columns = [c.name for c in bank.layout.columns if vectors_of is None or c.name != "embedding"]
    with WRITERS[format or bank.meta.format](
        out,
        layout,
        bank.class_names,
        build_seed=bank.meta.build_seed,
        metric_depth=bank.metric_depth,
        built_from={**bank.meta.built_from, **(said or {}), "made_from": bank.version},
    ) as writer:
        for first in range(0, len(indices), batch_size):
            part = indices[first : first + batch_size]
            rows = np.zeros(len(part), layout.dtype)
            for name, values in bank.read(part, columns).items():
                rows[name] = values
            if vectors_of is not None:
                rows["embedding"] = _checked(vectors_of(rows, part), rows["embedding"].shape)
            for n in range(len(rows)):
                writer.add_row(rows[n : n + 1].reshape(()))
            if announce is not None:
                announce(len(part))
        return writer.finish()


def _checked(vectors: Vectors, shape: tuple[int, ...]) -> Vectors:
    vectors = np.asarray(vectors)
    if vectors.shape != shape or not np.isfinite(vectors).all():
        raise ValueError(f"embedder: expected finite embeddings {list(shape)}, got {list(vectors.shape)}")
    return vectors
