"""An augmented dataset: `augment_dataset`, which ``segpaste augment`` calls, too."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import flat
from segpaste.augmenting import steps
from segpaste.augmenting.checks import (
    estimate,
    expect_backgrounds,
    expect_masks,
    expect_modalities,
    expect_region,
    expect_sources,
    unreadable_photos,
)
from segpaste.augmenting.draws import default_balance, draws_objects, open_sequence
from segpaste.augmenting.inputs import Inputs, open_dataset
from segpaste.augmenting.layouts import layout_of, other_splits, written_splits
from segpaste.augmenting.options import AnyPath, AugmentError, AugmentOptions, Progress, Size, Task, option
from segpaste.augmenting.pasting import Paster, open_paster
from segpaste.augmenting.runs import AugmentRun, is_finished, run_digest
from segpaste.augmenting.settings import (
    STEP_SIZE,
    OlderRun,
    jitter_of,
    load_config,
    older_run,
    resolved_lines,
    values_before,
)
from segpaste.augmenting.steps import StepMaker
from segpaste.augmenting.summary import AugmentSummary
from segpaste.datasets.checking.check import check_dataset
from segpaste.datasets.checking.tools.registry import TOOLS, written_for
from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.checking.tools.starts import start_of
from segpaste.datasets.checking.tools.tool_report import ToolReport
from segpaste.datasets.conversion.for_tool import expect_instances
from segpaste.datasets.formats.format import NO_SPLIT, expect_outside
from segpaste.datasets.formats.image_scan import ImageProblem
from segpaste.datasets.formats.registry import find_dataset
from segpaste.datasets.writers.guard import Guard
from segpaste.workspace import Fingerprint, Workspace, naming
from segpaste.workspace.shards import remove_shards

if TYPE_CHECKING:
    from segpaste.datasets.views import Samples

_LOG = logging.getLogger("segpaste")
_DEFAULT_SIDE_PX = 256
"""Side of scenes."""
_NAMED = {
    "seed": "seed",
    "size": "size",
    "format": "image_format",
    "preset": "preset",
    "balance": "balance",
    "threshold": "threshold",
    "temperature": "temperature",
    "split": "split",
    "task": "task",
    "layout": "layout",
}
"""Options other than paths that every image depends on, by their names on the command line."""
_NEEDING = ("emit_depth", "emit_panoptic", "emit_classmix")
"""Keys of the configuration that need modalities of the dataset."""


def augment_dataset(
    dataset: AnyPath | Samples | None,
    out: AnyPath,
    *,
    num: int,
    seed: int = 0,
    config: BatchCopyPasteConfig | AnyPath | None = None,
    overrides: Mapping[str, Any] | None = None,
    preset: str | None = None,
    size: int | Size | None = None,
    bank: AnyPath | None = None,
    backgrounds: AnyPath | None = None,
    balance: str | None = None,
    threshold: float | None = None,
    temperature: float | None = None,
    images_dir: AnyPath | None = None,
    panoptic_dir: AnyPath | None = None,
    split: str | None = None,
    task: Task | None = None,
    format: str | None = None,
    depth_fill: bool = False,
    image_format: Literal["same", "png", "jpg"] = "same",
    layout: str | None = None,
    tool: str | None = None,
    keep_originals: bool = False,
    gallery: int = 12,
    workers: int = 1,
    engine: Literal["local", "ray"] = "local",
    shard: tuple[int, int] | None = None,
    verify: Literal["full", "sample", "off"] = "sample",
    skip_unreadable: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> AugmentSummary:
    """Write a new dataset of augmented images, in the format of the given one, as ``segpaste augment`` does.

    Pasted objects come from the whole dataset, or from a bank. Image i depends on the dataset, the seed, i and the
    options of the paste only: not on ``num``, ``workers`` or ``engine``. The dataset is built in ``out`` with
    ``.partial`` added, and gets its name when it is complete; the same call resumes an interrupted run. Resolved
    options and what is skipped are logged by the logger ``segpaste``.

        summary = augment_dataset("instances.json", "augmented", num=1000, images_dir="photos", seed=1,
                                  overrides={"placement.layers": 2})

    Args:
        dataset: a folder or file of any format that can be read; ``scenes`` for synthetic ones; one of Python, see
            `segpaste.datasets.AnnotatedDataset`; or None for ``backgrounds`` alone.
        out: the new folder.
        num: number of images.
        seed: seed of the draws.
        config: paste configuration, of which the values that were set count, or a YAML or JSON file of one. Unlike in
            training, every image gets a paste unless ``placement.paste_prob`` is set.
        overrides: values by dotted keys, over ``preset`` and ``config``; text is read as YAML.
        preset: name of a preset, or a file of a saved one.
        size: size in pixels to which every image is jittered, (height, width) or the side of a square; ``"own"`` keeps
            their size. By default that of the preset, else images keep their size. For scenes it is their side.
        bank: paste objects of this bank, instead of the dataset's own.
        backgrounds: folder of images without objects, to paste into as well.
        balance: how the classes of pasted objects are drawn: ``natural``, ``repeat_factor``, ``instance_aware``,
            ``tempered`` or ``class_uniform``; by default ``repeat_factor`` with a bank, else ``natural``.
        threshold: threshold of the repeat factors, a fraction; by default the mean frequency of the classes.
        temperature: for ``tempered``, from 0 (objects are equally likely) to 1 (classes are), by default 0.5.
        images_dir: for an annotation file, the folder of the file names of the images.
        panoptic_dir: for panoptic segments, the folder of their PNG files.
        split: split of a folder, by default the one to train on; the others are copied unchanged if the layout stays.
        task: task of the labels, by default recognised from them; ``obb`` writes oriented boxes.
        format: name of the dataset's format, by default recognised.
        depth_fill: give holes in the depth of objects their nearest valid depth; they stay invalid.
        image_format: ``png``, or ``jpg``, which has losses (quality 95); ``same`` is ``jpg`` for images that are read
            from a JPEG, else ``png``. Maps have no losses.
        layout: layout of the new dataset, such as ``coco`` or ``yolo``; by default that of the given one, else
            ``coco``.
        tool: name of a tool that will read the new dataset, see `segpaste.datasets.check_dataset`: ``layout`` and
            ``task`` are by default what it reads best, crowd regions that it takes for objects are left out and counted
            in ``left_out``, ``for_tool`` of the summary tells what it does with the dataset, and ``start`` what starts
            it.
        keep_originals: write the images of the dataset with their annotations after the augmented ones, so that the
            new dataset has both. Their files are copied byte by byte.
        gallery: number of images to draw in the report.
        workers: number of processes; 0 and 1: this one.
        engine: ``local``, or ``ray`` for processes of a Ray cluster.
        shard: (I, N), to make only shard I of N, from 1; the shard that finishes last assembles all.
        verify: what is read again before ``out`` appears: all labels, and with ``sample`` the pixels of some images,
            with ``full`` those of all; ``off`` reads nothing.
        skip_unreadable: leave out images that cannot be read, and count them.
        dry_run: make the first images in memory, write nothing, and return the summary of these.
        progress: called with ``"image"`` or ``"file"``, the number of finished ones, and the number of all.

    Returns:
        The counts of images and objects. ``state`` says whether the dataset is there.

    Raises:
        NothingToPasteError: the dataset has nothing that could be pasted.
        AugmentError: an option does not fit the dataset, or ``out`` is taken.
        DatasetError: the dataset is broken, or what was written differs from what was made.
        ValueError: the configuration is invalid.
        OSError: a file cannot be read or written.
    """
    given = locals()
    given["overrides"] = overrides or {}
    given["size"] = (size, size) if isinstance(size, int) else size
    del given["progress"]
    return augment(AugmentOptions(**given), _LOG.info, progress)


def augment(options: AugmentOptions, say: Callable[[str], object], progress: Progress | None = None) -> AugmentSummary:
    """Make an augmented dataset; ``say`` is called with lines about what was resolved; see `augment_dataset`."""
    options = _for_tool(options)
    space = Workspace(Path(os.path.abspath(options.out)), AugmentError, other=option("out"))
    older = older_run(space)
    options = older.image_format(options)
    paster, problems = _opened(options, older, say)
    inputs = paster.inputs
    layout = layout_of(options, inputs)
    made, paths = _facts(options, paster, older)
    originals = _originals(options, inputs, paster)
    if not options.dry_run and is_finished(options, space.out, layout, made, len(originals)):
        space.remove_remains()
        remove_shards(space.out)
        return AugmentSummary(space.out, "there", num_images=options.num, config=paster.config)
    expect_sources(paster)
    size = older.step_size(steps.IMAGES_PER_STEP)
    tool = None if options.tool is None else TOOLS[options.tool]
    maker = StepMaker(
        paster, layout, options.image_format, options.num, space.files, space.notes, size, tool, originals
    )
    resolved = resolved_lines(paster.config, inputs.void_is_contour, inputs.fills_depth)
    if options.dry_run:
        summary, lines = estimate(maker)
        _say(say, [*resolved, *lines])
        return summary
    space.expect_free()
    others = other_splits(inputs, layout)
    run = AugmentRun(options, space, maker, _fingerprint(made, paths, maker), progress or (lambda *_: None))
    how = _made(options, paster, run_digest(made, options.num))
    skipped = [f"skipped: {problem}" for problem in problems]
    _say(run.log.say, [f"segpaste {__version__}: {how['command']} --out {space.out}", *skipped, *resolved])
    _say(run.log.say, older.lines())
    _say(say, [*_expected_draws(options, paster), *resolved])
    with run.log.ending(), ExitStack() as stack:
        if (waiting := run.make_shard(stack)) is not None:
            return waiting
        stack.enter_context(space.claim(run.fingerprint))
        stack.enter_context(naming(space.folder))
        run.adopt_shards()
        guard = Guard(space.notes, options.verify)
        run.make(maker, maker.missing(), maker.num_files)
        summary = run.finish(how, others, guard)
    summary.unreadable |= {str(problem.index): problem.reason for problem in problems}
    if tool is not None:
        summary.for_tool = tuple(_checked_for(tool, space.out, (layout.split, *others.names)))
        summary.start = start_of(tool, written_splits(inputs, layout, others), space.out)
    run.log.say("\n".join(["complete", *summary.lines()]))
    run.log.open()
    return summary


def _originals(options: AugmentOptions, inputs: Inputs, paster: Paster) -> list[int]:
    """Return the indices of the images that are kept; backgrounds are not among them."""
    if not options.keep_originals:
        return []
    if options.dataset == "scenes":
        raise AugmentError(f"{option('keep_originals')}: expected a dataset, got scenes; leave it out")
    return [index for index in range(len(inputs.annotated)) if index not in paster.sequence.skipped]


def _for_tool(options: AugmentOptions) -> AugmentOptions:
    """Return options with the layout and the task that the tool reads best, where they are not given."""
    if options.tool is None:
        return options
    tool, layout, task = written_for(options.tool, options.layout, options.task)
    return replace(options, tool=tool.name, layout=layout, task=task)


def _checked_for(tool: Tool, out: Path, names: Iterable[str]) -> Iterator[ToolReport]:
    """Yield what a tool does to each split of the new dataset."""
    found = find_dataset(out)
    for name in found.splits if found.splits == (NO_SPLIT,) else names:
        (report,) = check_dataset(found.open(name or None), tools=[tool]).tools
        yield replace(report, split=name)


def _say(say: Callable[[str], object], lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _expected_draws(options: AugmentOptions, paster: Paster) -> Iterator[str]:
    """Yield the expected draws from a bank."""
    if paster.crops is not None:
        pastes = options.num * paster.config.source.crops_per_target * paster.config.placement.paste_prob
        yield f"expected draws from {options.bank}:\n{paster.crops.expected(pastes)}"


def _fingerprint(made: Mapping[str, Any], paths: Mapping[str, Any], maker: StepMaker) -> Fingerprint:
    """Return everything that a resumed run compares."""
    values = {**made, **paths, STEP_SIZE: maker.size}
    return Fingerprint(values, frozenset(paths), {**values_before(), "balance": values.get("balance", {})})


def _opened(
    options: AugmentOptions, older: OlderRun, say: Callable[[str], object]
) -> tuple[Paster, list[ImageProblem]]:
    """Open the dataset; return its paster, and the images that are skipped."""
    side = options.size[0] if isinstance(options.size, tuple) else _DEFAULT_SIDE_PX
    inputs = open_dataset(options, options.seed, side, layout=options.layout)
    if options.tool is not None:
        expect_instances(inputs.name, [inputs.photos], TOOLS[options.tool])
    expect_outside(inputs.photos, options.out)
    config = load_config(
        options.config,
        options.overrides,
        inputs.schema_of_objects(single=options.bank is not None or options.is_balanced),
        options.preset,
        of_bank=options.bank is not None,
        every_image=True,
        class_names=inputs.class_names,
        cover_void=inputs.void_is_contour,
        fills_depth=inputs.fills_depth,
    )
    config = older.config(config, options)
    needs = any(getattr(config, key) for key in _NEEDING)
    if not needs:
        expect_masks(inputs, config)
    expect_region(inputs, config)
    expect_backgrounds(inputs, config)
    problems = unreadable_photos(inputs, options.skip_unreadable, say)
    skipped = frozenset(problem.index for problem in problems)
    if needs:  # then masks alone would not help
        asked = {}
        if options.preset is not None:
            asked = dict.fromkeys(_NEEDING, option("preset", options.preset))
        asked |= {key: f"{key}={value}" for key, value in options.overrides.items()}
        expect_modalities(inputs, config, asked, skipped, options.skip_unreadable)
        expect_masks(inputs, config)
    return _paster(options, inputs, config, skipped, older), problems


def _paster(
    options: AugmentOptions, inputs: Inputs, config: BatchCopyPasteConfig, skipped: frozenset[int], older: OlderRun
) -> Paster:
    if options.bank is None and options.is_balanced and not draws_objects(inputs, config):
        own = " and no source.kind=same_image" if config.source.kind == "same_image" else ""
        names = ", ".join(option(name) for name in ("balance", "threshold", "temperature"))
        raise AugmentError(
            f"{names}: expected {option('bank')}, or placement.grouping=instance{own}, which draw "
            "objects by their classes; give one of them"
        )
    balance = _balance(options, config, older)
    further: dict[str, Any] = {"skipped": skipped, "skips_unreadable": options.skip_unreadable}
    further["jitter"] = older.jitter(jitter_of(options.dataset, options.size, options.preset), options)
    if options.bank is None:
        return open_paster(inputs, config, options.seed, balance=balance, **further)
    crops = open_sequence(options.bank, inputs.class_names, options.seed, **balance)
    return Paster(inputs, config, options.seed, crops=crops, **further)


def _balance(options: AugmentOptions, config: BatchCopyPasteConfig, older: OlderRun) -> dict[str, Any]:
    """Return the options of the sampler of single objects."""
    is_default = options.bank is None and not options.is_balanced
    return older.balance(default_balance(config) if is_default else options.balance_options(), options)


def _facts(options: AugmentOptions, paster: Paster, older: OlderRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return everything that an image depends on but the bytes of the inputs; paths, which may change, are separate."""
    inputs, jitter = paster.inputs, paster.reader.jitter
    folders = {
        "--images": options.images_dir,
        "--panoptic-dir": options.panoptic_dir,
        "--backgrounds": options.backgrounds,
    }
    folders |= {} if inputs.found is None else {"folder": inputs.found.path}
    draws_single = paster.crops is not None or paster.objects is not None
    made = {
        "segpaste": __version__,
        "dataset": inputs.name,
        "annotations": older.annotations(inputs.digest, inputs.known_as),
        "bank": paster.crops and paster.crops.bank.version,
        "jitter": jitter and jitter.model_dump(mode="json"),
        "skipped photos": sorted(paster.sequence.skipped),
        **{f"--{flag}": getattr(options, name) for flag, name in _NAMED.items()},
        **({"balance": _balance(options, paster.config, older)} if draws_single else {}),
        **({"--depth-fill": True} if inputs.fills_depth else {}),
        **({} if options.tool is None else {"--for": options.tool}),
        **({"--keep-originals": f"after {options.num} images"} if options.keep_originals else {}),
        **flat(paster.config.model_dump(mode="json")),
    }
    return made, {name: path and os.path.abspath(path) for name, path in folders.items()}


