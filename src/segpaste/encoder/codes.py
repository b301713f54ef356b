"""Comparison of codes: rows of K bits, one for each binary attribute.

Codes are packed, eight bits to a byte, and compared by their Hamming distance, the number of bits that differ.
`segpaste.encoder.AttributeEvidence` compares codes by the evidence of each bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]
Packed = NDArray[np.uint8]

_NUM_PAIRS = 1 << 22


def are_signs(embeddings: NDArray[np.floating[Any]]) -> bool:
    """Return whether these, [n, D], are codes written by `segpaste.encoder.encode_bank`, not embeddings."""
    return bool(np.isin(embeddings, (-1, 0, 1)).all() and embeddings.any())


def pack(codes: Bits) -> Packed:
    """Pack codes [N, K] into bytes, [N, ceil(K / 8)]; bit 0 is the highest of the first byte, missing bits are 0."""
    return np.packbits(codes, axis=1)


def unpack(packed: Packed, num_attributes: int) -> Bits:
    """Unpack codes to [N, K]: the inverse of `pack`."""
    return np.unpackbits(packed, axis=1, count=num_attributes).astype(bool)


def hamming(one: Packed, other: Packed) -> NDArray[np.int32]:
    """Return the number of bits that differ between each of [n, W] and each of [m, W], as [n, m].

    Raises:
        ValueError: the codes are of different lengths.
    """
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"hamming: expected codes of one length in bytes, got {one.shape[1]} and {other.shape[1]}")
    distances = np.zeros((len(one), len(other)), np.int32)
    for i in range(one.shape[1]):
        distances += np.bitwise_count(one[:, None, i] ^ other[None, :, i])
    return distances


def nearest(queries: Packed, gallery: Packed, num: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the codes of a gallery that are nearest to each query.

    Args:
        queries: packed codes, [n, W].
        gallery: packed codes, [m, W].
        num: number of codes to find, at most m.

    Returns:
        Their indices, [n, num], nearest first and with ties in ascending order, and their distances, [n, num].

    Raises:
        ValueError: ``num`` is out of its range, or the codes are of different lengths.
    """
    if not 0 <= num <= len(gallery):
        raise ValueError(f"nearest: expected num from 0 to {len(gallery)}, the size of the gallery, got {num}")
    indices = np.empty((len(queries), num), np.int64)
    distances = np.empty((len(queries), num), np.int64)
    small = np.min_scalar_type(8 * gallery.shape[1])  # NumPy sorts short integers by radix
    step = max(1, _NUM_PAIRS // max(1, len(gallery)))
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
        found = hamming(queries[rows], gallery).astype(small)
        order = found.argsort(axis=1, kind="stable")[:, :num]
        indices[rows], distances[rows] = order, np.take_along_axis(found, order, axis=1)
    return indices, distances


def near_duplicate_codes(packed: Packed, labels: NDArray[np.int64], max_distance: int = 0) -> NDArray[np.int64]:
    """Find samples whose code is nearly the same as that of a sample of the same class with a lower index.

    A sample is a duplicate if it differs in at most ``max_distance`` bits from a sample that is kept, in the order of
    the indices. The search is exact; its time is quadratic in the size of a class.

    Args:
        packed: packed codes, [N, W].
        labels: class of each sample, [N].
        max_distance: number of bits, from 0.

    Returns:
        The indices of the duplicates, ascending.

    Raises:
        ValueError: ``max_distance`` is negative.
    """
    if max_distance < 0:
        raise ValueError(f"near_duplicate_codes: expected max_distance from 0, got {max_distance}")
    duplicates: list[int] = []
    for label in np.unique(labels):
        kept: list[int] = []
        for index in np.flatnonzero(labels == label).tolist():
            if kept and hamming(packed[[index]], packed[kept]).min() <= max_distance:
                duplicates.append(index)
            else:
                kept.append(index)
    return np.array(sorted(duplicates), np.int64)


def attribute_shares(codes: Bits, labels: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Return the share of samples with each attribute, per class, [C, K]; NaN for a class without samples."""
    num = np.bincount(labels, minlength=num_classes)[:, None]
    having = np.zeros((num_classes, codes.shape[1]))
    np.add.at(having, labels, codes)
    with np.errstate(invalid="ignore"):
        return np.asarray(having / num)
