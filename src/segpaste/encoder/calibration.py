"""Calibration of scores of pairs to log-likelihood ratios, and measures of their quality.

A pair is a target if both samples are of one class, and a nontarget if they are of two classes. Calibration is logistic
regression with the same weight for both kinds, so that the ratios do not depend on the numbers of pairs. It minimises
Cllr over the affine maps of the scores:

    Cllr = 1/2 mean over targets of log2(1 + 1/LR) + 1/2 mean over nontargets of log2(1 + LR)

0 is perfect. 1 is the cost of LR = 1 for every pair, which is no evidence; above 1 the ratios mislead. Method and
measures: Brümmer and du Preez, "Application-independent evaluation of speaker detection", Computer Speech and Language
20 (2006), https://doi.org/10.1016/j.csl.2005.08.001.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Scores = NDArray[np.float64]

_MAX_STEPS, _TOLERANCE = 200, 1e-12


@dataclass(frozen=True)
class Calibration:
    """Affine map of scores to log-likelihood ratios; create it with `fit`.

    Attributes:
        scale: factor of the scores, at least 0. With 0 the scores have no effect, and every ratio is 1.
        shift: summand, a natural logarithm.
        num_target, num_nontarget: number of pairs of each kind that it was fitted on.
    """

    scale: float
    shift: float
    num_target: int
    num_nontarget: int

    @classmethod
    def fit(cls, target: ArrayLike, nontarget: ArrayLike) -> Calibration:
        """Fit the map on scores of pairs of each kind.

        Each target counts as a nontarget with weight 1 / (n + 2), where n is the number of targets, and vice versa, as
        in Platt, "Probabilistic outputs for support vector machines" (1999). Hence the optimum is finite even if the
        scores separate the kinds, and n pairs do not give ratios much beyond n. If the scores of targets are lower than
        those of nontargets, the scale is 0.

        Args:
            target: scores of pairs of one class, [n].
            nontarget: scores of pairs of two classes, [m].

        Raises:
            ValueError: a kind has no pairs, or a score is not finite.
        """
        scores = _checked("Calibration.fit", target), _checked("Calibration.fit", nontarget)
        num_target, num_nontarget = map(len, scores)
        both = np.concatenate(scores)
        centre, spread = float(both.mean()), float(both.std())
        scale = shift = 0.0
        if spread > 1e-9 * max(1.0, abs(centre)):
            flipped = 1 / (num_target + 2), 1 / (num_nontarget + 2)
            is_target = np.repeat([1 - flipped[0], flipped[1]], [num_target, num_nontarget])
            weights = np.repeat([0.5 / num_target, 0.5 / num_nontarget], [num_target, num_nontarget])
            slope, offset = _logistic((both - centre) / spread, is_target, weights)
            if slope > 0:
                scale, shift = slope / spread, offset - slope * centre / spread
        return cls(scale, shift, num_target, num_nontarget)

    def apply(self, scores: ArrayLike) -> Scores:
        """Return the log-likelihood ratios, natural logarithms, of scores of any shape."""
        return np.asarray(self.scale * np.asarray(scores, np.float64) + self.shift)


def equal_error_rate(target: ArrayLike, nontarget: ArrayLike) -> float:
    """Return the error rate, 0 to 1, at the threshold where equal shares of targets are missed and nontargets accepted.

    Between two points of the ROC the rate is interpolated linearly.

    Args:
        target: scores of pairs of one class, [n].
        nontarget: scores of pairs of two classes, [m].

    Raises:
        ValueError: a kind has no pairs, or a score is not finite.
    """
    missed, accepted = _error_rates("equal_error_rate", target, nontarget)
    after = int(np.argmax(missed >= accepted))  # never the first
    gaps = (accepted - missed)[[after - 1, after]]
    part = gaps[0] / (gaps[0] - gaps[1])
    return float(missed[after - 1] + part * (missed[after] - missed[after - 1]))


def cllr(target: ArrayLike, nontarget: ArrayLike) -> float:
    """Return the cost of log-likelihood ratios in bits; 1 or more is no better than no evidence.

    Args:
        target: natural logarithms of the ratios of pairs of one class, [n].
        nontarget: natural logarithms of the ratios of pairs of two classes, [m].

    Raises:
        ValueError: a kind has no pairs, or a ratio is not finite.
    """
    of_target, of_nontarget = _checked("cllr", target), _checked("cllr", nontarget)
    return float((np.logaddexp(0, -of_target).mean() + np.logaddexp(0, of_nontarget).mean()) / (2 * np.log(2)))


def min_cllr(target: ArrayLike, nontarget: ArrayLike) -> float:
    """Return the lowest Cllr that an increasing map of the scores can reach on these pairs.

    The map is isotonic regression by pooling of adjacent violators. Cllr minus this value is the calibration loss.

    Args:
        target: scores of pairs of one class, [n].
        nontarget: scores of pairs of two classes, [m].

    Raises:
        ValueError: a kind has no pairs, or a score is not finite.
    """
    pooled: list[tuple[int, int]] = []  # (targets, nontargets) with increasing shares of targets
    for one, other in zip(*(num.tolist() for num in _counts("min_cllr", target, nontarget)), strict=True):
        while pooled and pooled[-1][0] * (one + other) >= one * sum(pooled[-1]):
            before = pooled.pop()
            one, other = one + before[0], other + before[1]
        pooled.append((one, other))
    num = np.array(pooled, np.float64)
    shares = num / num.sum(0)
    mixed = shares[(num > 0).all(1)]  # the others have ratio 0 or infinity, and cost 0
    costs = mixed * np.logaddexp(0, np.log(mixed[:, ::-1] / mixed))
    return float(costs.sum() / (2 * np.log(2)))


def min_dcf(
    target: ArrayLike,
    nontarget: ArrayLike,
    *,
    target_prior: float = 0.01,
    miss_cost: float = 1.0,
    false_alarm_cost: float = 1.0,
) -> float:
    """Return the lowest detection cost over all thresholds, divided by that of the better constant decision.

    The detection cost of NIST's speaker recognition evaluations is ``miss_cost * target_prior * misses +
    false_alarm_cost * (1 - target_prior) * false alarms``, both as shares of their kind. 0 is perfect; 1 is no better
    than to accept or to reject every pair.

    Args:
        target: scores of pairs of one class, [n].
        nontarget: scores of pairs of two classes, [m].
        target_prior: share of target pairs where the scores are used, above 0 and below 1.
        miss_cost: cost of a rejected target, above 0.
        false_alarm_cost: cost of an accepted nontarget, above 0.

    Raises:
        ValueError: a kind has no pairs, a score is not finite, or a prior or a cost is out of range.
    """
    if not 0 < target_prior < 1 or not 0 < miss_cost < np.inf or not 0 < false_alarm_cost < np.inf:
        raise ValueError(
            f"min_dcf: expected 0 < target_prior < 1 and costs above 0, got {target_prior}, {miss_cost} and "
            f"{false_alarm_cost}"
        )
    missed, accepted = _error_rates("min_dcf", target, nontarget)
    of_miss, of_alarm = miss_cost * target_prior, false_alarm_cost * (1 - target_prior)
    return float((of_miss * missed + of_alarm * accepted).min() / min(of_miss, of_alarm))


def det_curve(target: ArrayLike, nontarget: ArrayLike) -> tuple[Scores, Scores]:
    """Return the error rates at each threshold, for a plot of the detection error trade-off.

    The first threshold is below all scores, the others are just above each distinct score, ascending.

    Args:
        target: scores of pairs of one class, [n].
        nontarget: scores of pairs of two classes, [m].

    Returns:
        The shares of targets that are missed, and of nontargets that are accepted (false alarms), 0 to 1, [t] each.

    Raises:
        ValueError: a kind has no pairs, or a score is not finite.
    """
    return _error_rates("det_curve", target, nontarget)


def _error_rates(name: str, target: ArrayLike, nontarget: ArrayLike) -> tuple[Scores, Scores]:
    num_target, num_nontarget = _counts(name, target, nontarget)
    missed = np.concatenate([[0.0], np.cumsum(num_target) / num_target.sum()])
    return missed, np.concatenate([[1.0], 1 - np.cumsum(num_nontarget) / num_nontarget.sum()])


def _counts(name: str, target: ArrayLike, nontarget: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of targets and of nontargets at each distinct score, in ascending order."""
    one, other = _checked(name, target), _checked(name, nontarget)
    values, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    of_one, of_other = np.split(places, [len(one)])
    return np.bincount(of_one, minlength=len(values)), np.bincount(of_other, minlength=len(values))


