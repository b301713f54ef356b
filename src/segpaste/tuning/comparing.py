"""Comparison of two arms over the same seeds: pure functions of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from segpaste.tuning.statistics import Interval, differences, holm, paired_bootstrap, wilcoxon

Values = Mapping[int, float]
"""Value of a measure for each seed."""

Verdict = Literal["higher", "lower", "undecided"]
Kept = Literal["kept", "lost", "undecided"]

ALPHA = 0.05


class Comparison(NamedTuple):
    """Ours against theirs.

    Attributes:
        interval: mean difference, ours minus theirs, and its 95 % bootstrap interval.
        p_value: p value of Wilcoxon's signed-rank test; `compare_all` adjusts it for several tests.
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

    def kept(self, margin: float) -> Kept:
        """Return whether ours lost less than a margin: the whole interval decides."""
        if self.interval.low > -margin:
            return "kept"
        return "lost" if self.interval.high < -margin else "undecided"


def compare(ours: Values, theirs: Values) -> Comparison:
    """Return one comparison with an unadjusted p value."""
    found = differences(ours, theirs)
    return Comparison(paired_bootstrap(found), wilcoxon(found), int((found > 0).sum()), len(found))


def compare_all(pairs: Mapping[str, tuple[Values, Values]]) -> dict[str, Comparison]:
    """Return several comparisons, with p values adjusted over all of them by Holm's method."""
    found = {name: compare(*pair) for name, pair in pairs.items()}
    adjusted = holm({name: comparison.p_value for name, comparison in found.items()})
    return {name: comparison._replace(p_value=adjusted[name]) for name, comparison in found.items()}


def mean(values: Values) -> float:
    """Return the mean over the seeds."""
    return sum(values.values()) / len(values)


def better(candidates: Mapping[str, Values]) -> str:
    """Return the name of the candidate with the highest mean, the first of equal ones."""
    return max(candidates, key=lambda name: mean(candidates[name]))
