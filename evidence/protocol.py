"""Protocol of a comparison: runs, seeds, and the choice of settings; read from a file of `evidence/protocols`.

The JSON file holds all numbers, the Markdown file beside it explains them. Both are committed before the first
run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .runs import Run, RunFolder, Settings, run_missing

FOLDER = Path(__file__).parent / "protocols"

Score = Callable[[Run], float]


class Choice(NamedTuple):
    """Settings that tuning chose for an arm.

    Attributes:
        lr: learning rate.
        strength: the arm's own setting; None for an arm without one.
        is_edge: True if the learning rate is the lowest or the highest that was tried.
        cpu_seconds: CPU seconds of a step, the median of the arm's trials.
    """

    lr: float
    strength: float | None
    is_edge: bool
    cpu_seconds: float


@dataclass(frozen=True)
class Protocol:
    """All numbers of a comparison.

    Attributes:
        name: of the files.
        settings: what is common to all runs.
        of_arm: what only some arms have, by arm.
        strengths: values of an arm's own setting that tuning tries, by arm; the first is that of the learning rates.
        learning_rates: what tuning tries for every arm.
        tuning_seeds: seeds of the trials.
        seeds: seeds of the comparison, none of which tuning has seen.
        longer: arms that are trained once more for as many CPU seconds as ``ours`` needs.
        ours: the arm that is compared with the others.
        rivals: the arms of which the better one is compared with ours.
        groups: names of measures that are means over classes, and those classes.
    """

    name: str
    settings: Mapping[str, Any]
    of_arm: Mapping[str, Mapping[str, Any]]
    strengths: Mapping[str, list[float]]
    learning_rates: list[float]
    tuning_seeds: list[int]
    seeds: list[int]
    longer: list[str]
    ours: str
    rivals: list[str]
    groups: Mapping[str, list[int]] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str) -> Protocol:
        """Read a protocol by the name of its file."""
        return cls(name=name, **json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))

    def run_settings(self, arm: str, seed: int, lr: float, strength: float | None) -> dict[str, Any]:
        """Return the settings of one run."""
        own = {"program": self.name, "arm": arm, "seed": seed, "lr": lr, "strength": strength}
        return {**self.settings, **self.of_arm.get(arm, {}), **own}

    def trials(self, arm: str, chosen_lr: float | None = None) -> list[dict[str, Any]]:
        """Return the trials of an arm: all learning rates, or with one chosen the other strengths."""
        strengths: list[float | None] = [*self.strengths[arm]] or [None]
        if chosen_lr is None:
            pairs = [(lr, strengths[0]) for lr in self.learning_rates]
        else:
            pairs = [(chosen_lr, strength) for strength in strengths[1:]]
        return [self.run_settings(arm, seed, *pair) for pair in pairs for seed in self.tuning_seeds]

    def compared(self, choices: Mapping[str, Choice]) -> list[dict[str, Any]]:
        """Return the runs of equal steps."""
        return [self._chosen(arm, seed, choices) for seed in self.seeds for arm in self.strengths]

    def longer_runs(self, choices: Mapping[str, Choice]) -> list[dict[str, Any]]:
        """Return the runs of equal CPU seconds, of the arms that need fewer for a step than ours."""
        return [
            {**self._chosen(arm, seed, choices), "steps": self.longer_steps(arm, choices)}
            for seed in self.seeds
            for arm in self.longer
            if self.longer_steps(arm, choices) > self.settings["steps"]
        ]

    def longer_steps(self, arm: str, choices: Mapping[str, Choice]) -> int:
        """Return the steps that an arm takes in the CPU seconds of ours; never fewer than ours takes."""
        ratio = choices[self.ours].cpu_seconds / choices[arm].cpu_seconds
        return int(max(self.settings["steps"], round(self.settings["steps"] * ratio)))

    def _chosen(self, arm: str, seed: int, choices: Mapping[str, Choice]) -> dict[str, Any]:
        return self.run_settings(arm, seed, choices[arm].lr, choices[arm].strength)


def tune(protocol: Protocol, folder: RunFolder, score: Score, function: str, processes: int) -> dict[str, Choice]:
    """Run the trials that are not done, and return the choice of each arm.

    The learning rate is chosen first, then the arm's own setting: the highest mean score over the tuning seeds.

    Args:
        protocol: what is tried.
        folder: where runs are.
        score: the validation score of a run.
        function: what runs a trial, see `run_missing`.
        processes: how many at once.
    """
    run_missing(folder, [trial for arm in protocol.strengths for trial in protocol.trials(arm)], function, processes)
    rates = {arm: _best(folder, protocol.trials(arm), score)["lr"] for arm in protocol.strengths}
    second = [trial for arm, lr in rates.items() for trial in protocol.trials(arm, lr)]
    run_missing(folder, second, function, processes)
    return choices(protocol, folder, score)


def choices(protocol: Protocol, folder: RunFolder, score: Score) -> dict[str, Choice]:
    """Return the choice of each arm from trials that are all done.

    Raises:
        LookupError: a trial is missing.
    """
    found = {}
    for arm in protocol.strengths:
        first = protocol.trials(arm)
        lr = _best(folder, first, score)["lr"]
        tried = first + protocol.trials(arm, lr)
        best = _best(folder, tried, score)
        seconds = [_done(folder, trial).found["cpu_seconds"] / trial["steps"] for trial in tried]
        is_edge = lr in (min(protocol.learning_rates), max(protocol.learning_rates))
        found[arm] = Choice(best["lr"], best["strength"], is_edge, median(seconds))
    return found


def _best(folder: RunFolder, trials: list[dict[str, Any]], score: Score) -> Settings:
    """Return the settings, of the first seed, whose mean score over the seeds is the highest."""
    scores: dict[tuple[float, float | None], list[float]] = {}
    for trial in trials:
        scores.setdefault((trial["lr"], trial["strength"]), []).append(score(_done(folder, trial)))
    best = max(scores, key=lambda pair: sum(scores[pair]) / len(scores[pair]))
    return next(trial for trial in trials if (trial["lr"], trial["strength"]) == best)


def _done(folder: RunFolder, settings: Settings) -> Run:
    run = folder.find(settings)
    if run is None:
        raise LookupError(f"expected a run of {dict(settings)}, found none: run the program without `page` first")
    return run
