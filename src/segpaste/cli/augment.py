"""`segpaste augment`: make an augmented dataset in the format of the input, with the provenance of every object."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from segpaste._reprs import counted
from segpaste.augmenting.options import SIDES_PX, WRITTEN_TASKS, AugmentOptions
from segpaste.cli._arguments import (
    add_backgrounds,
    add_balance,
    add_depth_fill,
    add_field,
    add_photos,
    add_progress,
    add_verify,
    options_of,
    shard,
    sides,
)
from segpaste.cli._errors import CommandError
from segpaste.cli._names import preset_and_key_lines
from segpaste.cli._process import importing
from segpaste.workspace import Workspace

_EXAMPLE = f"""\
KEY=VALUE overrides the configuration: placement.scale_range=[0.5,1.5], placement.k_range=[1,5].

{preset_and_key_lines()}

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
  segpaste augment instances.json --images photos --out augmented --num 1000 --for ultralytics
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
_NUM_PLACES = 3


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Write a new dataset of augmented images, in the format of the given one."
    parser = commands.add_parser("augment", help=summary, description=text, example=_EXAMPLE)
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
    field = partial(add_field, parser, AugmentOptions)
    field("num", "images to make; image i does not depend on N", metavar="N", required=True)
    field("seed", "seed of the draws, default: 0", metavar="S")
    text = (
        "jitter every image to this size, or own: keep its size; default: that of the preset, else own. Side of scenes"
    )
    add("--size", metavar="WxH|PX|own", type=sides(*SIDES_PX), help=f"{text}, default: {_DEFAULT_SIZE_PX}")
    text = (
        "format of the images: jpg has losses (quality 95), same: jpg for images that are read from a JPEG, else png; "
    )
    field("image_format", f"{text}default: same")
    field("layout", "layout of the new dataset, default: that of the given one, else coco")
    text = "make it for this tool, such as ultralytics: layout and task that it reads best, and a check of the result"
    add("--for", dest="tool", metavar="TOOL", help=text)
    text = "write the images of the dataset, unchanged, after the augmented ones"
    add("--keep-originals", action="store_true", help=text)
    field("gallery", "images to draw, default: 12", metavar="G")
    add("--preset", metavar="NAME|FILE", help="name of a preset, such as vit_patch, or a preset saved in YAML or JSON")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON")
    add("--bank", metavar="BANK", help="paste objects of this instance bank, instead of the dataset's own")
    add_balance(parser, "how the classes of pasted objects are drawn", pastes=True)
    text = "number of processes, default: 1; the files have the same bytes with any number"
    field("workers", text, metavar="W")
    field("engine", "engine of the workers, default: local")
    text = "make only shard I of N; the shard that finishes last, or the command without --shard, assembles all"
    add("--shard", metavar="I/N", type=shard, help=text)
    add_verify(parser)
    add("--skip-unreadable", action="store_true", help="leave out images that cannot be read, and count them")
    add("--dry-run", action="store_true", help="estimate the pastes, without writing anything")
    add_progress(parser)
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Make the dataset; exit with 1 if nothing is pasted."""
    start = time.perf_counter()
    options = options_of(AugmentOptions, args)
    Workspace(Path(os.path.abspath(args.out)), CommandError)  # refuses a name before the imports, which take seconds
    with importing():
        from segpaste.augmenting.augment import augment
        from segpaste.cli._printed import print_summary, progress_bars, start_lines
        from segpaste.datasets.checking.tools.tool_report import tool_lines

    with progress_bars() as progress:
        summary = augment(options, partial(print, flush=True), progress)
    if summary.state == "there":
        print(f"complete {args.out}/ already, with {counted(args.num, 'image')}")
    if summary.state == "waiting":
        print(f"shard    {args.shard[0]}/{args.shard[1]} is complete; {summary.waiting_for}")
    if summary.state != "made":
        return
    if summary.verified.images:
        print(f"verified {summary.verified}")
    print_summary(summary, time.perf_counter() - start)
    if summary.copied:
        print(f"copied   {', '.join(summary.copied)}: {counted(summary.num_copied, 'file')}, unchanged")
    for report in summary.for_tool:
        print("\n".join(tool_lines(report, _NUM_PLACES)))
    if summary.start is not None:
        print("\n".join(start_lines(summary.start)))
    print(f"files    {args.out}/: " + ", ".join(sorted(path.name for path in summary.out.iterdir())))
    if not summary.has_pastes:
        raise SystemExit("nothing was pasted into any image; the reasons and advice are above")
