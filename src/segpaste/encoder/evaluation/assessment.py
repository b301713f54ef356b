"""Assessment of the encoder of the best epoch, compared with untrained controls.

The epoch is the best of many on the validation set, so its figures on that set are too optimistic. Use a test
set, whose vectors neither train the encoder nor select the epoch, for unbiased figures. Retrieval by codes is compared
with two controls: the same encoder with its initial parameters, and the signs of as many random projections of the
standardised vectors.

The evidence is estimated on the training set and calibrated on pairs of the validation set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.encoder.data.pairs import pairs_of
from segpaste.encoder.evaluation.calibration import cllr, equal_error_rate, min_cllr, min_dcf
from segpaste.encoder.evaluation.evaluate import hamming_rows, mean_average_precision, validate
from segpaste.encoder.evaluation.evidence import AttributeEvidence
from segpaste.encoder.model.codes import Bits
from segpaste.encoder.model.encoder import BinaryAttributeEncoder

_NUM_ROWS = 4096


@dataclass(frozen=True)
class RatioFigures:
    """Quality of log-likelihood ratios; see `segpaste.encoder.evaluation.calibration`.

    Attributes:
        eer: equal error rate, 0 to 1.
        cllr: cost in bits; 1 or more is no better than no evidence.
        min_cllr: cost in bits after the best increasing map of the scores.
        cllr_of_scores: cost in bits of the scores before calibration, taken as log-likelihood ratios.
        num_target, num_nontarget: number of pairs of one class, and of two classes.
        min_dcf: lowest detection cost at a share of targets of 1 %, see
            `segpaste.encoder.evaluation.calibration.min_dcf`.
        eer_of_vectors, min_dcf_of_vectors: the same of the cosines of the vectors themselves; NaN if not measured.
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
    return RatioFigures(
        eer=equal_error_rate(target, nontarget),
        cllr=cllr(evidence.ratios_of(target), evidence.ratios_of(nontarget)),
        min_cllr=min_cllr(target, nontarget),
        cllr_of_scores=cllr(target, nontarget),
        num_target=len(target),
        num_nontarget=len(nontarget),
        min_dcf=min_dcf(target, nontarget),
        eer_of_vectors=math.nan if cosines is None else equal_error_rate(*cosines),
        min_dcf_of_vectors=math.nan if cosines is None else min_dcf(*cosines),
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
        **found.row(),
    )
