"""Evaluation of an encoder on a whole set of vectors, with the same result at each call.

Retrieval: each vector is a query for the other vectors of its class, and all others are ranked by distance. The average
precision of a query is the mean of the precision at each vector of its class, which is the share of that class among
all vectors that are as near or nearer. Codes have many equal distances; with this definition their order has no effect.

`assess` measures the encoder of the best epoch. That epoch is the best of many on the validation set, so its figures on
that set are too optimistic. Use a test set, whose vectors neither train the encoder nor select the epoch, for unbiased
figures. Retrieval by codes is compared with two controls: the same encoder with its initial parameters, and the signs
of as many random projections of the standardised vectors. The evidence is estimated on the training set and calibrated
on pairs of the validation set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.encoder.calibration import cllr, equal_error_rate, min_cllr, min_dcf
from segpaste.encoder.codes import Bits
from segpaste.encoder.evidence import AttributeEvidence, pairs_of
from segpaste.encoder.model import BinaryAttributeEncoder

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


@dataclass(frozen=True)
class RatioFigures:
    """Quality of log-likelihood ratios; see `segpaste.encoder.calibration`.

    Attributes:
        eer: equal error rate, 0 to 1.
        cllr: cost in bits; 1 or more is no better than no evidence.
        min_cllr: cost in bits after the best increasing map of the scores.
        cllr_of_scores: cost in bits of the scores before calibration, taken as log-likelihood ratios.
        num_target, num_nontarget: number of pairs of one class, and of two classes.
        min_dcf: lowest detection cost at a share of targets of 1 %, see
            `segpaste.encoder.calibration.min_dcf`.
        misleading_target: share of pairs of one class whose ratio is below 1.
        misleading_nontarget: share of pairs of two classes whose ratio is above 1.
        eer_of_vectors, min_dcf_of_vectors: EER and detection cost of the cosines of the vectors; NaN if not measured.
    """

    eer: float
    cllr: float
    min_cllr: float
    cllr_of_scores: float
    num_target: int
    num_nontarget: int
    min_dcf: float = math.nan
    eer_of_vectors: float = math.nan
    min_dcf_of_vectors: float = math.nan
    misleading_target: float = math.nan
    misleading_nontarget: float = math.nan


@dataclass(frozen=True)
class Assessment:
    """Figures of the best epoch.

    Attributes:
        num_vectors: number of vectors.
        is_final: True if the vectors are a test set. Otherwise they are the validation set, which selected the epoch
            and the calibration, so the figures are too optimistic.
        map_codes, map_vectors: see `segpaste.encoder.Validation`.
        map_untrained: mean average precision of the codes of the encoder before training.
        map_random: mean average precision of the signs of as many random projections.
        mse, active_frac: see `segpaste.encoder.Validation`.
        ratios: figures of pairs of these vectors; None if the evidence cannot be estimated or calibrated, or if a kind
            has no pairs.
        attributes: columns of ``attributes.csv``, [K] each, see `segpaste.encoder.attribute_terms`; None without
            evidence.
    """

    num_vectors: int
    is_final: bool
    map_codes: float
    map_vectors: float
    map_untrained: float
    map_random: float
    mse: float
    active_frac: float
    ratios: RatioFigures | None
    attributes: Mapping[str, NDArray[np.float64]] | None = field(default=None, compare=False)

    @property
    def has_learnt(self) -> bool | None:
        """Whether the codes are better than both controls; None if no class has two vectors."""
        found = (self.map_codes, self.map_untrained, self.map_random)
        return None if any(map(math.isnan, found)) else self.map_codes > max(self.map_untrained, self.map_random)


class Part(NamedTuple):
    """Vectors on the device of the encoder, float [N, D], and their labels, int64 [N]."""

    vectors: Tensor
    labels: Tensor


def ratio_figures(
    evidence: AttributeEvidence,
    target: NDArray[np.float64],
    nontarget: NDArray[np.float64],
    cosines: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> RatioFigures | None:
    """Measure calibrated evidence on pairs.

    Args:
        evidence: evidence with a calibration.
        target: scores of pairs of one class, [n].
        nontarget: scores of pairs of two classes, [m].
        cosines: cosines of the vectors of the same pairs, for comparison.

    Returns:
        The figures; None if a kind has no pairs.

    Raises:
        ValueError: there is no calibration.
    """
    if not len(target) or not len(nontarget):
        return None
    ratios = evidence.ratios_of(target), evidence.ratios_of(nontarget)
    return RatioFigures(
        eer=equal_error_rate(target, nontarget),
        cllr=cllr(*ratios),
        min_cllr=min_cllr(target, nontarget),
        cllr_of_scores=cllr(target, nontarget),
        num_target=len(target),
        num_nontarget=len(nontarget),
        min_dcf=min_dcf(target, nontarget),
        eer_of_vectors=math.nan if cosines is None else equal_error_rate(*cosines),
        min_dcf_of_vectors=math.nan if cosines is None else min_dcf(*cosines),
        misleading_target=float((ratios[0] < 0).mean()),
        misleading_nontarget=float((ratios[1] > 0).mean()),
    )


def pair_cosines(vectors: NDArray[np.floating[Any]], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosines of pairs of rows [2, n] of vectors [N, D]; 0 with a vector of length 0.

    They are rounded to six decimals, so that rounding errors do not order equal vectors.
    """
    found = np.empty(pairs.shape[1])
    for first in range(0, pairs.shape[1], _NUM_ROWS):
        one, other = (vectors[rows[first : first + _NUM_ROWS]].astype(np.float64) for rows in pairs)
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        products = (one * other).sum(1)
        found[first : first + _NUM_ROWS] = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return found.round(6)


