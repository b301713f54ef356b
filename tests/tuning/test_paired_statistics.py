"""The statistics of paired runs against values computed by hand, and against SciPy where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from segpaste.tuning.statistics import differences, holm, paired_bootstrap, wilcoxon


class TestWilcoxon:
    @pytest.mark.parametrize(
        ("values", "p_value"),
        [
            ([1, 2, 3, 4, 5], 2 / 32),  # one of 32 signs gives as few negative ranks, and one as few positive
            ([-1, 2, 3, 4, 5], 4 / 32),  # sums 0 and 1
            ([-1, -2, 3, 4, 5], 10 / 32),  # sums 0, 1, 2 and twice 3
            ([1, 1], 2 / 4),
            ([-1, 1], 1.0),
            ([0, 0, 3], 1.0),
            ([0, 0], 1.0),
        ],
    )
    def test_by_hand(self, values: list[float], p_value: float) -> None:
        assert wilcoxon(values) == pytest.approx(p_value)

    def test_against_all_signs_with_equal_sizes(self) -> None:
        values = np.array([0.5, -0.5, 0.5, 1.0, -2.0, 2.0, 3.0])
        ranks = np.array([2, 2, 2, 4, 5.5, 5.5, 7])
        signs = np.array(list(itertools.product([0, 1], repeat=7)))
        sums = signs @ ranks
        above = ranks[values > 0].sum()
        smaller = min(above, ranks.sum() - above)
        assert wilcoxon(values) == pytest.approx(min(1, 2 * (sums <= smaller).mean()))

    @pytest.mark.parametrize("num", [5, 10, 17])
    def test_against_scipy(self, num: int) -> None:
        stats = pytest.importorskip("scipy.stats")
        values = np.random.default_rng(num).normal(0.3, 1, num)
        assert wilcoxon(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)

    def test_no_differences(self) -> None:
        with pytest.raises(ValueError, match="at least one difference"):
            wilcoxon([])


class TestPairedBootstrap:
    def test_equal_differences_have_no_width(self) -> None:
        assert paired_bootstrap([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)

    def test_two_differences(self) -> None:
        # A quarter of the resamples have the mean 0 and a quarter the mean 1, so both are beyond 2.5 %.
        assert paired_bootstrap([0.0, 1.0]) == (0.5, 0.0, 1.0)

    def test_against_scipy(self) -> None:
        stats = pytest.importorskip("scipy.stats")
        values = np.random.default_rng(3).normal(0.3, 1, 10)
        theirs = stats.bootstrap(
            (values,), np.mean, method="percentile", n_resamples=50_000, rng=np.random.default_rng(1)
        ).confidence_interval
        ours = paired_bootstrap(values, num_resamples=50_000)
        assert ours.mean == pytest.approx(values.mean())
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)

    def test_same_bits_each_time(self) -> None:
        values = [0.1, 0.4, -0.2, 0.3]
        assert paired_bootstrap(values) == paired_bootstrap(values)


class TestHolm:
    def test_by_hand(self) -> None:
        adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
        assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})

    def test_at_most_one(self) -> None:
        assert holm({"a": 0.7, "b": 0.6}) == {"a": 1.0, "b": 1.0}

    def test_order_of_the_names_stays(self) -> None:
        assert list(holm({"z": 0.5, "a": 0.1})) == ["z", "a"]


class TestDifferences:
    def test_pairs_are_by_seed(self) -> None:
        assert differences({2: 0.5, 1: 0.25}, {1: 0.25, 2: 0.0}).tolist() == [0.0, 0.5]

    def test_other_seeds(self) -> None:
        with pytest.raises(ValueError, match="same seeds"):
            differences({1: 0.5}, {2: 0.5})