def _checked(name: str, scores: ArrayLike) -> Scores:
    found: NDArray[Any] = np.asarray(scores, np.float64)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise ValueError(
            f"{name}: expected finite scores [n] of at least one target and one nontarget pair, got {list(found.shape)}"
            + (" with NaN or infinite values" if found.size else "")
        )
    return found


def _logistic(scores: Scores, is_target: Scores, weights: Scores) -> tuple[float, float]:
    """Return a and b that minimise the weighted cross-entropy of sigmoid(a x + b), by damped Newton steps."""
    inputs = np.stack([scores, np.ones_like(scores)])
    found = np.zeros(2)

    def cost(at: Scores) -> float:
        logits = at @ inputs
        return float(weights @ (np.logaddexp(0, logits) - is_target * logits))

    value = cost(found)
    for _ in range(_MAX_STEPS):
        likely = 0.5 + 0.5 * np.tanh(0.5 * (found @ inputs))
        gradient = inputs @ (weights * (likely - is_target))
        step = np.linalg.solve((inputs * (weights * likely * (1 - likely))) @ inputs.T, gradient)
        size = 1.0
        while cost(found - size * step) > value and size > 1e-6:
            size /= 2
        found = found - size * step
        before, value = value, cost(found)
        if before - value <= _TOLERANCE * before:
            break
    return float(found[0]), float(found[1])
