"""The corrected resampled t test against values computed by hand, tables, and SciPy where it is installed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from segpaste.tuning.resampled import image_weights, resampled_t, t_quantile, t_within

TABLE = {  # two-sided quantiles of Student's t at 0.95 and 0.99
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    5: (2.571, 4.032),
    7: (2.365, 3.499),
    30: (2.042, 2.750),
    120: (1.980, 2.617),
}


class TestStudent:
    @pytest.mark.parametrize("freedom", TABLE)
    def test_against_the_table(self, freedom: int) -> None:
        found = [t_quantile(level, freedom) for level in (0.95, 0.99)]
        assert found == pytest.approx(TABLE[freedom], abs=0.0005)
        assert [t_within(size, freedom) for size in found] == pytest.approx([0.95, 0.99])

    @pytest.mark.parametrize("freedom", [1, 2, 3, 4, 6, 7, 29, 99])
    def test_against_scipy(self, freedom: int) -> None:
        stats = pytest.importorskip("scipy.stats")
        for size in (0.0, 0.01, 0.7, 2.5, 30.0):
            assert t_within(size, freedom) == pytest.approx(1 - 2 * stats.t.sf(size, freedom), abs=1e-12)
        for level in (0.1, 0.5, 0.95, 0.999):
            assert t_quantile(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom))

    @pytest.mark.parametrize("freedom", [1, 2, 7])
    def test_ends(self, freedom: int) -> None:
        assert (t_within(0, freedom), t_within(math.inf, freedom)) == (0, 1)


class TestImageWeights:
    def test_one_class(self) -> None:
        assert image_weights([[[0, 2]], [[1]]]).tolist() == [[0.5, 0, 0.5], [0, 1, 0]]

    def test_a_mean_over_classes(self) -> None:
        """Image 0 shows both classes, and is the only one of the second."""
        assert image_weights([[[0, 1], [0]]]).tolist() == [[0.75, 0.25]]


class TestResampledT:
    def test_overlapping_splits_by_hand(self) -> None:
        """Each pair shares one of two images: rho = 1 / 2, so the factor is 1 / 3 + 1; two degrees of freedom."""
        interval, p_value = resampled_t([0, 1, 2], image_weights([[[0, 1]], [[1, 2]], [[0, 2]]]))
        half = 4.302653 * math.sqrt(4 / 3)
        assert interval == pytest.approx((1, 1 - half, 1 + half))
        size = 1 / math.sqrt(4 / 3)
        assert p_value == pytest.approx(1 - size / math.sqrt(2 + size**2))

    def test_splits_without_overlap_have_an_ordinary_t_test(self) -> None:
        stats = pytest.importorskip("scipy.stats")
        values = np.random.default_rng(2).normal(0.3, 1, 9)
        interval, p_value = resampled_t(values, np.eye(9))
        theirs = stats.ttest_1samp(values, 0)
        assert (interval.low, interval.high) == pytest.approx([*theirs.confidence_interval()])
        assert p_value == pytest.approx(theirs.pvalue)

    @pytest.mark.parametrize(("held_out", "pool"), [(15, 30), (5, 30), (24, 30)])
    def test_random_splits_of_a_pool(self, held_out: int, pool: int) -> None:
        """With many splits of m out of P images, the factor is near m / (P - m), and P - 1 limit the degrees."""
        rng = np.random.default_rng(1)
        splits = [[rng.permutation(pool)[:held_out].tolist()] for _ in range(2000)]
        values = rng.normal(0, 1, len(splits))
        interval, _ = resampled_t(values, image_weights(splits))
        factor = (interval.high - interval.mean) ** 2 / values.var(ddof=1)
        assert factor == pytest.approx(t_quantile(0.95, pool - 1) ** 2 * held_out / (pool - held_out), rel=0.05)

    @pytest.mark.parametrize("values", [[0.1], [0.1, 0.2, 0.3]])
    def test_the_same_images_in_all_splits_show_nothing(self, values: list[float]) -> None:
        interval, p_value = resampled_t(values, image_weights([[[0, 2]]] * len(values)))
        assert interval == (pytest.approx(np.mean(values)), -math.inf, math.inf)
        assert p_value == 1

    @pytest.mark.parametrize(("num_other", "is_known"), [(1, False), (2, True)])
    def test_nearly_the_same_images_show_too_little(self, num_other: int, is_known: bool) -> None:
        """Of 30 splits one or two score another image: rho is 0.93 or 0.87, and the limit 0.9."""
        splits = [[[0]]] * (30 - num_other) + [[[1]]] * num_other
        interval, p_value = resampled_t(np.linspace(0.1, 0.2, 30), image_weights(splits))
        assert (math.isfinite(interval.low), p_value < 1) == (is_known, is_known)

    def test_equal_differences_have_no_width(self) -> None:
        assert resampled_t([0.25, 0.25, 0.25], np.eye(3)) == ((0.25, 0.25, 0.25), 0)
        assert resampled_t([0, 0, 0], np.eye(3)) == ((0, 0, 0), 1)

    def test_weights_of_other_splits(self) -> None:
        with pytest.raises(ValueError, match="a row of weights for each of 3 differences, got 2"):
            resampled_t([1, 2, 3], np.eye(2))
