"""Error rates, costs and calibration beside scikit-learn's and SciPy's, and sums over pairs in loops."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve

from segpaste.encoder import evidence
from segpaste.encoder.calibration import Calibration, cllr, equal_error_rate, min_cllr, min_dcf
from segpaste.encoder.evidence import pairs_of

SCORES = st.lists(st.integers(-6, 6).map(lambda number: number / 2), min_size=1, max_size=25)
"""With ties."""


def drawn(seed: int, num_target: int = 60, num_nontarget: int = 400, gap: float = 1.5) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return 40 + 7 * rng.normal(gap, 1.3, num_target), 40 + 7 * rng.normal(0, 1, num_nontarget)


def both_of(target: Any, nontarget: Any) -> tuple[Any, Any]:
    return np.concatenate([target, nontarget]), np.repeat([1, 0], [len(target), len(nontarget)])


class TestEqualErrorRate:
    @given(SCORES, SCORES)
    def test_where_the_roc_meets_the_diagonal(self, target: list[float], nontarget: list[float]) -> None:
        scores, kinds = both_of(target, nontarget)
        accepted, found, _ = roc_curve(kinds, scores, drop_intermediate=False)
        # Along the ROC, piece by piece: the first place where misses are as rare as false alarms.
        length = np.arange(len(accepted))
        where = brentq(lambda x: np.interp(x, length, accepted) - (1 - np.interp(x, length, found)), 0, length[-1])
        assert equal_error_rate(target, nontarget) == pytest.approx(np.interp(where, length, accepted), abs=1e-9)

    def test_by_hand(self) -> None:
        assert equal_error_rate([1, 2], [-1, 0]) == 0
        assert equal_error_rate([0, 0], [0]) == 0.5
        assert equal_error_rate([-1], [1]) == 1
        assert equal_error_rate([0, 2, 3, 4], [-1, -1, -1, 1]) == 0.25


class TestDetectionCost:
    @given(SCORES, SCORES, st.sampled_from([0.01, 0.3, 0.9]), st.sampled_from([1.0, 10.0]))
    def test_threshold_by_threshold(
        self, target: list[float], nontarget: list[float], prior: float, miss_cost: float
    ) -> None:
        costs = []
        for threshold in [-math.inf, *target, *nontarget, math.inf]:
            for accepts in (lambda score, at=threshold: score >= at, lambda score, at=threshold: score > at):
                missed = sum(not accepts(score) for score in target) / len(target)
                alarms = sum(accepts(score) for score in nontarget) / len(nontarget)
                costs.append(miss_cost * prior * missed + 2 * (1 - prior) * alarms)
        constant = min(miss_cost * prior, 2 * (1 - prior))
        found = min_dcf(target, nontarget, target_prior=prior, miss_cost=miss_cost, false_alarm_cost=2)
        assert found == pytest.approx(min(costs) / constant)

    def test_by_hand(self) -> None:
        assert min_dcf([1, 2], [-1, 0]) == 0
        assert min_dcf([0, 0], [0]) == 1
        assert min_dcf([-1, 2, 3, 4], [0] * 200) == 0.25  # one miss
        assert min_dcf([0, 2, 3, 4], [1] + [-1] * 199) == pytest.approx(0.25)  # a miss is cheaper than an alarm
        assert min_dcf([0, 2, 3, 4], [1] + [-1] * 999) == pytest.approx(0.99 / 0.01 / 1000)

    @pytest.mark.parametrize("options", [{"target_prior": 0}, {"target_prior": 1}, {"miss_cost": 0}])
    def test_values_out_of_range(self, options: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="expected 0 < target_prior < 1 and costs above 0"):
            min_dcf([1], [0], **options)


class TestCost:
    @given(SCORES, SCORES)
    def test_pair_by_pair(self, target: list[float], nontarget: list[float]) -> None:
        of_target = sum(math.log2(1 + math.exp(-score)) for score in target) / len(target)
        of_nontarget = sum(math.log2(1 + math.exp(score)) for score in nontarget) / len(nontarget)
        assert cllr(target, nontarget) == pytest.approx((of_target + of_nontarget) / 2)

    def test_no_evidence_and_ratios_too_large_for_exp(self) -> None:
        assert cllr([0, 0], [0]) == pytest.approx(1)
        assert cllr([-5000.0], [-5000.0]) == pytest.approx(2500 / math.log(2))

    @given(SCORES, SCORES)
    def test_the_lowest_of_increasing_maps(self, target: list[float], nontarget: list[float]) -> None:
        scores, kinds = both_of(target, nontarget)
        weights = np.where(kinds == 1, 1 / len(target), 1 / len(nontarget))
        likely = IsotonicRegression(y_min=0, y_max=1).fit(scores, kinds, weights).predict(scores)
        with np.errstate(divide="ignore"):
            cost = np.where(kinds == 1, -np.log2(likely), -np.log2(1 - likely))
        expected = (cost[kinds == 1].mean() + cost[kinds == 0].mean()) / 2
        found = min_cllr(target, nontarget)
        assert found == pytest.approx(expected, abs=1e-9)
        assert found <= min(1, cllr(target, nontarget)) + 1e-9


class TestCalibration:
    @pytest.mark.parametrize(("seed", "gap"), [(0, 1.5), (1, 0.2), (2, 4.0), (3, 30.0)])
    def test_as_logistic_regression(self, seed: int, gap: float) -> None:
        """The fit equals scikit-learn's and SciPy's; a gap of 30 separates the kinds, the optimum being finite."""
        target, nontarget = drawn(seed, gap=gap)
        found = Calibration.fit(target, nontarget)
        scores, kinds = both_of(target, nontarget)
        own, flipped = [], []
        for num in (len(target), len(nontarget)):
            own += [0.5 / num * (1 - 1 / (num + 2))] * num
            flipped += [0.5 / num / (num + 2)] * num
        spread = scores.std()
        twice = np.concatenate([scores, scores])[:, None] / spread
        judge = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000)
        judge.fit(twice, np.concatenate([kinds, 1 - kinds]), sample_weight=1000 * np.array(own + flipped))

        def cost(at: Any) -> float:
            logits = (at[0] * scores / spread + at[1]) * np.where(kinds == 1, 1, -1)
            return float(np.array(own) @ np.logaddexp(0, -logits) + np.array(flipped) @ np.logaddexp(0, logits))

        lowest = minimize(cost, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9})
        mine = np.array([found.scale * spread, found.shift])
        assert cost(mine) <= lowest.fun + 1e-9
        assert mine == pytest.approx([judge.coef_[0, 0], judge.intercept_[0]], rel=1e-3, abs=1e-3)

    def test_ratios_do_not_depend_on_how_many_pairs_of_a_kind_there_are(self) -> None:
        target, nontarget = drawn(0, 3000, 3000)
        few, many = Calibration.fit(target, nontarget), Calibration.fit(target, np.tile(nontarget, 20))
        assert few.apply(nontarget[:9]) == pytest.approx(many.apply(nontarget[:9]), abs=0.01)

    def test_ratios_are_those_of_the_densities(self) -> None:
        """Scores that are log-likelihood ratios of two normal densities, in another unit."""
        rng = np.random.default_rng(0)
        target, nontarget = rng.normal(2, 2, 200_000), rng.normal(-2, 2, 20_000)
        found = Calibration.fit(5 * target - 3, 5 * nontarget - 3)
        assert (found.scale, found.shift) == (pytest.approx(1 / 5, rel=0.03), pytest.approx(3 / 5, abs=0.05))
        assert (found.num_target, found.num_nontarget) == (200_000, 20_000)

    @pytest.mark.parametrize(
        ("target", "nontarget"), [([3.0] * 5, [3.0]), ([1.0, 2.0], [5.0, 6.0]), ([0.1] * 9, [0.1])]
    )
    def test_scores_that_say_nothing(self, target: list[float], nontarget: list[float]) -> None:
        found = Calibration.fit(target, nontarget)
        assert (found.scale, found.shift) == (0, 0)
        assert cllr(found.apply(target), found.apply(nontarget)) == 1

    def test_on_other_pairs(self) -> None:
        found = Calibration.fit(*drawn(0, 2000, 9000))
        ratios = [found.apply(scores) for scores in drawn(1, 2000, 9000)]
        assert min_cllr(*ratios) < cllr(*ratios) < min_cllr(*ratios) + 0.03


@pytest.mark.parametrize("measure", [equal_error_rate, cllr, min_cllr, Calibration.fit])
@pytest.mark.parametrize(
    ("target", "got"), [([], r"got \[0\]$"), ([[1.0]], r"got \[1, 1\]"), ([math.nan], r"got \[1\] with NaN")]
)
def test_refused(measure: Any, target: Any, got: str) -> None:
    for given_scores in ((target, [0.0]), ([0.0], target)):
        with pytest.raises(ValueError, match=rf"expected finite scores \[n\] of at least one target .*{got}"):
            measure(*given_scores)


class TestPairs:
    LABELS = np.array([3, 1, 3, 0, 1, 3, 2])

    @pytest.mark.parametrize("is_large", [False, True])
    def test_every_one_once(self, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(evidence, "_MAX_ALL", -1 if is_large else 1 << 22)
        for of_one, found in zip((True, False), pairs_of(self.LABELS, 1000), strict=True):
            wanted = {(i, j) for i, j in combinations(range(7), 2) if (self.LABELS[i] == self.LABELS[j]) == of_one}
            assert sorted(tuple(sorted(pair)) for pair in found.T.tolist()) == sorted(wanted)

    @pytest.mark.parametrize("is_large", [False, True])
    def test_a_part(self, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """All pairs are drawn as often, but for chance; a seed draws the same ones."""
        monkeypatch.setattr(evidence, "_MAX_ALL", -1 if is_large else 1 << 22)
        counts = np.zeros((7, 7))
        for seed in range(1500):
            target, nontarget = pairs_of(self.LABELS, 2, seed)
            assert max(target.shape[1], nontarget.shape[1]) <= 2
            for one, other in nontarget.T.tolist():
                counts[min(one, other), max(one, other)] += 1
        drawn_often = counts[counts > 0]
        assert len(drawn_often) == 17
        assert drawn_often.max() < 1.4 * drawn_often.min()
        assert (pairs_of(self.LABELS, 2, 5).nontarget == pairs_of(self.LABELS, 2, 5).nontarget).all()

    @pytest.mark.parametrize("is_large", [False, True])
    def test_a_kind_that_there_is_not(self, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(evidence, "_MAX_ALL", -1 if is_large else 1 << 22)
        assert [found.shape for found in pairs_of(np.zeros(4, np.int64), 99)] == [(2, 6), (2, 0)]
        assert [found.shape for found in pairs_of(np.arange(4), 99)] == [(2, 0), (2, 6)]
