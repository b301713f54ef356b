"""Evidence out of codes: scores of pairs, and the log-likelihood ratios that a calibration makes of them.

The scores follow the likelihood ratio of binary attributes in speaker verification (Ben-Amor, Bonastre: "BA-LR:
Binary-Attribute-based Likelihood Ratio estimation for explainable speaker verification", Odyssey 2022), with shares
counted over pairs of samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from segpaste.encoder.data.pairs import pairs_of
from segpaste.encoder.evaluation.calibration import Calibration
from segpaste.encoder.model.codes import Bits, attribute_shares

_NUM_PAIRS = 1 << 16


@dataclass(frozen=True, eq=False)
class AttributeEvidence:
    """What shared and different attributes say about a pair: that it is of one class, or of two.

    Two samples of one class agree in an attribute more often than two of different classes, and the more so the rarer
    it is and the more faithfully a class has it. The ratio of one attribute is that of the probabilities of what is
    seen. A score is the sum of their logarithms. It is no likelihood ratio of the pair, for attributes depend on one
    another, and the classes that they were counted on are not those of the pair: the sum may be worse than no evidence.
    A calibration on other samples makes log-likelihood ratios of the scores.

    Attributes:
        shares: of the samples of a class the share that has each attribute, the mean over classes, [K].
        log_ratios: natural logarithm of P(a, b | one class) / P(a, b | two classes), [K, 2, 2], indexed [k, a, b]: a
            and b, 0 or 1, say whether the first and the second sample have attribute k; symmetric.
        calibration: of the scores; see `calibrated`.
    """

    shares: NDArray[np.float64]
    log_ratios: NDArray[np.float64]
    calibration: Calibration | None = None

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

    def calibrated(self, codes: Bits, labels: NDArray[np.int64], seed: int = 0) -> AttributeEvidence:
        """Return the same evidence with a calibration, fitted on the pairs of other samples.

        Args:
            codes: of samples that neither the evidence was counted on nor the encoder trained on, [N, K].
            labels: the class of each, [N].
            seed: of the pairs that are drawn where there are more than `segpaste.encoder.data.pairs.MAX_PAIRS` of a
                kind.

        Raises:
            ValueError: there is no pair of one class, or none of two.
        """
        found = pairs_of(labels, seed=seed)
        scores = (self.pair_scores(codes[one], codes[other]) for one, other in found)
        return replace(self, calibration=Calibration.fit(*scores))

    def scores(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the scores, higher for one class, of each of [n, K] and each of [m, K]: [n, m]."""
        alone, shared, rest = self._weights()
        return np.asarray((one * shared) @ other.T.astype(np.float64) + (one @ alone)[:, None] + other @ alone + rest)

    def pair_scores(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the scores of each of [n, K] and the one of [n, K] in the same row: [n]."""
        alone, shared, rest = self._weights()
        scores = np.empty(len(one))
        for first in range(0, len(one), _NUM_PAIRS):
            rows = slice(first, first + _NUM_PAIRS)
            a, b = one[rows], other[rows]
            scores[rows] = (a & b) @ shared + a @ alone + b @ alone + rest
        return scores

    def log_likelihood_ratios(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the calibrated scores, natural logarithms, of each of [n, K] and each of [m, K]: [n, m].

        Raises:
            ValueError: there is no calibration.
        """
        return self.ratios_of(self.scores(one, other))

    def ratios_of(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return calibrated scores of any shape, natural logarithms.

        Raises:
            ValueError: there is no calibration.
        """
        if self.calibration is None:
            raise ValueError("AttributeEvidence: expected a calibration, got none; see AttributeEvidence.calibrated")
        return self.calibration.apply(scores)

    def explain(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return what each attribute adds to the score of two codes [K]: [K].

        In a log-likelihood ratio each part counts ``calibration.scale`` times.
        """
        return np.asarray(self.log_ratios[np.arange(len(one)), one.astype(int), other.astype(int)])

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """What having an attribute adds to a score, [K], what both having it adds beyond that, [K], and the rest."""
        neither, single, both = self.log_ratios[:, 0, 0], self.log_ratios[:, 0, 1], self.log_ratios[:, 1, 1]
        return single - neither, both - 2 * single + neither, float(neither.sum())


def _mean_of_pairs(share: NDArray[np.float64], num: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the pairs of different samples of a class the share in which both are so, the mean over classes: [K]."""
    return np.asarray((share * (share * num - 1) / (num - 1)).mean(0))


def _table(both: NDArray[np.float64], neither: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of (neither, one; the other, both), [K, 2, 2]."""
    single = (1 - both - neither) / 2
    return np.stack([np.stack([neither, single], -1), np.stack([single, both], -1)], -2)
