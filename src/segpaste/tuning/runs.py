"""Runs of a tuning in its folder: each result is a file, and a run with a result is not repeated.

DIR/splits/PART-SEED/     train.json and val.json, or train.txt and val.txt, as the trainer's command asks for
DIR/runs/NAME/            config.yaml, and log.txt, the output of the trainer
DIR/runs/NAME.json        result of a run: the command, its scores and seconds
DIR/entries.jsonl         entries of all images, from which the COCO files are made
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.base import merged
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.conversion.subsets import EntryFile
from segpaste.tuning.plan import Arm, Plan
from segpaste.tuning.search import Run, mean_score
from segpaste.tuning.splits import Classes, Part, Split, showing, split_images
from segpaste.tuning.trainer import Scores, Trainer, TrainerError
from segpaste.workspace import write_whole

RESULTS = ("runs/*.json",)
OWNED = ("runs", "splits", "entries.jsonl", "tuned.yaml", "tune.json")
"""Files and folders of a tuning."""

_NONE = "none"


def arm_config(base: BatchCopyPasteConfig, arm: Arm) -> BatchCopyPasteConfig:
    """Return the paste config of an arm."""
    return BatchCopyPasteConfig.model_validate(merged(base.model_dump(mode="json"), arm.settings()))


class Runs:
    """Does the runs of a plan, or reads those that are done.

    Args:
        folder: folder of the tuning.
        photos: the dataset.
        plan: the plan.
        trainer: trains and scores each run.
        base: paste config that all arms share.
        say: prints a line.
    """

    def __init__(
        self,
        folder: Path,
        photos: AnnotatedDataset,
        plan: Plan,
        trainer: Trainer,
        base: BatchCopyPasteConfig,
        say: Callable[[str], object] = print,
    ) -> None:
        self.folder, self.photos, self.plan, self.trainer = folder.absolute(), photos, plan, trainer
        self.base, self.say = base, say
        self._classes = image_classes(photos)
        self._splits: dict[tuple[Part, int], tuple[Split, dict[str, list[int]]]] = {}
        self._done: dict[str, dict[str, Any]] = {}
        self._seconds: list[float] = []

    @property
    def done(self) -> Sequence[Mapping[str, Any]]:
        """Results of the runs so far, in their order."""
        return [*self._done.values()]

    def train(self, run: Run) -> Scores:
        """Return the scores of a run; do it if it is not done.

        Raises:
            TrainerError: the trainer failed.
        """
        path = self.folder / "runs" / f"{run.name}.json"
        if not path.exists():
            write_whole(path, json.dumps(self._trained(run), indent=1).encode())
            self._done[run.name] = json.loads(path.read_bytes())
            self._report(run)
        found = self._done.setdefault(run.name, json.loads(path.read_bytes()))
        scores: Scores = found["scores"]
        return scores

    def scored(self, run: Run, name: str) -> Sequence[int]:
        """Return the held-out images that a class is scored on: those that show it, or all if none does.

        None does if the trainer scores something else than classes of the dataset.
        """
        split, shown = self._split(run)
        return shown.get(name, split.held_out)

    def _split(self, run: Run) -> tuple[Split, dict[str, list[int]]]:
        """Return the split of a run, and the held-out images that show each class."""
        key = run.part, run.seed
        if key not in self._splits:
            split = split_images(self._classes, *key, seed=self.plan.seed, held_out=self.plan.held_out)
            names, shown = self.photos.class_names, showing(self._classes, split.held_out)
            self._splits[key] = split, {names[label]: images for label, images in shown.items()}
        return self._splits[key]

    def _trained(self, run: Run) -> dict[str, Any]:
        folder = self.folder / "runs" / run.name
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("scores-*.json"):
            path.unlink()
        values = {**self._files(run), "seed": run.seed, "out": folder / f"scores-{os.getpid()}.json"}
        values |= {"config": _NONE, "balance": _NONE}
        if run.arm is not None:
            values |= {"config": folder / "config.yaml", "balance": run.arm.balance}
            arm_config(self.base, run.arm).save(folder / "config.yaml")
        start = time.perf_counter()
        try:
            scores = self.trainer.train(values, folder / "log.txt")
        except TrainerError as error:
            raise TrainerError(f"{run}: {error}", error.last_lines) from error
        seconds = time.perf_counter() - start
        facts = {"part": run.part, "seed": run.seed, "arm": run.arm and str(run.arm)}
        return {**facts, "command": self.trainer.command(values), "scores": scores, "seconds": round(seconds, 3)}

    def _report(self, run: Run) -> None:
        """Print the score of a run and the time that is left."""
        found = self._done[run.name]
        self._seconds.append(found["seconds"])
        num_left = self.plan.num_runs - len(self._done)
        minutes = num_left * sum(self._seconds) / len(self._seconds) / 60
        left = f", about {minutes:.0f} min left" if num_left and minutes >= 1 else ""
        mean = mean_score(found["scores"])
        self.say(f"{len(self._done):>3}/{self.plan.num_runs}  {mean:9.4f}  {run} ({found['seconds']:.0f} s{left})")

    def _files(self, run: Run) -> dict[str, Path]:
        """Write the files of a split that the trainer asks for, and return the values of their placeholders."""
        split, _ = self._split(run)
        folder = self.folder / "splits" / f"{run.part}-{run.seed}"
        found = {"images": self.photos.images_dir.absolute()}
        for name, indices in (("train", split.train), ("val", split.held_out)):
            found |= {name: folder / f"{name}.json", f"{name}_list": folder / f"{name}.txt"}
            if name in self.trainer.used and not found[name].exists():
                write_whole(found[name], self._entries.coco(indices))
            if f"{name}_list" in self.trainer.used and not found[f"{name}_list"].exists():
                write_whole(found[f"{name}_list"], self._paths(indices))
        return found

    def _paths(self, indices: Sequence[int]) -> bytes:
        folder = self.photos.images_dir.absolute()
        return "".join(f"{folder / self.photos.file_name(index)}\n" for index in indices).encode()

    @cached_property
    def _entries(self) -> EntryFile:
        return EntryFile(self.photos, self.folder / "entries.jsonl")


def image_classes(photos: AnnotatedDataset) -> Classes:
    """Return the classes with objects in each image."""
    return [frozenset(photos.instance_labels(index)) for index in range(len(photos))]
