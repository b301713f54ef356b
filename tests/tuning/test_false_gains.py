"""How often a tuning answers "paste" when pasting does not help: simulated gains on real splits, without a trainer.

The effect of pasting on each image is drawn anew in each trial, so a trial is another dataset of the same kind. The
score of a class is the mean over its held-out images, and each run adds noise. The classes share the effect on an
image, or each has its own.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from segpaste.tuning.plan import Plan
from segpaste.tuning.report import pastes
from segpaste.tuning.search import Found, Run, tune
from segpaste.tuning.splits import showing, split_images

NUM_TRIALS = 1000
EFFECT_SD, RUN_SD = 0.1, 0.01
ONE_ARM = Plan(balances=("natural",), shares=(1.0,), counts=(2,), placements=("uniform",))
DATASETS = {
    "60 images": [frozenset({0})] * 60,
    "16 images": [frozenset({0})] * 16,
    "two images of a class in the pool": [frozenset({0, 1} if index % 15 == 0 else {0}) for index in range(60)],
    "one image of a class in the pool": [frozenset({0, 1} if index % 30 == 0 else {0}) for index in range(60)],
    "a rare class that varies more": [frozenset(range(6 if index % 30 == 0 else 5)) for index in range(60)],
}
OWN_EFFECT_SDS = {"a rare class that varies more": {**dict.fromkeys("01234", EFFECT_SD), "5": 3 * EFFECT_SD}}
"""Standard deviation for each class that has its own effect on each image."""


@cache
def scored_images(dataset: str, seed: int, pool_seed: int) -> dict[str, list[int]]:
    """Return the held-out images of each class in a split."""
    classes = DATASETS[dataset]
    held_out = split_images(classes, "final", seed, seed=pool_seed, held_out=ONE_ARM.held_out).held_out
    return {str(label): images for label, images in showing(classes, held_out).items()}


def simulated(dataset: str, trial: int, *, mean: float, run_sd: float, num_pairs: int) -> Found:
    """Return the result of a tuning in which pasting has a mean effect."""
    rng = np.random.default_rng(trial)
    num = len(DATASETS[dataset])
    shared = rng.normal(mean, EFFECT_SD, num)
    own = {name: rng.normal(mean, sd, num) for name, sd in OWN_EFFECT_SDS.get(dataset, {}).items()}

    def train(run: Run) -> dict[str, float]:
        score = 0.5 + rng.normal(0, run_sd / 2**0.5)
        images = scored_images(dataset, run.seed, trial % 10)
        effects = {name: float(own.get(name, shared)[of_class].mean()) for name, of_class in images.items()}
        return {name: score + (effect if run.arm else 0) for name, effect in effects.items()}

    plan = replace(ONE_ARM, num_pairs=num_pairs)
    return tune(plan, train, lambda run, name: scored_images(dataset, run.seed, trial % 10)[name])


@cache
def rates(dataset: str, *, mean: float = 0.0, run_sd: float = RUN_SD, num_pairs: int = 8) -> dict[str, float]:
    """Return how often the answer is to paste, the mean differs significantly, and any class does."""
    counts: Counter[str] = Counter()
    for trial in range(NUM_TRIALS):
        found = simulated(dataset, trial, mean=mean, run_sd=run_sd, num_pairs=num_pairs)
        counts["paste"] += pastes(found)
        counts["mean"] += found.mean.verdict != "undecided"
        counts["classes"] += any(comparison.verdict != "undecided" for comparison in found.classes.values())
    return {name: counts[name] / NUM_TRIALS for name in ("paste", "mean", "classes")}


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("run_sd", [0.0, RUN_SD])
def test_no_effect_is_rarely_called_one(dataset: str, run_sd: float) -> None:
    """At most 2.5 % "paste" and 5 % in all are allowed, and two standard errors of the simulation."""
    found = rates(dataset, run_sd=run_sd)
    assert found["paste"] <= 0.04
    assert max(found["mean"], found["classes"]) <= 0.07


def test_table_of_the_page() -> None:
    text = (Path(__file__).parents[2] / "docs" / "guide" / "tuning.md").read_text(encoding="utf-8")
    header, *rows = (
        re.findall(r"[\d.]+", line) for line in text.splitlines() if line.startswith(("| images |", "| 60", "| 16"))
    )
    assert (header, len(rows)) == (["0", "0.05", "0.1"], 2)
    for num_images, *percents in rows:
        found = [rates(f"{num_images} images", mean=float(mean))["paste"] for mean in header]
        assert [float(percent) / 100 for percent in percents] == pytest.approx(found, abs=0.006)


def test_many_pairs_of_few_images_do_not_help() -> None:
    """The images, not the pairs, limit what is known."""
    assert rates("16 images", run_sd=0.0, num_pairs=30)["mean"] <= 0.07


def test_a_clear_effect_is_found() -> None:
    found = rates("60 images", mean=EFFECT_SD)
    assert found["paste"] >= 0.9
