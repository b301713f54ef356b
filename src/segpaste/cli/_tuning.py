"""Setup of `segpaste tune` before its first run: the dataset, the trainer, the shared paste config, and the plan."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste._printable import printable
from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import flat, read_file
from segpaste.augmenting.checks import expect_masks
from segpaste.augmenting.inputs import Inputs, open_annotated
from segpaste.augmenting.options import InputOptions
from segpaste.augmenting.settings import load_config, resolved_lines
from segpaste.cli._arguments import options_of
from segpaste.cli._errors import CommandError
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.tuning.plan import SEARCHED_KEYS, Plan, fit, listed
from segpaste.tuning.runs import image_classes
from segpaste.tuning.splits import Classes, in_one_image, split_images
from segpaste.tuning.trainer import Trainer

_MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class Setup:
    """All that is known before the first run.

    Attributes:
        inputs: the dataset.
        trainer: the command that trains and scores.
        base: paste config that all arms share.
        plan: arms and seeds.
        cuts: descriptions of what was left out of the plan to limit the number of runs.
        classes: classes of each image.
        facts: everything that the scores depend on, except for the plan and the pixels of the images.
    """

    inputs: Inputs
    trainer: Trainer
    base: BatchCopyPasteConfig
    plan: Plan
    cuts: list[str]
    classes: Classes
    facts: dict[str, Any]

    @property
    def photos(self) -> AnnotatedDataset:
        """The images."""
        return self.inputs.photos


def open_setup(args: argparse.Namespace) -> Setup:
    """Open the dataset, and check all arguments.

    Raises:
        CommandError, DatasetError, TuningError: an argument is invalid, or nothing can be pasted.
    """
    trainer = Trainer.parse(args.trainer, must_exist=not args.dry_run)
    _expect_not_searched(args)
    inputs = open_annotated(options_of(InputOptions, args), 0, 0)
    names = inputs.class_names
    base = load_config(
        args.config,
        args.overrides,
        inputs.schema_of_objects(single=True),
        of_bank=True,
        class_names=names,
        cover_void=inputs.void_is_contour,
    )
    expect_masks(inputs, base)
    classes = image_classes(inputs.photos)
    plan, cuts = _plan(args, classes, trainer)
    return Setup(inputs, trainer, base, plan, cuts, classes, _facts(args, inputs, trainer, base))


def plan_lines(setup: Setup) -> Iterator[str]:
    """Yield the lines that describe the plan."""
    plan = setup.plan
    split = split_images(setup.classes, "final", 1, seed=plan.seed, held_out=plan.held_out)
    name, num = printable(setup.inputs.name), len(setup.classes)
    yield from resolved_lines(setup.base, setup.inputs.void_is_contour)
    yield f"{name}: {num:,} images; a run trains on {len(split.train):,} and is scored on {len(split.held_out):,}"
    if alone := [printable(setup.inputs.class_names[label]) for label in in_one_image(setup.classes)]:
        more = ", ..." if len(alone) > _MOST_NAMES else ""
        names = ", ".join(alone[:_MOST_NAMES])
        yield f"in one image only, and therefore not both trained on and scored: {names}{more}"
    if plan.num_arms > 1:
        yield f"search   {plan.num_arms} arms and no paste, {plan.num_search} runs each"
        yield f"         balance {listed(plan.balances)} x share {listed(plan.shares)}"
        yield f"         then count {listed(plan.counts)}, then placement {listed(plan.placements)}"
    yield f"final    the best arm and no paste, {plan.num_pairs} runs each, on images that the search never scored"
    yield f"total    {plan.num_runs} runs" + "".join(f"; {cut}" for cut in setup.cuts)


def _expect_not_searched(args: argparse.Namespace) -> None:
    """Reject keys that the search sets, and other sources than a bank of all training images."""
    for key, option in SEARCHED_KEYS.items():
        if key in args.overrides:
            raise CommandError(
                f"{key}: expected no value, because {option} sets it for each arm, got {key}=...; use {option}"
            )
    given = {} if args.config is None else flat(read_file(Path(args.config)))
    kind = {"source.kind": "bank", **given, **args.overrides}["source.kind"]
    if kind != "bank":
        raise CommandError(
            f"source.kind: expected bank, because objects are drawn from all training images, got {kind}; leave it out"
        )


def _plan(args: argparse.Namespace, classes: Classes, trainer: Trainer) -> tuple[Plan, list[str]]:
    """Return the plan that fits the dataset, the trainer and the number of runs, and what was cut."""
    names = "balances", "shares", "counts", "placements"
    values = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if len(frozenset[int]().union(*classes)) == 1:
        values.setdefault("balances", ("natural",))  # all are the same
    numbers = {"num_search": args.seeds, "num_pairs": args.pairs, "seed": args.seed, "held_out": args.held_out}
    plan = Plan(**values, **numbers)
    plan, cuts = (plan, []) if args.runs is None else fit(plan, args.runs)
    _expect_different_splits(classes, plan)
    if len(plan.balances) > 1 and "balance" not in trainer.used:
        raise CommandError(
            "--trainer: expected {balance} in the command, because several balances are tried, got none; add it, or "
            "give --balances with one value"
        )
    return plan, cuts


def _expect_different_splits(classes: Classes, plan: Plan) -> None:
    """Reject plans whose pairs all hold out the same images, and datasets that are too small for a split."""
    splits = (split_images(classes, "final", s, seed=plan.seed, held_out=plan.held_out) for s in plan.final_seeds)
    first = next(splits)
    if all(split == first for split in splits):
        raise CommandError(
            f"--held-out {plan.held_out:g}: expected pairs with different held-out images, got the same "
            f"{len(first.held_out):,} of {len(classes):,} in all pairs, because the rarest classes have so few images; "
            "add images of these classes, or leave these classes out"
        )


def _facts(args: argparse.Namespace, inputs: Inputs, trainer: Trainer, base: BatchCopyPasteConfig) -> dict[str, Any]:
    return {
        "segpaste": __version__,
        "dataset": inputs.name,
        "annotations": inputs.digest,
        "images": os.path.abspath(inputs.photos.images_dir),
        "trainer": args.trainer,
        "files of the trainer": trainer.digests(),
        **flat(base.model_dump(mode="json")),
    }
