"""Pairs of samples of one class and of two classes: all pairs of a small set, random pairs of a large set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_PAIRS = 1 << 17
"""Maximum number of pairs of each kind for figures and calibrations."""
_MAX_ALL = 1 << 22

Rows = NDArray[np.int64]


class PairsOfClasses(NamedTuple):
    """Pairs of different rows.

    Attributes:
        target: rows of the pairs of one class, [2, n].
        nontarget: rows of the pairs of two classes, [2, m].
    """

    target: Rows
    nontarget: Rows


def pairs_of(labels: Rows, max_pairs: int = MAX_PAIRS, seed: int = 0) -> PairsOfClasses:
    """Return pairs of each kind, all with the same probability.

    Args:
        labels: class of each row, [N].
        max_pairs: maximum number of pairs of a kind; if there are more, about as many are drawn at random.
        seed: seed of the random pairs.

    Returns:
        The pairs; a kind without pairs is empty.
    """
    rng = np.random.default_rng(seed)
    if len(labels) * (len(labels) - 1) // 2 <= _MAX_ALL:
        pairs = np.stack(np.triu_indices(len(labels), 1))
        is_target = labels[pairs[0]] == labels[pairs[1]]
        return PairsOfClasses(*(_part(pairs[:, kind], max_pairs, rng) for kind in (is_target, ~is_target)))
    order = np.argsort(labels, kind="stable")
    _, first, class_ids, num = np.unique(labels[order], return_index=True, return_inverse=True, return_counts=True)
    first, num = first[class_ids], num[class_ids]  # of the class of each row, in the order of ``order``

    def drawn(num_partners: Rows, of_class: bool) -> Rows:
        if not num_partners.any():
            return np.empty((2, 0), np.int64)
        one = rng.choice(len(labels), max_pairs, p=num_partners / num_partners.sum())
        other = rng.integers(0, num_partners[one])
        if of_class:  # the other rows of the class
            other += first[one]
            other += other >= one
        else:  # the rows before and after the class
            other += np.where(other >= first[one], num[one], 0)
        rows = np.unique(np.minimum(one, other) * len(labels) + np.maximum(one, other))  # each pair once
        return np.asarray(order[np.stack(np.divmod(rows, len(labels)))])

    return PairsOfClasses(drawn(num - 1, True), drawn(len(labels) - num, False))


def _part(pairs: Rows, max_pairs: int, rng: np.random.Generator) -> Rows:
    if pairs.shape[1] <= max_pairs:
        return pairs
    return pairs[:, np.sort(rng.choice(pairs.shape[1], max_pairs, replace=False))]
