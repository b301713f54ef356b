"""Arms compared over the same seeds: pure functions of values, and what may be said of them."""

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
        p_value: of Wilcoxon's signed-rank test; adjusted for several tests where `compare_all` made it.
        num_better: seeds at which ours is higher.
        num_pairs: seeds.
    """

    interval: Interval
    p_value: float
    num_better: int
    num_pairs: int

    @property
    def verdict(self) -> Verdict:
        """Higher or lower if both the interval and the test say so."""
        if self.p_value < ALPHA and self.interval.low > 0:
            return "higher"
        return "lower" if self.p_value < ALPHA and self.interval.high < 0 else "undecided"

    def kept(self, margin: float) -> Kept:
        """Return whether ours lost less than a margin: the whole interval decides."""
        if self.interval.low > -margin:
            return "kept"
        return "lost" if self.interval.high < -margin else "undecided"


def compare(ours: Values, theirs: Values) -> Comparison:
    """Return one comparison, its p value not adjusted."""
    found = differences(ours, theirs)
    return Comparison(paired_bootstrap(found), wilcoxon(found), int((found > 0).sum()), len(found))


def compare_all(pairs: Mapping[str, tuple[Values, Values]]) -> dict[str, Comparison]:
    """Return several comparisons, p values adjusted by Holm over all of them."""
    found = {name: compare(*pair) for name, pair in pairs.items()}
    adjusted = holm({name: comparison.p_value for name, comparison in found.items()})
    return {name: comparison._replace(p_value=adjusted[name]) for name, comparison in found.items()}


def mean(values: Values) -> float:
    """Return the mean over the seeds."""
    return sum(values.values()) / len(values)


def better(candidates: Mapping[str, Values]) -> str:
    """Return the name of the candidate with the higher mean; of equal ones the first."""
    return max(candidates, key=lambda name: mean(candidates[name]))
