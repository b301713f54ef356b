"""Comparison of two arms over the same seeds: pure functions of their values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste.tuning.resampled import resampled_t
from segpaste.tuning.statistics import Interval, differences, holm, paired_bootstrap, wilcoxon

Values = Mapping[int, float]
"""Value of a measure for each seed."""

Verdict = Literal["higher", "lower", "undecided"]
Kept = Literal["kept", "lost", "undecided"]

ALPHA = 0.05


class Comparison(NamedTuple):
    """Ours against theirs.

    Attributes:
        interval: mean difference, ours minus theirs, and its 95 % interval.
        p_value: p value of the test; `compare_all` and `adjusted` adjust it for several tests.
        num_better: number of seeds at which ours is higher.
        num_pairs: number of seeds.
    """

    interval: Interval
    p_value: float
    num_better: int
    num_pairs: int

    @property
    def verdict(self) -> Verdict:
        """Result: higher or lower if both the interval and the test show it, else undecided."""
        if self.p_value < ALPHA and self.interval.low > 0:
            return "higher"
        return "lower" if self.p_value < ALPHA and self.interval.high < 0 else "undecided"

    @property
    def is_known(self) -> bool:
        """Whether the interval is finite; it is not if the splits say too little about other images."""
        return math.isfinite(self.interval.low)

    def unknown(self) -> Comparison:
        """Return the comparison without its result: the interval is infinite, and the p value 1."""
        return self._replace(interval=Interval(self.interval.mean, -math.inf, math.inf), p_value=1.0)

    def kept(self, margin: float) -> Kept:
        """Return whether ours lost less than a margin: the whole interval decides."""
        if self.interval.low > -margin:
            return "kept"
        return "lost" if self.interval.high < -margin else "undecided"


def compare(ours: Values, theirs: Values) -> Comparison:
    """Return one comparison of independent pairs: bootstrap interval and unadjusted p value of Wilcoxon's test."""
    found = differences(ours, theirs)
    return Comparison(paired_bootstrap(found), wilcoxon(found), int((found > 0).sum()), len(found))


def compare_splits(ours: Values, theirs: Values, weights: NDArray[np.float64]) -> Comparison:
    """Return one comparison on splits that overlap: interval and unadjusted p value of the corrected resampled t test.

    Args:
        ours: value for the seed of each split.
        theirs: the same of the other arm.
        weights: weight of each image in the value of each split, in the order of the seeds; see `image_weights`.
    """
    found = differences(ours, theirs)
    return Comparison(*resampled_t(found, weights), int((found > 0).sum()), len(found))


def compare_all(pairs: Mapping[str, tuple[Values, Values]]) -> dict[str, Comparison]:
    """Return several comparisons of independent pairs, with adjusted p values."""
    return adjusted({name: compare(*pair) for name, pair in pairs.items()})


def adjusted(found: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return comparisons with p values adjusted over all of them by Holm's method."""
    p_values = holm({name: comparison.p_value for name, comparison in found.items()})
    return {name: comparison._replace(p_value=p_values[name]) for name, comparison in found.items()}


def mean(values: Values) -> float:
    """Return the mean over the seeds."""
    return sum(values.values()) / len(values)


def better(candidates: Mapping[str, Values]) -> str:
    """Return the name of the candidate with the highest mean, the first of equal ones."""
    return max(candidates, key=lambda name: mean(candidates[name]))
