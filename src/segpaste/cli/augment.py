"""`segpaste augment`: make an augmented dataset in the format of the input, with the provenance of every object."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._version import __version__
from segpaste.cli._arguments import (
    LAYOUTS,
    MAX_SEED,
    WRITTEN_TASKS,
    add_backgrounds,
    add_balance,
    add_depth_fill,
    add_photos,
    add_verify,
    balance_of,
    integer,
    shard,
    sides,
)
from segpaste.cli._errors import CommandError
from segpaste.workspace import Fingerprint, Workspace

if TYPE_CHECKING:
    from segpaste.augmentation import BatchCopyPasteConfig
    from segpaste.augmenting.inputs import Inputs
    from segpaste.augmenting.layouts import OtherSplits
    from segpaste.augmenting.older_runs import OlderRun
    from segpaste.augmenting.pasting import Paster
    from segpaste.augmenting.run_log import RunLog
    from segpaste.augmenting.steps import StepMaker
    from segpaste.augmenting.tally import Tally
    from segpaste.datasets.formats.photo_scan import PhotoProblem
    from segpaste.datasets.writers.layouts import WrittenLayout

_EXAMPLE = """\
KEY=VALUE overrides the configuration: placement.scale_range=[0.5,1.5], placement.k_range=[1,5].

Pasted objects come from the whole dataset. With placement.grouping=image, the default, another image is drawn for each
target; with placement.grouping=instance, single objects are drawn from all annotations. With source.kind=same_image the
source is the target itself.

The result is built in DIR.partial, which is renamed to DIR at the end. The same command resumes an interrupted run,
also with other --workers or a larger --num; the same seed gives the same bytes. Another version resumes it with the
options that the run recorded, or names the option that it does not have; all versions give the same pixels, but not the
same bytes. DIR.log is the log of the run. DIR/replay.jsonl has a record of every image, from which segpaste replay
recreates it.

A folder or data YAML of a YOLO dataset, and a folder of Roboflow's COCO export, keep their layout: the split to train
on is augmented, the others are copied unchanged.

examples:
  segpaste augment data.yaml --out augmented --num 1000
  segpaste augment roboflow_export --out augmented --num 1000 --seed 1
  segpaste augment instances.json --images photos --out augmented --num 1000 --seed 1
  segpaste augment panoptic.json --images photos --panoptic-dir panoptic --out augmented --num 1000
  segpaste augment scenes --out scenes --num 100 placement.layers=2
  segpaste augment instances.json --images photos --out augmented --num 100000 --workers 8
  segpaste augment instances.json --images photos --out augmented --num 1000 --size 1024 placement.grouping=instance \\
    placement.layers=4 --balance class_uniform
  segpaste augment scenes --out patches --num 100 --preset vit_patch placement.pad_to_multiple=16
  segpaste augment instances.json --images photos --out augmented --num 1000 --bank objects source.crops_per_target=4
  segpaste augment instances.json --images photos --out augmented --num 1000 --bank objects --balance tempered \\
    --temperature 0.3
  segpaste augment --backgrounds rooms --bank objects --out augmented --num 1000
