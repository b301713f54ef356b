"""Evaluation of an encoder on a whole set of vectors, with the same result at each call.

Retrieval: each vector is a query for the other vectors of its class, and all others are ranked by distance. The average
precision of a query is the mean of the precision at each vector of its class, which is the share of that class among
all vectors that are as near or nearer. Codes have many equal distances; with this definition their order has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from segpaste.encoder.model.encoder import BinaryAttributeEncoder

_NUM_PAIRS = 1 << 21
_NUM_ROWS = 4096


@dataclass(frozen=True)
class Validation:
    """Figures of an encoder on a set of vectors.

    Attributes:
        mse: mean squared error of the reconstruction of the standardised vectors.
        active_frac: share of all bits that are 1, from 0 to 1.
        map_codes: mean average precision of retrieval by the Hamming distance of codes; NaN if no class has two
            vectors.
        map_vectors: mean average precision of retrieval by the cosine of the vectors.
    """

    mse: float
    active_frac: float
    map_codes: float
    map_vectors: float

    def row(self) -> dict[str, float]:
        """Return the figures by name."""
        return asdict(self)


@torch.no_grad()
def validate(
    encoder: BinaryAttributeEncoder, vectors: Tensor, labels: Tensor, map_vectors: float | None = None
) -> Validation:
    """Measure an encoder on a set of vectors.

    Args:
        encoder: encoder on the device of the vectors.
        vectors: float [N, D], at least one.
        labels: int64 [N].
        map_vectors: known value of `Validation.map_vectors`, which does not depend on the encoder.
    """
    squares, codes = 0.0, []
    for first in range(0, len(vectors), _NUM_ROWS):
        block = vectors[first : first + _NUM_ROWS]
        encoded = encoder(block)
        squares += float((encoded.reconstruction - encoder.standardise(block)).double().square().sum())
        codes.append(encoded.codes > 0)
    bits = torch.cat(codes)
    if map_vectors is None:
        map_vectors = mean_average_precision(cosine_rows(vectors), labels)
    return Validation(
        mse=squares / vectors.numel(),
        active_frac=int(bits.sum()) / bits.numel(),
        map_codes=mean_average_precision(hamming_rows(bits), labels),
        map_vectors=map_vectors,
    )


DistancesOf = Callable[[slice], Tensor]
"""Function from a slice of n of the N rows to their distances to all rows, [n, N], floating point or int64 >= 0."""


def hamming_rows(codes: Tensor) -> DistancesOf:
    """Return the Hamming distances of codes, bool [N, K], for `mean_average_precision`; exact, int64."""
    signs = codes.float() * 2 - 1
    num = codes.shape[1]
    return lambda rows: ((num - signs[rows] @ signs.T) / 2).long()


def cosine_rows(vectors: Tensor) -> DistancesOf:
    """Return the distances 1 - cosine of vectors [N, D], for `mean_average_precision`; float64.

    They are rounded to six decimals, so that rounding errors do not order equal vectors.
    """
    unit = torch.nn.functional.normalize(vectors.double(), dim=1)
    return lambda rows: (1 - unit[rows] @ unit.T).round(decimals=6)


def mean_average_precision(distances_of: DistancesOf, labels: Tensor, num_pairs: int = _NUM_PAIRS) -> float:
    """Return the mean over all rows that have another row of their class; NaN if there are none.

    Args:
        distances_of: function that returns the distances of some rows to all.
        labels: int64 [N].
        num_pairs: number of distances in memory at once; at least one row of N distances is held.
    """
    num, step = len(labels), max(1, num_pairs // max(1, len(labels)))
    found: list[Tensor] = []
    for first in range(0, num, step):
        rows = torch.arange(first, min(first + step, num), device=labels.device)
        distances = distances_of(slice(first, first + step))
        itself = rows[:, None] == torch.arange(num, device=labels.device)
        relevant = (labels[rows, None] == labels) & ~itself
        few = not distances.is_floating_point() and int(distances.max()) < num  # else the counts would need more memory
        found.append((_by_counting if few else _by_sorting)(distances, relevant, itself))
    precisions = torch.cat(found).cpu() if found else torch.empty(0, dtype=torch.float64, device="cpu")
    return float(precisions[~precisions.isnan()].sort().values.mean())


def _by_sorting(distances: Tensor, relevant: Tensor, itself: Tensor) -> Tensor:
    """Return the average precision of each row, float64 [n]; NaN if nothing is relevant.

    Args:
        distances: float [n, N].
        relevant: bool [n, N].
        itself: entries to ignore, bool [n, N].
    """
    ordered, order = distances.double().masked_fill(itself, torch.inf).sort(dim=1)
    relevant = relevant.gather(1, order)
    num_found = relevant.long().cumsum(dim=1)
    last = torch.arange(ordered.shape[1], device=ordered.device).repeat(len(ordered), 1)
    last[:, :-1][ordered[:, 1:] == ordered[:, :-1]] = ordered.shape[1]
    last = last.flip(1).cummin(dim=1).values.flip(1)  # last index of equal distances
    precision = num_found.gather(1, last).double() / (last + 1)
    return (precision * relevant).sum(dim=1) / num_found[:, -1]


def _by_counting(distances: Tensor, relevant: Tensor, itself: Tensor) -> Tensor:
    """Return the same as `_by_sorting` for int64 distances [n, N], in time linear in N."""
    num_rows, num_levels = len(distances), int(distances.max()) + 1
    cells = distances + torch.arange(num_rows, device=distances.device)[:, None] * num_levels
    num, num_itself, num_relevant = (
        torch.bincount(of.flatten(), minlength=num_rows * num_levels).view(num_rows, num_levels)
        for of in (cells, cells[itself], cells[relevant])
    )
    num_found = num_relevant.cumsum(dim=1)
    precision = num_found.double() / (num - num_itself).cumsum(dim=1).clamp(min=1)
    return (precision * num_relevant).sum(dim=1) / num_found[:, -1]


def is_better(row: dict[str, Any], other: dict[str, Any] | None) -> bool:
    """Return whether an epoch is better than another, by ``map_codes``, or by ``mse`` if that is equal or NaN."""
    if other is None:
        return True
    if row["map_codes"] < other["map_codes"]:
        return False
    return bool(row["map_codes"] > other["map_codes"] or row["mse"] < other["mse"])
