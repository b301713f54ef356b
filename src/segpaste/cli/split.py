"""`segpaste split`: divide a dataset into parts such as train and val, stratified by class."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste.cli._arguments import add_end, add_new_dataset, expect_dataset, integer
from segpaste.cli._errors import CommandError
from segpaste.cli._process import importing

if TYPE_CHECKING:
    from segpaste.datasets.splitting.summary import SplitSummary

_EXAMPLE = """\
The new dataset has the format of the given one. Images, label files and maps are copied byte by byte; annotation files
are divided row by row. Every class that is in at least as many images (or groups) as there are parts, is in each part.
The seed and the images of each part are in DIR/split.json.

examples:
  segpaste split coco train=0.8,val=0.2 --out parts
  segpaste split instances.json train=0.7,val=0.15,test=0.15 --images photos --out parts --seed 1
  segpaste split data.yaml train=0.8,val=0.2 --split train --out parts --group-by folder
  segpaste split drives train=0.8,val=0.2 --out parts --group-by '(drive_\\d+)_frame'
"""
_NUM_CLASSES = 20


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Divide a dataset into parts such as train and val, stratified by class, in its own format."
    parser = commands.add_parser("split", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste split DATASET NAME=FRACTION,NAME=FRACTION[,...] --out DIR [options]"
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="a folder or file of a format that segpaste reads")
    add("parts", metavar="PARTS", nargs="+", help="name and fraction of each part, such as train=0.8,val=0.2")
    add_new_dataset(parser)
    add("--split", metavar="NAME", help="the split to divide, of a dataset that has several")
    text = (
        "folder: keep the images of a folder together; or a regular expression that is found in all file names: keep "
        "together where it finds the same text, or the same text in its parentheses"
    )
    add("--group-by", metavar="GROUP", help=text)
    add("--seed", type=integer(0, 2**64 - 1), default=0, help="seed of the division, default: 0")
    add_end(parser, strict="exit with code 1 if something differs from the wanted parts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Divide the dataset and print what is in which part."""
    expect_dataset("split", args.dataset)
    parts = fractions(args.parts)
    with importing():
        from segpaste.cli._printed import print_end, progress_bars
        from segpaste.datasets.splitting.split import split_dataset

    with progress_bars() as progress:
        summary = split_dataset(
            args.dataset,
            args.out,
            parts,
            seed=args.seed,
            group_by=args.group_by,
            split=args.split,
            format=args.from_,
            images_dir=args.images,
            panoptic_dir=args.panoptic_dir,
            verify=args.verify,
            progress=progress,
        )
    print_end(args, summary, lines(summary), is_as_wanted=not summary.deviations)


def fractions(words: Sequence[str]) -> dict[str, float]:
    """Return the fraction of each part, from words such as ``train=0.8,val=0.2``.

    Raises:
        CommandError: a word is no name with a number, or a name comes twice.
    """
    found: dict[str, float] = {}
    for word in (word for text in words for word in text.split(",") if word):
        name, equals, number = word.partition("=")
        try:
            value = float(number) if name and equals else None
        except ValueError:
            value = None
        if value is None or name in found:
            got = f"{word!r}{' a second time' if name in found else ''}"
            raise CommandError(
                f"split: expected parts such as train=0.8,val=0.2, each name once, got {got}; correct it"
            )
        found[name] = value
    return found


def lines(summary: SplitSummary) -> Iterator[str]:
    """Yield the printed lines about a division."""
    yield f"dataset  {summary.out}, {summary.format}, seed {summary.seed}"
    total = sum(summary.num_images.values())
    for part, num in summary.num_images.items():
        yield f"  {part:<32} {num:>10,} images {num / total:>7.1%}, wanted {summary.fractions[part]:.1%}"
    shown = summary.classes[:_NUM_CLASSES]
    if shown:
        yield ""
        yield f"images   {'':<23}" + "".join(f" {part:>10.10}" for part in summary.num_images)
        for row in shown:
            yield f"  {printable(row.name):<30.30}" + "".join(f" {num:>10,}" for num in row.num_images)
        if more := len(summary.classes) - len(shown):
            yield f"  and {more:,} more frequent classes, see split.json"
        yield ""
    if summary.num_verified:
        yield f"verified {summary.num_verified:,} images"
    if summary.left_out:
        yield "not read, so not in the new dataset:"
        for what, num in sorted(summary.left_out.items()):
            yield f"  {printable(what):<48} {num:>10,}"
    for text in summary.deviations[:_NUM_CLASSES]:
        yield f"note     {printable(text)}"
    if len(summary.deviations) > _NUM_CLASSES:
        yield f"note     and {len(summary.deviations) - _NUM_CLASSES:,} more, see split.json"
