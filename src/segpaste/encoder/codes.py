"""What binary attributes are good for: comparing samples by the attributes that they share.

A code is a row of K bits. Codes are compared packed, eight bits to a byte, by their Hamming distance: how many bits
differ. Which bits, and how much that says, is the affair of `AttributeEvidence`. It follows the likelihood ratio of
binary attributes in speaker verification (Ben-Amor, Bonastre: "BA-LR: Binary-Attribute-based Likelihood Ratio
estimation for explainable speaker verification", Odyssey 2022), with shares counted over pairs of samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]
Packed = NDArray[np.uint8]

_NUM_PAIRS = 1 << 22


def are_signs(embeddings: NDArray[np.floating[Any]]) -> bool:
    """Whether these, [n, D], are codes as `segpaste.encoder.encode_bank` writes them, and no embeddings."""
    return bool(np.isin(embeddings, (-1, 0, 1)).all() and embeddings.any())


def pack(codes: Bits) -> Packed:
    """Codes [N, K] as bytes, [N, ceil(K / 8)]; the first bit is the highest of the first byte, missing ones are 0."""
    return np.packbits(codes, axis=1)


def unpack(packed: Packed, num_attributes: int) -> Bits:
    """The inverse of `pack`: [N, K]."""
    return np.unpackbits(packed, axis=1, count=num_attributes).astype(bool)


def hamming(one: Packed, other: Packed) -> NDArray[np.int32]:
    """How many bits differ between each of [n, W] and each of [m, W]: [n, m].

    Raises:
        ValueError: the codes are of different lengths.
    """
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"hamming: expected codes of as many bytes, got {one.shape[1]} and {other.shape[1]}")
    distances = np.zeros((len(one), len(other)), np.int32)
    for i in range(one.shape[1]):
        distances += np.bitwise_count(one[:, None, i] ^ other[None, :, i])
    return distances


def nearest(queries: Packed, gallery: Packed, num: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes of a gallery that differ least from each query.

    Args:
        queries: [n, W].
        gallery: [m, W].
        num: how many to find, at most m.

    Returns:
        Their indices, [n, num], nearest first, of equally near ones the first; and their distances, [n, num].

    Raises:
        ValueError: ``num`` is out of its range, or the codes are of different lengths.
    """
    if not 0 <= num <= len(gallery):
        raise ValueError(f"nearest: expected num from 0 to {len(gallery)}, the size of the gallery, got {num}")
    indices = np.empty((len(queries), num), np.int64)
    distances = np.empty((len(queries), num), np.int64)
    small = np.min_scalar_type(8 * gallery.shape[1])  # NumPy sorts short integers by radix
    for rows in _blocks(len(queries), max(1, _NUM_PAIRS // max(1, len(gallery)))):
        found = hamming(queries[rows], gallery).astype(small)
        order = found.argsort(axis=1, kind="stable")[:, :num]
        indices[rows], distances[rows] = order, np.take_along_axis(found, order, axis=1)
    return indices, distances


def near_duplicate_codes(packed: Packed, labels: NDArray[np.int64], max_distance: int = 0) -> NDArray[np.int64]:
    """Samples whose code is nearly that of another one of their class with a lower index.

    Samples are gone through by their index; one is a duplicate if it differs in at most ``max_distance`` bits from one
    that is kept. Exact, by comparing pairs: time grows with the square of the size of a class.

    Args:
        packed: [N, W].
        labels: the class of each, [N].
        max_distance: bits, from 0.

    Returns:
        Their indices, ascending.

    Raises:
        ValueError: ``max_distance`` is negative.
    """
    if max_distance < 0:
        raise ValueError(f"near_duplicate_codes: expected max_distance from 0, got {max_distance}")
    duplicates = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        kept: list[int] = []
        for index in members.tolist():
            if kept and hamming(packed[[index]], packed[kept]).min() <= max_distance:
                duplicates.append(np.array([index]))
            else:
                kept.append(index)
    return np.sort(np.concatenate(duplicates))


def attribute_shares(codes: Bits, labels: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Of the samples of each class the share that has each attribute, [C, K]; nan for a class without samples."""
    num = np.bincount(labels, minlength=num_classes)[:, None]
    having = np.zeros((num_classes, codes.shape[1]))
    np.add.at(having, labels, codes)
    with np.errstate(invalid="ignore"):
        return np.asarray(having / num)


@dataclass(frozen=True, eq=False)
class AttributeEvidence:
    """Log-likelihood ratios of one class against two, for pairs of samples that share an attribute or do not.

    Two samples of one class agree in an attribute more often than two of different classes, and the more so the rarer
    it is and the more faithfully a class has it. For each attribute the ratio is that of the probabilities of what is
    seen, taken as independent between attributes; where they are not, sums of them overstate the evidence.

    Attributes:
        shares: of the samples of a class the share that has each attribute, the mean over classes, [K].
        log_ratios: natural logarithm of P(a, b | one class) / P(a, b | two classes), [K, 2, 2], indexed [k, a, b]: a
            and b, 0 or 1, say whether the first and the second sample have attribute k; symmetric.
    """

    shares: NDArray[np.float64]
    log_ratios: NDArray[np.float64]

    @classmethod
    def of(cls, codes: Bits, labels: NDArray[np.int64]) -> AttributeEvidence:
        """Count it over pairs of samples, all classes alike.

        Both tables are smoothed: that of independent samples is added with the weight of one class, so that a pair that
        was never seen is unlikely and not impossible. An attribute that all samples have, or none, says nothing: 0.

        Args:
            codes: [N, K].
            labels: the class of each, [N].

        Raises:
            ValueError: there are fewer than two classes, or none with two samples.
        """
        _, class_ids, num = np.unique(labels, return_inverse=True, return_counts=True)
        if len(num) < 2 or num.max() < 2:
            raise ValueError(
                "AttributeEvidence: expected at least two classes, one of them with two samples, got "
                f"{len(num)} classes of at most {num.max(initial=0)}"
            )
        share = attribute_shares(codes, class_ids, len(num))
        mean, num_classes, num_paired = share.mean(0), len(num), int((num > 1).sum())
        paired, num_of_paired = share[num > 1], num[num > 1][:, None]
        same = _table(_mean_of_pairs(paired, num_of_paired), _mean_of_pairs(1 - paired, num_of_paired))
        # the mean over pairs of different classes c, d of share_c * share_d
        both = ((num_classes * mean) ** 2 - (share**2).sum(0)) / (num_classes * (num_classes - 1))
        other = _table(both, 1 - 2 * mean + both)
        independent = _table(mean**2, (1 - mean) ** 2)
        is_telling = (mean > 0) & (mean < 1)
        ratios = np.zeros_like(same)
        ratios[is_telling] = np.log(((num_paired * same + independent) / (num_paired + 1))[is_telling]) - np.log(
            ((num_classes * other + independent) / (num_classes + 1))[is_telling]
        )
        return cls(mean, ratios)

    def scores(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Log-likelihood ratios, above 0 for one class, of each of [n, K] and each of [m, K]: [n, m]."""
        neither, single, both = self.log_ratios[:, 0, 0], self.log_ratios[:, 0, 1], self.log_ratios[:, 1, 1]
        alone = single - neither
        together = (one * (both - 2 * single + neither)) @ other.T.astype(np.float64)
        return np.asarray(together + (one @ alone)[:, None] + other @ alone + neither.sum())

    def explain(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """What each attribute adds to the score of two codes [K]: [K]."""
        return np.asarray(self.log_ratios[np.arange(len(one)), one.astype(int), other.astype(int)])


def _mean_of_pairs(share: NDArray[np.float64], num: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the pairs of different samples of a class the share in which both are so, the mean over classes: [K]."""
    return np.asarray((share * (share * num - 1) / (num - 1)).mean(0))


def _table(both: NDArray[np.float64], neither: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of (neither, one; the other, both), [K, 2, 2]."""
    single = (1 - both - neither) / 2
    return np.stack([np.stack([neither, single], -1), np.stack([single, both], -1)], -2)


def _blocks(num: int, size: int) -> Iterator[slice]:
    for first in range(0, num, size):
        yield slice(first, min(first + size, num))
