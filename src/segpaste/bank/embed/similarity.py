"""Comparison of embeddings: prototypes of classes, objects unlike their class, near-duplicates.

The similarity of two objects is the cosine of the angle between their embeddings. The functions read the ``embedding``
column of the bank in blocks, so memory does not grow with the number of crops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.protocol import Columns, InstanceBank
from segpaste.bank.schema.record import EMBEDDING_SIZE, BankError
from segpaste.samplers.by_class import SamplesOfClasses

_BLOCK = 2048
_ROUNDING = 1e-6
"""Maximum rounding error of a cosine of unit vectors in float32; codes of 256 bits differ by 2 / 256."""


def class_prototypes(bank: InstanceBank) -> NDArray[np.float32]:
    """Return the mean embedding of each class, all scaled to length 1 before and after.

    Args:
        bank: bank with embeddings.

    Returns:
        [C, 256]; zeros for a class without crops or with zero embeddings only.

    Raises:
        BankError: the bank has no embeddings.
    """
    _expect_embeddings(bank)
    sums = np.zeros((len(bank.class_names), EMBEDDING_SIZE))
    for crops in _blocks(np.arange(len(bank))):
        columns = bank.read(crops, ("embedding", "class_id"))
        np.add.at(sums, columns["class_id"], unit(columns["embedding"]))
    return unit(sums)


class SimilarToPrototype:
    """Predicate that accepts objects that look like their class, see `segpaste.bank.create_bank_dataloader`.

    Args:
        bank: bank with embeddings.
        min_similarity: minimum similarity to the prototype of the class, from -1 to 1. A good value depends on the
            embedder and the classes: look at ``similarities``.
        prototypes: prototypes [C, 256], by default those of the bank.

    Raises:
        BankError: the bank has no embeddings.
        ValueError: a value is out of its range.
    """

    reads = ("embedding", "class_id")

    def __init__(
        self, bank: InstanceBank, min_similarity: float, prototypes: NDArray[np.float32] | None = None
    ) -> None:
        _expect_embeddings(bank)
        shape = (len(bank.class_names), EMBEDDING_SIZE)
        if not -1 <= min_similarity <= 1:
            raise ValueError(f"SimilarToPrototype: expected -1 <= min_similarity <= 1, got {min_similarity}")
        if prototypes is not None and prototypes.shape != shape:
            raise ValueError(f"SimilarToPrototype: expected prototypes {list(shape)}, got {list(prototypes.shape)}")
        self.min_similarity = min_similarity
        self.prototypes = class_prototypes(bank) if prototypes is None else unit(prototypes)

    def similarities(self, columns: Columns) -> NDArray[np.float32]:
        """Return the similarity of crops to the prototypes of their classes, [n]; ``reads`` names the columns."""
        prototypes = self.prototypes[columns["class_id"]]
        return np.asarray(np.einsum("nd,nd->n", unit(columns["embedding"]), prototypes))

    def accept(self, columns: Columns) -> NDArray[np.bool_]:
        """Return whether each crop is accepted; see `segpaste.bank.CropPredicate`."""
        return self.similarities(columns) >= self.min_similarity - _ROUNDING


def near_duplicates(bank: InstanceBank, threshold: float = 0.98) -> NDArray[np.int64]:
    """Find crops that are nearly the same as a crop of the same class with a lower index.

    A crop is a duplicate if its similarity to a kept crop is at least ``threshold``, in the order of the indices. So no
    two kept crops are duplicates, and each duplicate has a similar kept crop. The search is exact; its time is
    quadratic in the size of a class.

    Args:
        bank: bank with embeddings.
        threshold: minimum similarity of duplicates, above 0, at most 1.

    Returns:
        The indices of the duplicates, ascending. `segpaste.bank.copy_crops` can copy the other crops.

    Raises:
        BankError: the bank has no embeddings.
        ValueError: ``threshold`` is out of its range.
    """
    _expect_embeddings(bank)
    if not 0 < threshold <= 1:
        raise ValueError(f"near_duplicates: expected 0 < threshold <= 1, got {threshold}")
    crops_of = SamplesOfClasses(bank.crop_class_ids(), len(bank.class_names))
    found = [_duplicates(bank, crops_of.of_class(c), threshold) for c in range(len(bank.class_names))]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def unit(vectors: NDArray[np.floating], dtype: type[np.floating] = np.float32) -> NDArray[Any]:
    """Scale rows to length 1; zeros stay."""
    rows = np.asarray(vectors, dtype)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype)


def _duplicates(bank: InstanceBank, crops: NDArray[np.int64], threshold: float) -> NDArray[np.int64]:
    """Return the duplicates among the crops of one class."""
    kept = np.zeros(len(crops), bool)
    for block in _blocks(np.arange(len(crops))):
        vectors = _vectors(bank, crops[block])
        alive = np.ones(len(block), bool)
        for before in _blocks(np.flatnonzero(kept)):
            alive &= (vectors @ _vectors(bank, crops[before]).T).max(1) < threshold - _ROUNDING
        same = vectors @ vectors.T >= threshold - _ROUNDING
        for i in np.flatnonzero(alive).tolist():
            if alive[i]:
                alive[i + 1 :] &= ~same[i, i + 1 :]
        kept[block] = alive
    return crops[~kept]


def _vectors(bank: InstanceBank, crops: NDArray[np.int64]) -> NDArray[np.float32]:
    return unit(bank.read(crops, ("embedding",))["embedding"])


def _blocks(indices: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for first in range(0, len(indices), _BLOCK):
        yield indices[first : first + _BLOCK]


def _expect_embeddings(bank: InstanceBank) -> None:
    if "embedding" not in bank.layout.groups:
        raise BankError("expected a bank with embeddings, got one without; make one with segpaste bank embed")
