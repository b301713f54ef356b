"""The plan of a tuning: its arms, its seeds, and how it is reduced to a number of runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.base import known_fields
from segpaste.tuning.plan import FEWEST_PAIRS, PLACEMENTS, SEARCHED_KEYS, Plan, fit
from segpaste.tuning.runs import arm_config
from segpaste.tuning.search import Run, tune

BASE = BatchCopyPasteConfig.model_validate({"source": {"kind": "bank"}, "placement": {"scale_range": [0.8, 1.25]}})
PLANS = [
    Plan(),
    Plan(balances=("natural",), shares=(0.5,)),
    Plan(counts=(4,), placements=("uniform",), num_search=1, num_pairs=6),
    Plan(balances=("natural",), shares=(1.0,), counts=(2,), placements=("uniform",)),
]


@pytest.mark.parametrize("plan", PLANS)
def test_number_of_runs(plan: Plan) -> None:
    done: list[Run] = []

    def train(run: Run) -> dict[str, float]:
        done.append(run)
        return {"ball": 0.5}

    tune(plan, train, lambda run, name: [run.seed])
    assert len(done) == plan.num_runs
    assert len({run.name for run in done}) == plan.num_runs


def test_a_single_arm_needs_no_search() -> None:
    assert PLANS[-1].num_runs == 2 * PLANS[-1].num_pairs


def test_the_final_comparison_has_seeds_of_its_own() -> None:
    plan = Plan(num_search=100, num_pairs=100)
    assert not set(plan.search_seeds) & set(plan.final_seeds)


class TestConfigs:
    def test_of_every_arm(self) -> None:
        for arm in Plan().first_arms():
            config = arm_config(BASE, arm)
            assert config.placement.paste_prob == arm.share
            assert config.source.crops_per_target == arm.count
            assert config.placement.max_attempts == PLACEMENTS[arm.placement]["max_attempts"]
            assert config.placement.scale_range == (0.8, 1.25)

    def test_arms_set_the_searched_keys_and_no_others(self) -> None:
        arm = replace(Plan().first_arms()[0], share=0.3, count=7)
        before, after = (model.model_dump() for model in (BASE, arm_config(BASE, arm)))
        groups = {key.partition(".")[0] for key in SEARCHED_KEYS}
        changed = {
            f"{group}.{name}" for group in groups for name in before[group] if before[group][name] != after[group][name]
        }
        assert changed == set(SEARCHED_KEYS)
        assert set(SEARCHED_KEYS) <= {key for key, _ in known_fields(BatchCopyPasteConfig)}


class TestFit:
    @pytest.mark.parametrize("num", range(2 * FEWEST_PAIRS, 40))
    def test_no_more_runs_than_allowed(self, num: int) -> None:
        plan, cuts = fit(Plan(), num)
        assert plan.num_runs <= num
        assert bool(cuts) == (num < Plan().num_runs)
        assert plan.num_pairs >= FEWEST_PAIRS

    def test_cuts_are_said(self) -> None:
        plan, cuts = fit(Plan(), 30)
        assert (plan.placements, plan.counts) == (("least_covering",), (4,))
        assert cuts == ["only least_covering placement", "only 4 objects"]

    def test_pairs_are_cut_late(self) -> None:
        assert fit(Plan(), 22)[0].num_pairs == Plan().num_pairs

    def test_too_few(self) -> None:
        with pytest.raises(ValueError, match="at least 12 runs"):
            fit(Plan(), 11)