"""
_DEFAULT_SIZE_PX = 256
_NAMED = (
    *("seed", "size", "format", "preset", "balance", "threshold", "temperature"),
    *("split", "task", "layout"),
)
"""Options other than paths that every image depends on."""
_NEEDING = ("emit_depth", "emit_panoptic", "emit_classmix")
"""Keys of the configuration that need modalities of the dataset."""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Write a new dataset of augmented images, in the format of the given one."
    parser = commands.add_parser("augment", help="write an augmented dataset", description=text, example=_EXAMPLE)
    parser.usage = (
        "segpaste augment ANNOTATIONS.json|FOLDER|DATA.yaml|scenes --out DIR --num N [options] [KEY=VALUE ...]"
    )
    add = parser.add_argument
    text = "a folder or file of any format that segpaste reads (docs/guide/formats.md), or scenes"
    add("dataset", metavar="DATASET", nargs="?", help=text)
    add_photos(parser, WRITTEN_TASKS)
    add_backgrounds(parser)
    add_depth_fill(parser)
    add("--out", metavar="DIR", type=Path, required=True, help="the new dataset's folder")
    add("--num", metavar="N", type=integer(1), required=True, help="images to make; image i does not depend on N")
    add("--seed", metavar="S", type=integer(0, MAX_SEED), default=0, help="seed of the draws, default: 0")
    text = (
        "jitter every image to this size, or own: keep its size; default: that of the preset, else own. Side of scenes"
    )
    add("--size", metavar="WxH|PX|own", type=sides(32, 4096), help=f"{text}, default: {_DEFAULT_SIZE_PX}")
    add("--format", choices=("png", "jpg"), default="png", help="format of the images, default: png")
    add("--layout", choices=LAYOUTS, help="layout of the new dataset, default: that of the given one, else coco")
    add("--gallery", metavar="G", type=integer(0), default=12, help="images to draw, default: 12")
    add("--preset", metavar="NAME|FILE", help="name of a preset, such as vit_patch, or a preset saved in YAML or JSON")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON")
    add("--bank", metavar="BANK", help="paste objects of this instance bank, instead of the dataset's own")
    add_balance(parser, "how the classes of pasted objects are drawn", pastes=True)
    add(
        "--workers",
        metavar="W",
        type=integer(0, 1024),
        default=1,
        help="number of processes, default: 1; the files have the same bytes with any number",
    )
    add("--engine", choices=("local", "ray"), default="local", help="engine of the workers, default: local")
    text = "make only shard I of N; the shard that finishes last, or the command without --shard, assembles all"
    add("--shard", metavar="I/N", type=shard, help=text)
    add_verify(parser)
    add("--skip-unreadable", action="store_true", help="leave out images that cannot be read, and count them")
    add("--dry-run", action="store_true", help="estimate the pastes, without writing anything")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Make the dataset; exit with 1 if nothing is pasted."""
    start = time.perf_counter()
    space = Workspace(Path(os.path.abspath(args.out)), CommandError)
    from segpaste.augmenting import finished as _finished
    from segpaste.augmenting import layouts as _layouts
    from segpaste.augmenting import older_runs as _older_runs
    from segpaste.augmenting import planning as _planning
    from segpaste.augmenting import run_log as _run_log
    from segpaste.augmenting import running as _running
    from segpaste.augmenting import settings as _settings
    from segpaste.augmenting import shards as _shards

    older = _older_runs.older_run(space)
    inputs, paster, problems = _opened(args, older)
    layout = _layouts.layout_of(args, inputs)
    fingerprint = _fingerprint(args, inputs, paster, older)
    digest = _finished.run_digest(fingerprint["made"], args.num)
    if not args.dry_run and _finished.is_finished(args, space.out, layout, fingerprint["made"]):
        space.remove_remains()
        _shards.remove(space.out)
        print(f"complete {args.out}/ has these {args.num:,} images already")
        return
    _planning.expect_sources(paster)
    maker = _maker(args, space, paster, layout, older)
    resolved = _settings.resolved_lines(paster.config, inputs.void_is_contour, inputs.fills_depth)
    if args.dry_run:
        print("\n".join([*resolved, *_planning.estimate(maker)]))
        return
    space.expect_free()
    others = _layouts.other_splits(inputs, layout)
    if paster.crops is not None:
        pastes = args.num * paster.config.source.crops_per_target * paster.config.placement.paste_prob
        print(f"expected draws from {args.bank}:\n{paster.crops.expected(pastes)}", flush=True)
    log = _run_log.RunLog(space.out.with_name(space.out.name + ".log"))
    log.say(f"segpaste {__version__}: {_made(args, paster, digest)['command']} --out {space.out}")
    for line in [*(f"skipped: {problem}" for problem in problems), *resolved]:
        log.say(line)
    if older.values is not None:
        log.say(f"resuming the run of segpaste {older.version} with its options")
    print(*resolved, sep="\n", end="\n" if resolved else "", flush=True)
    options = _running.RunOptions(
        max(1, args.workers), args.engine, args.gallery, args.shard and _shards.Shard(*args.shard), args.verify
    )
    values = {**fingerprint["made"], **fingerprint["paths"], _older_runs.STEP_SIZE: maker.size}
    before = {**_older_runs.values_before(), "balance": values.get("balance", {})}
    whole = Fingerprint(values, frozenset(fingerprint["paths"]), before)
    job = _running.Job(space, maker, whole, others, log, options)
    with log.ending():
        tally = job.run(_made(args, paster, digest))
    if tally is None:
        return
    tally.unreadable |= {str(problem.index): problem.reason for problem in problems}
    _finish(args, space, tally, others, log, time.perf_counter() - start)