def find_evidence(encoder: BinaryAttributeEncoder, train: Part, validation: Part) -> AttributeEvidence | None:
    """Estimate evidence on the training set and calibrate it on the validation set; None if either is impossible."""
    codes, other_codes = encode(encoder, train.vectors), encode(encoder, validation.vectors)
    try:
        evidence = AttributeEvidence.of(codes, train.labels.cpu().numpy())
        return evidence.calibrated(other_codes, validation.labels.cpu().numpy())
    except ValueError:  # a set has no pairs of one class, or of two
        return None


def encode(encoder: BinaryAttributeEncoder, vectors: Tensor) -> Bits:
    """Encode vectors, float [N, D] on the device of the encoder, block by block, as bool [N, K]."""
    return np.concatenate([encoder.encode(block).cpu().numpy() for block in torch.split(vectors, _NUM_ROWS)])


def assess(
    encoder: BinaryAttributeEncoder,
    untrained: BinaryAttributeEncoder,
    evidence: AttributeEvidence | None,
    part: Part,
    *,
    is_final: bool,
    seed: int = 0,
) -> Assessment:
    """Measure an encoder and its controls.

    Args:
        encoder: trained encoder, on the device of the vectors.
        untrained: the same encoder with its initial parameters.
        evidence: evidence with a calibration; None for no figures of ratios.
        part: vectors to measure on, at least one.
        is_final: see `Assessment`.
        seed: seed of the random projections.
    """
    found = validate(encoder, part.vectors, part.labels)
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(
        encoder.num_inputs, encoder.num_attributes, generator=generator, dtype=torch.float32, device="cpu"
    ).to(part.vectors)
    blocks = torch.split(part.vectors, _NUM_ROWS)
    random = torch.cat([encoder.standardise(block) @ directions > 0 for block in blocks])
    first = torch.cat([untrained.encode(block) for block in blocks])
    ratios = None
    if evidence is not None:
        codes = encode(encoder, part.vectors)
        pairs = pairs_of(part.labels.cpu().numpy())
        target, nontarget = (evidence.pair_scores(codes[one], codes[other]) for one, other in pairs)
        vectors = part.vectors.cpu().numpy()
        cosines = pair_cosines(vectors, pairs.target), pair_cosines(vectors, pairs.nontarget)
        ratios = ratio_figures(evidence, target, nontarget, cosines)
    return Assessment(
        num_vectors=len(part.vectors),
        is_final=is_final,
        map_untrained=mean_average_precision(hamming_rows(first), part.labels),
        map_random=mean_average_precision(hamming_rows(random), part.labels),
        ratios=ratios,
        attributes=None,
        **found.row(),
    )
