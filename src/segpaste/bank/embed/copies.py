"""New banks from old ones: with embeddings, or with some of the crops only.

A bank is never changed, for its version stands for its content: both write another one, whole or not at all, a batch of
crops at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste.bank.embed.embedders import Embedder, make_embedder
from segpaste.bank.format import WRITERS
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.schema.meta import Format
from segpaste.bank.schema.record import Array, Layout

Announce = Callable[[int], None]
"""Called with the number of crops that were written since the last call."""


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
    """Write a bank with the same crops and an embedding for each.

    Args:
        bank: whose crops; embeddings that it has are replaced.
        out: the new bank's folder; it must not exist, or be empty.
        embedder: a name, see `segpaste.bank.embed.embedders`, or a function.
        weights: file of the parameters of a model that is named.
        device: that it runs on.
        batch_size: crops that are embedded at once; the result of ``statistics`` does not depend on it.
        format: of the new bank, by default that of the old one.
        announce: told how it goes on.

    Returns:
        The folder.

    Raises:
        ValueError: no such embedder, its weights are wrong, or it returns something else than finite [n, 256].
        BankError: the folder is there already, or a crop cannot be read.
    """
    embed = make_embedder(embedder, weights, device) if isinstance(embedder, str) else embedder

    name = embedder if isinstance(embedder, str) else getattr(embedder, "__name__", type(embedder).__name__)

    def vectors_of(rows: Array, indices: NDArray[np.int64]) -> NDArray[np.floating[Any]]:
        return embed(rows["image"], rows["alpha"])

    return replace_embeddings(bank, out, vectors_of, name, batch_size=batch_size, format=format, announce=announce)


def replace_embeddings(
    bank: StoredBank,
    out: str | os.PathLike[str],
    vectors_of: Callable[[Array, NDArray[np.int64]], NDArray[np.floating[Any]]],
    made_by: str,
    *,
    batch_size: int,
    format: Format | None,
    announce: Announce | None,
) -> Path | str:
    """Write a bank with the same crops, and vectors as their embeddings.

    Args:
        bank: whose crops; embeddings that it has are replaced.
        out: the new bank's folder; it must not exist, or be empty.
        vectors_of: called with rows of the new bank, [n], and the indices of their crops, [n]; gives [n, 256], finite.
        made_by: what the new bank says of its embeddings.
        batch_size: crops at once.
        format: of the new bank, by default that of the old one.
        announce: told how it goes on.

    Returns:
        The folder.

    Raises:
        ValueError: the vectors are something else.
        BankError: the folder is there already, or a crop cannot be read.
    """

    def fill(rows: Array, indices: NDArray[np.int64]) -> None:
        vectors = np.asarray(vectors_of(rows, indices))
        if vectors.shape != rows["embedding"].shape or not np.isfinite(vectors).all():
            raise ValueError(
                f"embedder: expected finite embeddings {list(rows['embedding'].shape)}, got {list(vectors.shape)}"
            )
        rows["embedding"] = vectors

    layout = bank.layout.also("embedding")
    return _write(bank, out, np.arange(len(bank)), layout, {"embedder": made_by}, fill, batch_size, format, announce)


def copy_crops(
    bank: StoredBank,
    out: str | os.PathLike[str],
    indices: ArrayLike,
    *,
    format: Format | None = None,
    batch_size: int = 64,
    announce: Announce | None = None,
) -> Path | str:
    """Write a bank with some of the crops, in that order, and all the classes.

    Args:
        bank: whose crops.
        out: the new bank's folder; it must not exist, or be empty.
        indices: [n], of the crops.
        format: of the new bank, by default that of the old one.
        batch_size: crops that are in memory at once.
        announce: told how it goes on.

    Returns:
        The folder.

    Raises:
        IndexError: there is no such crop.
        BankError: the folder is there already, or a crop cannot be read.
    """
    return _write(bank, out, np.asarray(indices, np.int64), bank.layout, {}, None, batch_size, format, announce)


def _write(
    bank: StoredBank,
    out: str | os.PathLike[str],
    indices: NDArray[np.int64],
    layout: Layout,
    said: dict[str, Any],
    fill: Callable[[Array, NDArray[np.int64]], None] | None,
    batch_size: int,
    format: Format | None,
    announce: Announce | None,
) -> Path | str:
    """Copy crops row by row; ``fill`` sees them before, a batch at a time."""
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
    columns = [column.name for column in layout.columns if column in bank.layout.columns and column.name != "embedding"]
    columns += ["embedding"] * (fill is None and "embedding" in bank.layout.groups)
    with WRITERS[format or bank.meta.format](
        out,
        layout,
        bank.class_names,
        build_seed=bank.meta.build_seed,
        metric_depth=bank.metric_depth,
        built_from={**bank.meta.built_from, **said, "made_from": bank.version},
    ) as writer:
        for first in range(0, len(indices), batch_size):
            part = indices[first : first + batch_size]
            rows = np.zeros(len(part), layout.dtype)
            for name, values in bank.read(part, columns).items():
                rows[name] = values
            if fill is not None:
                fill(rows, part)
            for n in range(len(rows)):
                writer.add_row(rows[n : n + 1].reshape(()))
            if announce is not None:
                announce(len(part))
        return writer.finish()
