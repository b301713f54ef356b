"""`segpaste replay`: recreate images of an augmented dataset from their records, or compare them with the files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from segpaste._reprs import counted
from segpaste.augmenting.options import WRITTEN_TASKS, ReplayOptions
from segpaste.cli._arguments import add_backgrounds, add_photos, add_progress, add_verify, integer, options_of
from segpaste.cli._errors import CommandError
from segpaste.cli._process import importing
from segpaste.workspace import Workspace

_EXAMPLE = """\
RECORDS is the replay.jsonl of segpaste augment, or its folder, whose layout is used for the images. The dataset is the
one that was augmented; the configuration is in the records. With --check nothing is written: the exit code is 0 if
every image, its annotations, depth and normals are bit for bit equal, else 1.

examples:
  segpaste replay augmented --dataset instances.json --images photos --check augmented
  segpaste replay augmented/replay.jsonl --dataset instances.json --images photos --image 000007.png --out again
  segpaste replay augmented --dataset data.yaml --check augmented
  segpaste replay scenes --dataset scenes --index 0 --out again
"""
_NUM_SHOWN = 10


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Recreate augmented images from their records, or check that the files are the same."
    parser = commands.add_parser("replay", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste replay RECORDS --dataset DATASET (--out DIR | --check DIR) [options]"
    add = parser.add_argument
    add("records", metavar="RECORDS", type=Path, help="replay.jsonl, or the folder of the augmented dataset")
    add("--dataset", metavar="DATASET", help="the dataset that was augmented")
    add_photos(parser, WRITTEN_TASKS)
    add_backgrounds(parser)
    add("--bank", metavar="BANK", help="the instance bank of the pasted crops, if any")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--index", metavar="I", type=integer(0), help="only the record at this index, from 0")
    which.add_argument("--image", metavar="NAME", help="only the image with this name, such as 000007.png")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="DIR", type=Path, help="write the images and annotations there")
    what.add_argument("--check", metavar="DIR", type=Path, help="compare with this augmented dataset instead")
    add_verify(parser)
    add_progress(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Remake the images and write or compare them; exit with 1 if one differs."""
    options = options_of(ReplayOptions, args)
    if args.out is not None:  # before the imports, which take seconds
        Workspace(Path(os.path.abspath(args.out)), CommandError).expect_free()
    with importing():
        from segpaste.augmenting.replay import replay_records
        from segpaste.augmenting.summary import left_out_lines
        from segpaste.cli._printed import progress_bars

    with progress_bars() as progress:
        summary = replay_records(options, progress)
    if args.out is not None:
        print("\n".join([f"replayed {counted(summary.num_images, 'image')}", *left_out_lines(summary.left_out)]))
        if summary.verified.images:
            print(f"verified {summary.verified}")
        print(f"files    {args.out}/: " + ", ".join(sorted(path.name for path in args.out.iterdir())))
        return
    found = summary.differences
    different = {name: words for name, words in found.items() if words}
    for name, words in list(different.items())[:_NUM_SHOWN]:
        print(f"{name}: {', '.join(words)}")
    if len(different) > _NUM_SHOWN:
        print(f"and {len(different) - _NUM_SHOWN:,} more")
    print(f"{len(found) - len(different)} of {len(found)} identical")
    if different:
        raise SystemExit(1)
