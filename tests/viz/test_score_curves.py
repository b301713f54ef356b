"""DET and Tippett curves beside scikit-learn's and SciPy's, and the pixels where they must pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import norm
from sklearn.metrics import roc_curve

from segpaste.encoder import det_curve
from segpaste.viz.score_curves import (
    BOTTOM,
    COLORS,
    LEFT,
    RIGHT,
    TOP,
    Rates,
    draw_det,
    draw_tippett,
    rate_axis,
    ratio_axis,
    shares_at_least,
)

SCORES = st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=20)


def has_color(picture: Image.Image, place: tuple[float, float], color: tuple[int, int, int], radius: int = 2) -> bool:
    """Whether a pixel near a place has a colour, but for smoothing."""
    x, y = round(place[0]), round(place[1])
    near = np.asarray(picture)[y - radius : y + radius + 1, x - radius : x + radius + 1].astype(int)
    return bool((abs(near - color).max(-1) < 40).any())


class TestDet:
    @given(SCORES, SCORES)
    def test_rates_of_scikit_learn(self, target: list[float], nontarget: list[float]) -> None:
        misses, false_alarms = det_curve(target, nontarget)
        kinds = np.repeat([1, 0], [len(target), len(nontarget)])
        accepted, found, _ = roc_curve(kinds, target + nontarget, drop_intermediate=False)
        assert false_alarms[::-1] == pytest.approx(accepted)
        assert misses[::-1] == pytest.approx(1 - found)

    def test_the_scale_is_that_of_the_normal_quantile(self) -> None:
        axis = rate_axis("x")
        rates = np.array([0.0005, 0.001, 0.02, 0.5, 0.8, 0.9])
        ends = norm.ppf([0.0005, 0.9])
        assert axis.positions(rates) == pytest.approx((norm.ppf(rates) - ends[0]) / (ends[1] - ends[0]))
        assert axis.positions([0.0, 1.0]).tolist() == [0, 1]

    def test_normal_scores_give_a_straight_line(self) -> None:
        """Its points are where the quantiles of the distributions are, and the colours are those of the curves."""
        rng = np.random.default_rng(0)
        target, nontarget = rng.normal(2, 1, 200_000), rng.normal(0, 1, 200_000)
        weak = rng.normal(1, 1, 200_000)
        curves = {"good": Rates(*det_curve(target, nontarget)), "weak": Rates(*det_curve(weak, nontarget))}
        picture = draw_det(curves)
        ends = norm.ppf([0.0005, 0.9])
        for threshold in (0.0, 0.5, 1.0, 1.5, 2.0):
            for mean, color in ((2, COLORS[0]), (1, COLORS[1])):
                alarm, miss = norm.sf(threshold), norm.cdf(threshold - mean)
                along, up = ((norm.ppf(rate) - ends[0]) / (ends[1] - ends[0]) for rate in (alarm, miss))
                assert has_color(picture, (LEFT + (RIGHT - LEFT) * along, BOTTOM - (BOTTOM - TOP) * up), color)
                assert not has_color(picture, (LEFT + (RIGHT - LEFT) * along + 12, BOTTOM - (BOTTOM - TOP) * up), color)

    def test_separated_scores_are_on_the_frame(self) -> None:
        picture = draw_det({"x": Rates(*det_curve([3.0, 4.0], [1.0, 2.0]))})
        for place in ((LEFT, BOTTOM), (LEFT, (TOP + BOTTOM) / 2), ((LEFT + RIGHT) / 2, BOTTOM)):
            assert has_color(picture, place, COLORS[0])
        inside = np.asarray(picture)[TOP + 8 : BOTTOM - 8, LEFT + 8 : RIGHT - 8].astype(int)
        assert not (abs(inside - COLORS[0]).max(-1) < 40).any()


class TestTippett:
    @given(SCORES, st.floats(-8, 8))
    def test_value_by_value(self, values: list[float], x: float) -> None:
        """The steps, read off at any place, are the share of values that are at least as large."""
        ordered = np.sort(values)
        xs, shares = shares_at_least(ordered, ratio_axis(ordered))
        assert (np.diff(xs) >= 0).all()
        assert (np.diff(shares) <= 0).all()
        inside = min(max(x, xs[0]), xs[-1])
        first = int(np.searchsorted(xs, inside, "left"))  # the top of a step, where values are equal to x
        assert shares[first] == pytest.approx(sum(value >= inside for value in values) / len(values))

    @pytest.mark.parametrize(
        ("ratios", "ends", "ticks"),
        [
            ([0.1, 0.2], (-1, 1), ["-1", "0", "1"]),
            ([-2.5, 3.0], (-3, 3), ["-3", "-2", "-1", "0", "1", "2", "3"]),
            ([-30.0, 12.0], (-30, 12), ["-30", "-25", "-20", "-15", "-10", "-5", "0", "5", "10"]),
        ],
    )
    def test_the_axis_has_room(self, ratios: list[float], ends: tuple[int, int], ticks: list[str]) -> None:
        axis = ratio_axis(np.array(ratios))
        assert (axis.low, axis.high) == ends
        assert list(axis.ticks.values()) == ticks

    def test_steps_at_their_ratios(self) -> None:
        """Two ratios of targets, 10 and 1000, and one of nontargets, 1 / 100: the axis goes from -2 to 3."""
        picture = draw_tippett({"target": np.log([1000.0, 10.0]), "nontarget": np.log([0.01])})

        def place(power: float, share: float) -> tuple[float, float]:
            return LEFT + (RIGHT - LEFT) * (power + 2) / 5, BOTTOM - (BOTTOM - TOP) * share

        for power, share in ((-1, 1), (0.5, 1), (1, 0.75), (2, 0.5), (2.5, 0.5), (3, 0.25)):
            assert has_color(picture, place(power, share), COLORS[0])
        for power, share in ((0.5, 0.5), (2, 0.75), (2, 0.02)):
            assert not has_color(picture, place(power, share), COLORS[0])
        for power, share in ((-2, 0.5), (-1, 0), (2.5, 0)):
            assert has_color(picture, place(power, share), COLORS[1])
