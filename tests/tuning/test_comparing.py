"""The wording of a comparison follows from its interval and its test."""

from __future__ import annotations

import pytest

from segpaste.tuning.comparing import Comparison, better, compare, compare_all
from segpaste.tuning.statistics import Interval

SEEDS = range(10)


def comparison(mean: float, low: float, high: float, p_value: float) -> Comparison:
    return Comparison(Interval(mean, low, high), p_value, 5, 10)


@pytest.mark.parametrize(
    ("found", "verdict", "kept"),
    [
        (comparison(0.05, 0.02, 0.08, 0.01), "higher", "kept"),
        (comparison(0.05, 0.02, 0.08, 0.06), "undecided", "kept"),
        (comparison(0.05, -0.01, 0.08, 0.01), "undecided", "kept"),
        (comparison(-0.05, -0.08, -0.03, 0.01), "lower", "lost"),
        (comparison(-0.01, -0.03, 0.01, 0.4), "undecided", "undecided"),
        (comparison(-0.01, -0.015, -0.005, 0.01), "lower", "kept"),
        (comparison(-0.03, -0.05, -0.01, 0.01), "lower", "undecided"),
    ],
)
def test_verdicts(found: Comparison, verdict: str, kept: str) -> None:
    assert found.verdict == verdict
    assert found.kept(0.02) == kept


def test_pairs_are_counted() -> None:
    ours = {seed: 0.5 + (0.1 if seed < 7 else -0.1) for seed in SEEDS}
    found = compare(ours, dict.fromkeys(SEEDS, 0.5))
    assert (found.num_better, found.num_pairs) == (7, 10)
    assert found.interval.mean == pytest.approx(0.04)


def test_all_are_adjusted_together() -> None:
    ours, theirs = {seed: seed / 10 + 0.1 for seed in SEEDS}, {seed: seed / 20 for seed in SEEDS}
    alone = compare(ours, theirs).p_value
    assert compare_all({"a": (ours, theirs), "b": (ours, theirs)})["a"].p_value == pytest.approx(2 * alone)


def test_better_is_the_higher_mean() -> None:
    assert better({"a": {1: 0.2, 2: 0.4}, "b": {1: 0.5, 2: 0.2}}) == "b"
    assert better({"a": {1: 0.2}, "b": {1: 0.2}}) == "a"