def _finish(
    args: argparse.Namespace,
    space: Workspace,
    tally: Tally,
    others: OtherSplits,
    log: RunLog,
    seconds: float,
) -> None:
    """Print and log the summary; exit with 1 if nothing was pasted."""
    from segpaste.augmenting import tally as _tally

    log.say("\n".join(["complete", *tally.lines()]))
    log.open()
    _tally.print_summary(tally, seconds)
    if others.names:
        print(f"copied   {', '.join(others.names)}: {len(others.copies):,} files, unchanged")
    print(f"files    {args.out}/: " + ", ".join(sorted(path.name for path in space.out.iterdir())))
    if not tally.has_pastes:
        raise SystemExit("nothing was pasted into any image; the reasons and advice are above")


def _opened(args: argparse.Namespace, older: OlderRun) -> tuple[Inputs, Paster, list[PhotoProblem]]:
    """Open the dataset; return it, its paster, and the images that are skipped."""
    from segpaste.augmenting import inputs as _inputs
    from segpaste.augmenting import layouts as _layouts
    from segpaste.augmenting import planning as _planning
    from segpaste.augmenting import settings as _settings
    from segpaste.datasets.formats.records import expect_outside

    if args.dataset == "scenes" and isinstance(args.size, tuple) and args.size[0] != args.size[1]:
        raise CommandError("--size: expected one side, because scenes are square, got two; write --size PX")
    side = args.size[0] if isinstance(args.size, tuple) else _DEFAULT_SIZE_PX
    inputs = _inputs.open_dataset(args, args.seed, side)
    expect_outside(inputs.photos, args.out)
    config = _settings.load_config(
        args.config,
        args.overrides,
        inputs.schema_of_objects(single=args.bank is not None or _is_balanced(args)),
        args.preset,
        of_bank=args.bank is not None,
        every_image=True,
        class_names=inputs.class_names,
        cover_void=inputs.void_is_contour,
        fills_depth=inputs.fills_depth,
    )
    config = older.config(config, args)
    _layouts.expect_masks(inputs, config)
    _layouts.expect_region(inputs, config)
    problems = _planning.unreadable_photos(inputs, args.skip_unreadable)
    skipped = frozenset(problem.index for problem in problems)
    asked = {
        key: f"--preset {args.preset}" for key in _NEEDING if args.preset is not None and key not in args.overrides
    }
    asked |= {key: f"{key}={value}" for key, value in args.overrides.items()}
    if any(getattr(config, key) for key in _NEEDING):
        _planning.expect_modalities(inputs, config, asked, skipped, args.skip_unreadable)
    return inputs, _paster(args, inputs, config, skipped, older), problems


def _is_balanced(args: argparse.Namespace) -> bool:
    return any(value is not None for value in (args.balance, args.threshold, args.temperature))


