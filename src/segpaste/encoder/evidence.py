"""Evidence from codes: scores of pairs, and their calibration to log-likelihood ratios.

The scores follow the likelihood ratio of binary attributes in speaker verification (Ben-Amor, Bonastre: "BA-LR:
Binary-Attribute-based Likelihood Ratio estimation for explainable speaker verification", Odyssey 2022), with
probabilities estimated over pairs of samples: all pairs of a small set, random pairs of a large set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste.encoder.calibration import Calibration
from segpaste.encoder.codes import Bits, attribute_shares

_NUM_PAIRS = 1 << 16

MAX_PAIRS = 1 << 17
"""Maximum number of pairs of each kind for figures and calibrations."""

_MAX_ALL = 1 << 22
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AttributeEvidence:
    """Evidence of attributes for a pair of samples being of one class or of two.

    Two samples of one class agree in an attribute more often than two samples of different classes. The effect is
    larger if the attribute is rare and if it is consistent within a class. The ratio of an attribute is the ratio of
    the probabilities of its two values under both hypotheses. A score is the sum of the logarithms of these ratios. It
    is not a likelihood ratio of the pair, because attributes depend on one another, and because the ratios were
    estimated on other classes; it may be worse than no evidence. A calibration on other samples converts the scores to
    log-likelihood ratios.

    Attributes:
        shares: share of samples that have each attribute, averaged over classes, [K].
        log_ratios: natural logarithm of P(a, b | one class) / P(a, b | two classes), [K, 2, 2], indexed [k, a, b]: a
            and b, 0 or 1, say whether the first and the second sample have attribute k; symmetric.
        calibration: calibration of the scores; see `calibrated`.
    """

    shares: NDArray[np.float64]
    log_ratios: NDArray[np.float64]
    calibration: Calibration | None = None

    @classmethod
    def of(cls, codes: Bits, labels: NDArray[np.int64]) -> AttributeEvidence:
        """Estimate the ratios over pairs of samples, with the same weight for each class.

        The tables of both hypotheses are smoothed: the table of independent samples is added with the weight of one
        class, so that an unseen combination is unlikely, but not impossible. The log ratio of an attribute that all or
        no samples have is 0.

        Args:
            codes: codes of the samples, [N, K].
            labels: class of each sample, [N].

        Raises:
            ValueError: there are fewer than two classes, or no class has two samples.
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
            codes: codes of samples that were used neither for the evidence nor to train the encoder, [N, K].
            labels: class of each sample, [N].
            seed: seed of the random pairs, if there are more than `segpaste.encoder.evidence.MAX_PAIRS` of a kind.

        Raises:
            ValueError: there is no pair of one class, or no pair of two classes.
        """
        found = pairs_of(labels, seed=seed)
        scores = (self.pair_scores(codes[one], codes[other]) for one, other in found)
        return replace(self, calibration=Calibration.fit(*scores))

    def scores(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the score of each pair of codes [n, K] and [m, K], as [n, m]; higher means one class."""
        alone, shared, rest = self._weights()
        return np.asarray((one * shared) @ other.T.astype(np.float64) + (one @ alone)[:, None] + other @ alone + rest)

    def pair_scores(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the score of each pair of codes in the same row of [n, K] and [n, K], as [n]."""
        alone, shared, rest = self._weights()
        scores = np.empty(len(one))
        for first in range(0, len(one), _NUM_PAIRS):
            rows = slice(first, first + _NUM_PAIRS)
            a, b = one[rows], other[rows]
            scores[rows] = (a & b) @ shared + a @ alone + b @ alone + rest
        return scores

    def log_likelihood_ratios(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the calibrated score of each pair of codes [n, K] and [m, K], as [n, m]: natural logarithms.

        Raises:
            ValueError: there is no calibration.
        """
        return self.ratios_of(self.scores(one, other))

    def ratios_of(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-likelihood ratios, natural logarithms, of scores of any shape.

        Raises:
            ValueError: there is no calibration.
        """
        if self.calibration is None:
            raise ValueError("AttributeEvidence: expected a calibration, got none; see AttributeEvidence.calibrated")
        return self.calibration.apply(scores)

    def explain(self, one: Bits, other: Bits) -> NDArray[np.float64]:
        """Return the contribution of each attribute to the score of two codes [K], or of the pairs in rows of [n, K].

        The contributions, of the same shape, are natural logarithms of likelihood ratios, and add up to the score. In
        the calibrated ratio each is multiplied by ``calibration.scale``.
        """
        return np.asarray(self.log_ratios[np.arange(one.shape[-1]), one.astype(int), other.astype(int)])

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return the summands of a score: for one sample with an attribute, [K], more for both, [K], and a constant."""
        neither, single, both = self.log_ratios[:, 0, 0], self.log_ratios[:, 0, 1], self.log_ratios[:, 1, 1]
        return single - neither, both - 2 * single + neither, float(neither.sum())


def _mean_of_pairs(share: NDArray[np.float64], num: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of pairs within a class in which both samples have an attribute, mean over classes, [K]."""
    return np.asarray((share * (share * num - 1) / (num - 1)).mean(0))


def _table(both: NDArray[np.float64], neither: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities ((neither, second), (first, both)), [K, 2, 2]."""
    single = (1 - both - neither) / 2
    return np.stack([np.stack([neither, single], -1), np.stack([single, both], -1)], -2)


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
