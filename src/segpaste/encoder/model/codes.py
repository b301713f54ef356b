"""What binary attributes are good for: comparing samples by the attributes that they share.

A code is a row of K bits. Codes are compared packed, eight bits to a byte, by their Hamming distance: how many bits
differ. Which bits, and how much that says, is the affair of `segpaste.encoder.AttributeEvidence`.
"""

from __future__ import annotations

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
    step = max(1, _NUM_PAIRS // max(1, len(gallery)))
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
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
    """Of the samples of each class the share that has each attribute, [C, K]; nan for a class without samples."""
    num = np.bincount(labels, minlength=num_classes)[:, None]
    having = np.zeros((num_classes, codes.shape[1]))
    np.add.at(having, labels, codes)
    with np.errstate(invalid="ignore"):
        return np.asarray(having / num)
