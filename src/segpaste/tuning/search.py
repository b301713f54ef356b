"""The search for the best arm, and its comparison with training without paste.

The images that select an arm must not judge it, so search and comparison have their own seeds and held-out images.
Not for arms that were chosen in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from segpaste.tuning.comparing import Comparison, adjusted, compare_splits
from segpaste.tuning.plan import Arm, Plan
from segpaste.tuning.resampled import image_weights
from segpaste.tuning.splits import Part
from segpaste.tuning.trainer import Scores, TrainerError


class Run(NamedTuple):
    """One run.

    Attributes:
        part: search or final comparison.
        seed: seed of the run and of its split.
        arm: how it pastes; None for no paste.
    """

    part: Part
    seed: int
    arm: Arm | None

    @property
    def name(self) -> str:
        """Name for files."""
        return f"{self.part}-{self.seed}-{self.arm.name if self.arm else 'none'}"

    def __str__(self) -> str:
        return f"{self.part} seed {self.seed}: {self.arm or 'no paste'}"


Train = Callable[[Run], Scores]
"""Returns the scores of a run."""
Scored = Callable[[Run, str], Sequence[int]]
"""Returns the held-out images that a class is scored on in a run."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a tuning.

    Attributes:
        arm: the chosen arm.
        gains: mean gain over no paste of each arm of the search; empty without a search.
        mean: comparison of the means over the classes, as all comparisons for other images like those of the dataset.
        mean_scores: those means without and with paste, averaged over the seeds.
        left_out: classes that are not in these means, because their splits say too little about other images. If no
            class remained, none is left out, and the comparison has no result.
        classes: comparison of each class, p values adjusted over the classes.
        without, with_paste: mean score of each class over the seeds that measured it.
    """

    arm: Arm
    gains: dict[Arm, float]
    mean: Comparison
    mean_scores: tuple[float, float]
    left_out: list[str]
    classes: dict[str, Comparison]
    without: dict[str, float]
    with_paste: dict[str, float]


def tune(plan: Plan, train: Train, scored: Scored) -> Found:
    """Search for the best arm, and compare it with no paste.

    Args:
        plan: arms and seeds.
        train: does a run and returns its scores, or only returns them if the run is done.
        scored: returns the images that a class is scored on, from which follows how much the splits overlap.

    Raises:
        TrainerError: a run fails, or scores other classes than another run of its split.
    """
    arm, gains = choose(plan, train)
    none, ours = {}, {}
    for seed in plan.final_seeds:
        run = Run("final", seed, arm)
        none[seed], ours[seed] = train(run._replace(arm=None)), train(run)
        expect_same_classes(run, ours[seed], none[seed])
    names = list(dict.fromkeys(name for scores in none.values() for name in scores))
    images = {seed: {name: scored(Run("final", seed, arm), name) for name in scores} for seed, scores in none.items()}

    def compared(names: Sequence[str]) -> tuple[dict[int, float], dict[int, float], Comparison]:
        """Return the means over some classes without and with paste, and their comparison."""
        theirs, own = _means(names, none), _means(names, ours)
        weights = image_weights([[images[seed][name] for name in names if name in images[seed]] for seed in theirs])
        return theirs, own, compare_splits(own, theirs, weights)

    classes = {name: compared([name]) for name in names}
    known = [name for name in names if classes[name][2].is_known]
    theirs, own, mean = compared(known or names)
    return Found(
        arm,
        gains,
        mean if known else mean.unknown(),
        (_mean(theirs), _mean(own)),
        [name for name in names if known and name not in known],
        adjusted({name: comparison for name, (_, _, comparison) in classes.items()}),
        {name: _mean(theirs) for name, (theirs, _, _) in classes.items()},
        {name: _mean(own) for name, (_, own, _) in classes.items()},
    )


def choose(plan: Plan, train: Train) -> tuple[Arm, dict[Arm, float]]:
    """Return the arm with the highest mean gain in the search, and the gains of all arms."""
    best = plan.first_arms()[0]
    if plan.num_arms == 1:
        return best, {}
    none = {seed: train(Run("search", seed, None)) for seed in plan.search_seeds}
    gains: dict[Arm, float] = {}
    for _, arms in plan.stages():
        for arm in arms(best):
            gains[arm] = _gain(arm, none, train)
        best = max(gains, key=lambda arm: gains[arm])
    return best, gains


def _gain(arm: Arm, none: dict[int, Scores], train: Train) -> float:
    total = 0.0
    for seed, theirs in none.items():
        run = Run("search", seed, arm)
        scores = train(run)
        expect_same_classes(run, scores, theirs)
        total += mean_score(scores) - mean_score(theirs)
    return total / len(none)


def mean_score(scores: Scores) -> float:
    """Return the mean over the classes."""
    return sum(scores.values()) / len(scores)


def expect_same_classes(run: Run, ours: Scores, theirs: Scores) -> None:
    """Reject scores of other classes than those of the run without paste on the same split.

    Raises:
        TrainerError: they differ.
    """
    if differing := sorted(ours.keys() ^ theirs.keys()):
        which = "only in this run" if differing[0] in ours else "only in the run without paste"
        raise TrainerError(
            f"{run}: expected scores of the same classes from all runs of a split, got {differing[0]!r} {which}; write "
            "a number for it in every run, or null in every run"
        )


def _means(names: Sequence[str], runs: dict[int, Scores]) -> dict[int, float]:
    """Return the mean over some classes of each run that measured any of them."""
    found = {seed: {name: scores[name] for name in names if name in scores} for seed, scores in runs.items()}
    return {seed: mean_score(scores) for seed, scores in found.items() if scores}


def _mean(values: dict[int, float]) -> float:
    return sum(values.values()) / len(values)