def _paster(
    args: argparse.Namespace, inputs: Inputs, config: BatchCopyPasteConfig, skipped: frozenset[int], older: OlderRun
) -> Paster:
    from segpaste.augmenting import crops as _crops
    from segpaste.augmenting import objects as _objects
    from segpaste.augmenting import pasting as _pasting
    from segpaste.augmenting import settings as _settings

    if args.bank is None and _is_balanced(args) and not _objects.draws_objects(inputs, config):
        own = " and no source.kind=same_image" if config.source.kind == "same_image" else ""
        raise CommandError(
            f"--balance, --threshold, --temperature: expected --bank, or placement.grouping=instance{own}, which draw "
            "objects by their classes; give one of them"
        )
    balance = _balance(args, config, older)
    options: dict[str, Any] = {"skipped": skipped}
    options["jitter"] = older.jitter(_settings.jitter_of(args.dataset, args.size, args.preset), args)
    options["skips_unreadable"] = args.skip_unreadable
    if args.bank is None:
        return _pasting.open_paster(inputs, config, args.seed, balance=balance, **options)
    crops = _crops.open_sequence(args.bank, inputs.class_names, args.seed, **balance)
    return _pasting.Paster(inputs, config, args.seed, crops=crops, **options)


def _balance(args: argparse.Namespace, config: BatchCopyPasteConfig, older: OlderRun) -> dict[str, Any]:
    """Return the options of the sampler of single objects."""
    from segpaste.augmenting import objects as _objects

    is_default = args.bank is None and not _is_balanced(args)
    return older.balance(_objects.default_balance(config) if is_default else balance_of(args), args)


def _fingerprint(
    args: argparse.Namespace, inputs: Inputs, paster: Paster, older: OlderRun
) -> dict[str, dict[str, Any]]:
    """Return everything that an image depends on but the bytes of the inputs; paths, which may change, are separate."""
    from segpaste.augmentation.config.values import flat

    folders = {"--images": args.images, "--panoptic-dir": args.panoptic_dir, "--backgrounds": args.backgrounds}
    folders |= {} if inputs.found is None else {"folder": inputs.found.path}
    jitter = paster.reader.jitter
    draws_objects = paster.crops is not None or paster.objects is not None
    made = {
        "segpaste": __version__,
        "dataset": inputs.name,
        "annotations": inputs.digest,
        "bank": paster.crops and paster.crops.bank.version,
        "jitter": jitter and jitter.model_dump(mode="json"),
        "skipped photos": sorted(paster.sequence.skipped),
        **{f"--{name.replace('_', '-')}": getattr(args, name) for name in _NAMED},
        **({"balance": _balance(args, paster.config, older)} if draws_objects else {}),
        **({"--depth-fill": True} if inputs.fills_depth else {}),
        **flat(paster.config.model_dump(mode="json")),
    }
    return {"made": made, "paths": {name: path and os.path.abspath(path) for name, path in folders.items()}}


def _maker(
    args: argparse.Namespace, space: Workspace, paster: Paster, layout: WrittenLayout, older: OlderRun
) -> StepMaker:
    from segpaste.augmenting import steps as _making

    size = older.step_size(_making.IMAGES_PER_STEP)
    return _making.StepMaker(paster, layout, args.format, args.num, space.files, space.notes, size)


def _made(args: argparse.Namespace, paster: Paster, digest: str) -> dict[str, Any]:
    """Return how this dataset was made, without times and paths, so that equal runs give equal bytes."""
    words = ["segpaste augment", paster.inputs.name, f"--num {args.num}"]
    named = ((name, getattr(args, name)) for name in _NAMED)
    words += [f"--{name.replace('_', '-')} {_word(value)}" for name, value in named if value is not None]
    words += ["--depth-fill"] if paster.inputs.fills_depth else []
    words += [f"{key}={value}" for key, value in args.overrides.items()]
    jitter = paster.reader.jitter
    return {
        "command": " ".join(words),
        "run": digest,
        "seed": args.seed,
        "config": paster.config.model_dump(mode="json"),
        **({} if jitter is None else {"jitter": jitter.model_dump(mode="json")}),
        "source": {"name": paster.inputs.name, "sha256": paster.inputs.digest},
        **({} if paster.crops is None else {"bank": paster.crops.bank.version}),
    }


def _word(value: Any) -> str:
    """Return the value of an option as written on the command line."""
    return f"{value[1]}x{value[0]}" if isinstance(value, tuple) else str(value)
