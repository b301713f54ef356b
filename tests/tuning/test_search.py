"""The search and the final comparison, on scores that are known, and the interval against all resamples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_tuning_plan import BASE

from segpaste.tuning.plan import Arm, Plan
from segpaste.tuning.report import answer, config_text, document, lines, pastes
from segpaste.tuning.runs import arm_config
from segpaste.tuning.search import Found, Run, choose, tune
from segpaste.tuning.statistics import paired_bootstrap
from segpaste.tuning.trainer import Scores, TrainerError

BEST = Arm("tempered", 0.5, 8, "uniform")


def gain_of(arm: Arm) -> float:
    """A gain that is highest for `BEST`, and falls with every option that differs."""
    differing = sum(getattr(arm, name) != getattr(BEST, name) for name in Arm.__slots__)
    return 0.05 - 0.02 * differing


def scores_of(run: Run, effect: str = "helps") -> Scores:
    """Scores with noise that pairs share, and less that they do not."""
    shared = np.random.default_rng(run.seed).normal(0, 0.1)
    own = np.random.default_rng([run.seed, run.arm is None]).normal(0, 0.002)
    more = 0.0
    if run.arm is not None and effect != "nothing":
        more = gain_of(run.arm) - (0.2 if effect == "harms" else 0.0)
    return {"ball": 0.6 + shared + own + more, "cube": 0.3 + shared + own + 3 * more}


def own_images(run: Run, name: str) -> list[int]:
    """Splits without overlap, as the noise of `scores_of` is independent."""
    return [run.seed]


def found_with(effect: str) -> Found:
    return tune(Plan(), lambda run: scores_of(run, effect), own_images)


def test_finds_the_best_arm_stage_by_stage() -> None:
    best, gains = choose(Plan(num_search=3), scores_of)
    assert best == BEST
    assert len(gains) == Plan().num_arms
    for arm, gain in gains.items():
        assert gain == pytest.approx(2 * gain_of(arm), abs=0.01)


@pytest.mark.parametrize(
    ("effect", "text"),
    [("helps", "paste with"), ("harms", "do not paste"), ("nothing", "undecided: no gain shown")],
)
def test_answers(effect: str, text: str) -> None:
    found = found_with(effect)
    assert answer(found).startswith(text)
    assert pastes(found) == (effect == "helps")


def test_comparisons_are_those_of_the_pairs() -> None:
    found, plan = found_with("helps"), Plan()
    pairs = [(scores_of(Run("final", s, found.arm)), scores_of(Run("final", s, None))) for s in plan.final_seeds]
    for name in ("ball", "cube"):
        gains = [ours[name] - theirs[name] for ours, theirs in pairs]
        assert found.classes[name].interval.mean == pytest.approx(sum(gains) / len(gains))
        assert found.classes[name].num_better == sum(gain > 0 for gain in gains)
        assert found.with_paste[name] - found.without[name] == pytest.approx(found.classes[name].interval.mean)
    means = [sum(ours.values()) / 2 - sum(theirs.values()) / 2 for ours, theirs in pairs]
    assert found.mean.interval.mean == pytest.approx(sum(means) / len(means))
    assert found.mean_scores[1] - found.mean_scores[0] == pytest.approx(found.mean.interval.mean)


def test_interval_against_all_resamples() -> None:
    """The quantiles of all 6 ** 6 resamples, counted one by one."""
    values: NDArray[np.float64] = np.random.default_rng(8).normal(0.2, 1, 6)
    means = sorted(sum(values[i] for i in picked) / 6 for picked in itertools.product(range(6), repeat=6))
    ours = paired_bootstrap(values, num_resamples=200_000)
    assert ours.low == pytest.approx(means[round(0.025 * len(means))], abs=0.01)
    assert ours.high == pytest.approx(means[round(0.975 * len(means))], abs=0.01)


class TestClasses:
    def test_a_class_that_some_splits_do_not_show(self) -> None:
        def train(run: Run) -> Scores:
            scores = scores_of(run)
            return {name: score for name, score in scores.items() if name == "ball" or run.seed % 4}

        found = tune(Plan(), train, own_images)
        assert (found.classes["ball"].num_pairs, found.classes["cube"].num_pairs) == (8, 6)
        assert found.mean_scores[1] - found.mean_scores[0] == pytest.approx(found.mean.interval.mean)

    def test_a_single_pair_has_no_interval(self) -> None:
        def train(run: Run) -> Scores:
            return {name: score for name, score in scores_of(run).items() if name == "ball" or run.seed == 3}

        found = tune(Plan(), train, own_images)
        assert "too few images      1" in "\n".join(lines(found))
        assert document(found, Plan(), [], {})["classes"]["cube"]["interval"] is None

    @pytest.mark.parametrize("part", ["search", "final"])
    @pytest.mark.parametrize("with_paste", [True, False])
    def test_other_classes_with_and_without_paste(self, part: str, with_paste: bool) -> None:
        def train(run: Run) -> Scores:
            lacks = run.part == part and (run.arm is not None) == with_paste
            return {"ball": 0.5} if lacks else {"ball": 0.5, "cube": 0.25}

        where = "only in the run without paste" if with_paste else "only in this run"
        with pytest.raises(TrainerError, match=f"the same classes.* got 'cube' {where}"):
            tune(Plan(), train, own_images)


class TestClassesInTheSameImages:
    """The mean that decides has no class whose pairs (nearly) all score the same images."""

    @staticmethod
    def scored(run: Run, name: str) -> list[int]:
        return [100] if name == "nut" else [run.seed]

    @staticmethod
    def train(run: Run) -> Scores:
        return {**scores_of(run, "nothing"), "nut": 0.1 if run.arm is None else 0.9}

    def test_they_leave_the_mean(self) -> None:
        found, without = tune(Plan(), self.train, self.scored), found_with("nothing")
        assert found.left_out == ["nut"]
        assert found.arm == without.arm
        assert (found.mean, found.mean_scores) == (without.mean, without.mean_scores)
        assert found.classes["nut"].interval.mean == pytest.approx(0.8)
        assert not found.classes["nut"].is_known

    def test_the_report_names_them(self) -> None:
        found = tune(Plan(), self.train, self.scored)
        assert answer(found).endswith("; not in the mean, too few images: nut")
        (row,) = (line for line in lines(found) if line.startswith("nut"))
        assert row.endswith("too few images      8")
        assert document(found, Plan(), [], {})["not in the mean"] == ["nut"]
        assert not document(found_with("nothing"), Plan(), [], {})["not in the mean"]

    def test_without_other_classes_nothing_is_decided(self) -> None:
        """Two classes, each in a single image, that different pairs score."""

        def train(run: Run) -> Scores:
            return {"nut" if run.seed % 2 else "seed": 0.1 if run.arm is None else 0.9}

        found = tune(Plan(), train, lambda run, name: [len(name)])
        assert answer(found).startswith("undecided: no gain shown (gain +0.8000")
        assert found.mean_scores == pytest.approx((0.1, 0.9))
        assert not found.left_out
        assert document(found, Plan(), [], {})["mean"]["interval"] is None


class TestReport:
    def test_a_class_that_loses_is_named(self) -> None:
        def train(run: Run) -> Scores:
            scores = scores_of(run)
            return {**scores, "tower": 0.5 - (0 if run.arm is None else gain_of(run.arm))}

        found = tune(Plan(), train, own_images)
        assert pastes(found)
        assert answer(found).endswith("; worse for tower")
        (row,) = (line for line in lines(found) if line.startswith("tower"))
        assert row.endswith("  lower")

    def test_a_class_that_is_hardly_learned(self) -> None:
        found = tune(Plan(), lambda run: {**scores_of(run), "tower": 0.001}, own_images)
        assert [line for line in lines(found) if line.startswith("hardly learned")] == [
            "hardly learned without paste: tower; train longer before you rely on these gains"
        ]
        assert not any(line.startswith("hardly") for line in lines(found_with("helps")))

    def test_names_that_control_a_terminal(self) -> None:
        found = tune(Plan(), lambda run: {"\x1b[31mred": scores_of(run)["ball"]}, own_images)
        assert "\x1b" not in "\n".join(lines(found))

    @pytest.mark.parametrize("effect", ["helps", "harms", "nothing"])
    def test_config(self, effect: str) -> None:
        import yaml

        found = found_with(effect)
        text = config_text(found, arm_config(BASE, found.arm))
        values: dict[str, Any] = yaml.safe_load(text)
        assert values["placement"]["paste_prob"] == (found.arm.share if effect == "helps" else 0.0)
        assert (f"balance={found.arm.balance!r}" in text) == (effect == "helps")
        assert text.startswith(f"# segpaste tune: {answer(found)}\n")