def _made(options: AugmentOptions, paster: Paster, digest: str) -> dict[str, Any]:
    """Return how this dataset was made, without times and paths, so that equal runs give equal bytes."""
    words = ["segpaste augment", paster.inputs.name, f"--num {options.num}"]
    named = ((flag, getattr(options, name)) for flag, name in _NAMED.items())
    words += [f"--{flag} {_word(value)}" for flag, value in named if value is not None]
    words += ["--depth-fill"] if paster.inputs.fills_depth else []
    words += [] if options.tool is None else [f"--for {options.tool}"]
    words += ["--keep-originals"] if options.keep_originals else []
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in options.overrides.items()}
    words += [f"{key}={text}" for key, text in texts.items()]
    jitter = paster.reader.jitter
    return {
        "command": " ".join(words),
        "run": digest,
        "seed": options.seed,
        "config": paster.config.model_dump(mode="json"),
        **({} if jitter is None else {"jitter": jitter.model_dump(mode="json")}),
        "source": {"name": paster.inputs.name, "sha256": paster.inputs.digest},
        **({} if paster.crops is None else {"bank": paster.crops.bank.version}),
    }


def _word(value: Any) -> str:
    """Return the value of an option as written on the command line."""
    return f"{value[1]}x{value[0]}" if isinstance(value, tuple) else str(value)
