"""Statistics of paired runs: an interval, a test, and a correction for several tests.

All of them take the differences within pairs of runs, two arms with the same seed. Not for unpaired runs, and not for
splits of the same images, which `segpaste.tuning.resampled` compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Interval(NamedTuple):
    """Mean or median of some values, and the ends of its interval."""

    mean: float
    low: float
    high: float


def paired_bootstrap(
    differences: ArrayLike, *, level: float = 0.95, num_resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Return the mean of paired differences [N] and its percentile bootstrap interval.

    After Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.

    Raises:
        ValueError: there are no differences.
    """
    values = checked(differences)
    picked = np.random.default_rng(seed).integers(len(values), size=(num_resamples, len(values)))
    means = values[picked].mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def median_interval(values: ArrayLike, *, level: float = 0.95, num_resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return the median of values [N] as ``mean``, and its percentile bootstrap interval.

    Raises:
        ValueError: there are no values.
    """
    found = checked(values)
    picked = np.random.default_rng(seed).integers(len(found), size=(num_resamples, len(found)))
    low, high = np.quantile(np.median(found[picked], axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(np.median(found)), float(low), float(high))


def wilcoxon(differences: ArrayLike) -> float:
    """Return the exact two-sided p value of Wilcoxon's signed-rank test of differences [N].

    Zeros are left out, and differences of equal size get their mean rank. Given the ranks, all 2**n combinations of
    signs are counted. If all differences are zero, the p value is 1.

    After Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1(6), 1945.
    """
    values = checked(differences)
    values = values[values != 0]
    doubled = _doubled_ranks(np.abs(values))
    total = int(doubled.sum())
    counts = np.zeros(total + 1)  # of the signs by the sum of the positive ranks, twice
    counts[0] = 1
    for rank in doubled:
        counts[rank:] = counts[rank:] + counts[: total + 1 - rank]
    above = int(doubled[values > 0].sum())
    smaller = min(above, total - above)
    return min(1.0, float(2 * counts[: smaller + 1].sum() / counts.sum()))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p values of several tests, adjusted to control the family-wise error rate.

    After Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scand. J. of Statistics 6(2), 1979.
    """
    ordered = sorted(p_values, key=lambda name: p_values[name])
    adjusted, largest = {}, 0.0
    for place, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - place) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def differences(ours: Mapping[int, float], theirs: Mapping[int, float]) -> NDArray[np.float64]:
    """Return ours minus theirs for each seed, in the order of the seeds.

    Raises:
        ValueError: the seeds differ.
    """
    if ours.keys() != theirs.keys():
        raise ValueError(f"expected the same seeds in both arms, got {sorted(ours)} and {sorted(theirs)}")
    return np.array([ours[seed] - theirs[seed] for seed in sorted(ours)])


def _doubled_ranks(sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return twice the rank of each size, from 2; equal sizes have their mean rank."""
    ordered = np.sort(sizes)
    first, last = np.searchsorted(ordered, sizes, "left"), np.searchsorted(ordered, sizes, "right")
    return np.asarray(first + last + 1, np.int64)


def checked(differences: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    """Return differences as an array [N].

    Raises:
        ValueError: there are no differences.
    """
    values = np.asarray(differences, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"expected at least one difference [N], got {values.shape}")
    return values
