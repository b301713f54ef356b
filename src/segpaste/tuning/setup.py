"""A tuning of a dataset, ready to run: the dataset, the trainer, the paste config that all arms share, and the plan.

tuning = open_tuning(TuneOptions(dataset="data.yaml", trainer="./train.sh {config} {train_list} {val_list} ..."))
found = tuning.run(print)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segpaste._printable import printable
from segpaste._reprs import counted
from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import flat
from segpaste.augmenting.checks import expect_masks
from segpaste.augmenting.inputs import Inputs, open_annotated
from segpaste.augmenting.options import AnyPath, InputOptions, option
from segpaste.augmenting.settings import config_values, load_config, resolved_lines
from segpaste.datasets.formats.format import expect_outside
from segpaste.tuning import report, runs
from segpaste.tuning.plan import SEARCHED_KEYS, Plan, fit, listed
from segpaste.tuning.search import Found, tune
from segpaste.tuning.splits import Classes, in_one_image, split_images
from segpaste.tuning.trainer import Trainer, TuningError
from segpaste.workspace import Run, WholeFiles

_MOST_NAMES = 12


@dataclass(frozen=True, kw_only=True)
class TuneOptions(InputOptions):
    """A tuning; see `segpaste.tuning.plan.Plan` for what is tried.

    Attributes:
        trainer: command that trains and scores one run, with placeholders.
        out: folder of the runs.
        config: paste configuration that all arms share, or a file of one.
        overrides: values by dotted keys, which override it; text is read as YAML.
        balances, shares, counts, placements: values to try; by default those of the plan that fit the dataset.
        seeds: runs of each arm in the search.
        pairs: pairs of runs of the final comparison.
        runs: largest number of runs; the plan is reduced until it fits.
        held_out: fraction of the images to hold out in each run.
        seed: seed of the splits.
        dry_run: the trainer need not exist.
    """

    trainer: str
    out: AnyPath = "tuning"
    config: AnyPath | BatchCopyPasteConfig | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    balances: tuple[str, ...] | None = None
    shares: tuple[float, ...] | None = None
    counts: tuple[int, ...] | None = None
    placements: tuple[str, ...] | None = None
    seeds: int = Plan().num_search
    pairs: int = Plan().num_pairs
    runs: int | None = None
    held_out: float = Plan().held_out
    seed: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Tuning:
    """All that is known before the first run.

    Attributes:
        inputs: the dataset.
        trainer: the command that trains and scores.
        base: paste config that all arms share.
        plan: arms and seeds.
        cuts: descriptions of what was left out of the plan to limit the number of runs.
        classes: classes of each image.
        facts: everything that the scores depend on, except for the plan and the pixels of the images.
        out: folder of the runs.
    """

    inputs: Inputs
    trainer: Trainer
    base: BatchCopyPasteConfig
    plan: Plan
    cuts: list[str]
    classes: Classes
    facts: dict[str, Any]
    out: Path

    def lines(self) -> Iterator[str]:
        """Yield the lines that describe the plan."""
        plan = self.plan
        split = split_images(self.classes, "final", 1, seed=plan.seed, held_out=plan.held_out)
        name, num = printable(self.inputs.name), len(self.classes)
        yield from resolved_lines(self.base, self.inputs.void_is_contour)
        parts = f"a run trains on {len(split.train):,} and is scored on {len(split.held_out):,}"
        yield f"{name}: {counted(num, 'image')}; {parts}"
        if alone := [printable(self.inputs.class_names[label]) for label in in_one_image(self.classes)]:
            more = ", ..." if len(alone) > _MOST_NAMES else ""
            names = ", ".join(alone[:_MOST_NAMES])
            yield f"in one image only, and therefore not both trained on and scored: {names}{more}"
        if plan.num_arms > 1:
            yield f"search   {plan.num_arms} arms and no paste, {plan.num_search} runs each"
            yield f"         balance {listed(plan.balances)} x share {listed(plan.shares)}"
            yield f"         then count {listed(plan.counts)}, then placement {listed(plan.placements)}"
        yield f"final    the best arm and no paste, {plan.num_pairs} runs each, on images that the search never scored"
        yield f"total    {plan.num_runs} runs" + "".join(f"; {cut}" for cut in self.cuts)

    def run(self, say: Callable[[str], object]) -> Found:
        """Do the runs that are not done, and write their result; ``say`` is called with a line for each run.

        Raises:
            TrainerError: a run fails.
            DatasetError, TuningError: the folder is part of the dataset, or holds another tuning.
        """
        photos = self.inputs.photos
        expect_outside(photos, self.out)
        space = Run(self.out.absolute(), TuningError, results=runs.RESULTS, owned=runs.OWNED, what="a tuning")
        with space.claim({**self.facts, **self.plan.facts()}):
            doing = runs.Runs(space.folder, photos, self.plan, self.trainer, self.base, say)
            found = tune(self.plan, doing.train, doing.scored)
            document = report.document(found, self.plan, doing.done, self.facts)
            config = runs.arm_config(self.base, found.arm)
            with WholeFiles() as files:
                files.write(space.folder / "tune.json", json.dumps(document, indent=1).encode())
                files.write(space.folder / "tuned.yaml", report.config_text(found, config).encode())
        return found


def open_tuning(options: TuneOptions) -> Tuning:
    """Open the dataset, and check all options.

    Raises:
        AugmentError, DatasetError, TuningError: an option is invalid, or nothing can be pasted.
    """
    trainer = Trainer.parse(options.trainer, must_exist=not options.dry_run)
    _expect_not_searched(options)
    inputs = open_annotated(options, 0, 0)
    base = load_config(
        options.config,
        options.overrides,
        inputs.schema_of_objects(single=True),
        of_bank=True,
        class_names=inputs.class_names,
        cover_void=inputs.void_is_contour,
    )
    expect_masks(inputs, base)
    classes = runs.image_classes(inputs.photos)
    plan, cuts = _plan(options, classes, trainer)
    return Tuning(inputs, trainer, base, plan, cuts, classes, _facts(options, inputs, trainer, base), Path(options.out))


def _expect_not_searched(options: TuneOptions) -> None:
    """Reject keys that the search sets, and other sources than a bank of all training images."""
    for key, name in SEARCHED_KEYS.items():
        if key in options.overrides:
            name = option(name)
            raise TuningError(
                f"{key}: expected no value, because {name} sets it for each arm, got {key}=...; use {name}"
            )
    kind = {"source.kind": "bank", **flat(config_values(options.config)), **options.overrides}["source.kind"]
    if kind != "bank":
        raise TuningError(
            f"source.kind: expected bank, because objects are drawn from all training images, got {kind}; leave it out"
        )


def _plan(options: TuneOptions, classes: Classes, trainer: Trainer) -> tuple[Plan, list[str]]:
    """Return the plan that fits the dataset, the trainer and the number of runs, and what was cut."""
    names = "balances", "shares", "counts", "placements"
    values = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if len(frozenset[int]().union(*classes)) == 1:
        values.setdefault("balances", ("natural",))  # all are the same
    plan = Plan(
        **values, num_search=options.seeds, num_pairs=options.pairs, seed=options.seed, held_out=options.held_out
    )
    plan, cuts = (plan, []) if options.runs is None else fit(plan, options.runs)
    _expect_different_splits(classes, plan)
    if len(plan.balances) > 1 and "balance" not in trainer.used:
        raise TuningError(
            f"{option('trainer')}: expected {{balance}} in the command, because several balances are tried, got none; "
            f"add it, or give {option('balances')} with one value"
        )
    return plan, cuts


def _expect_different_splits(classes: Classes, plan: Plan) -> None:
    """Reject plans whose pairs all hold out the same images, and datasets that are too small for a split."""
    splits = (split_images(classes, "final", s, seed=plan.seed, held_out=plan.held_out) for s in plan.final_seeds)
    first = next(splits)
    if all(split == first for split in splits):
        raise TuningError(
            f"{option('held_out', plan.held_out)}: expected pairs with different held-out images, got the same "
            f"{len(first.held_out):,} of {len(classes):,} in all pairs, because the rarest classes have so few images; "
            "add images of these classes, or leave these classes out"
        )


def _facts(options: TuneOptions, inputs: Inputs, trainer: Trainer, base: BatchCopyPasteConfig) -> dict[str, Any]:
    return {
        "segpaste": __version__,
        "dataset": inputs.name,
        "annotations": inputs.digest,
        "images": os.path.abspath(inputs.photos.images_dir),
        "trainer": options.trainer,
        "files of the trainer": trainer.digests(),
        **flat(base.model_dump(mode="json")),
    }
