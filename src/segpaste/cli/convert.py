"""`segpaste convert`: convert a dataset to another format, with everything that the format can hold."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste.augmenting.options import LAYOUTS, WRITTEN_TASKS
from segpaste.cli._arguments import add_class_attribute, add_end, add_new_dataset, add_repeated_ids, expect_dataset
from segpaste.cli._errors import CommandError
from segpaste.cli._process import importing

if TYPE_CHECKING:
    from segpaste.datasets.conversion.summary import ConversionSummary

_EXAMPLE = """\
Images are copied byte by byte. Licences, image fields, attributes and unknown keys are kept if the format can store
them, and listed otherwise. The result is built in DIR.partial, which is renamed to DIR at the end; the same command
resumes an interrupted run.

examples:
  segpaste convert instances.json --images photos --to yolo --out yolo
  segpaste convert data.yaml --to coco --out coco
  segpaste convert data.yaml --to yolo --task obb --out oriented
  segpaste convert panoptic.json --images photos --to label-maps --out maps --split train
  segpaste convert instances.json --images photos --to voc --out voc --strict
  segpaste convert instances.json --images photos --for ultralytics --out yolo
  segpaste convert boxes.yaml --to coco --out masks --masks-from facebook/sam-vit-base
"""
_DEPTH = ("npy", "png")
_NUM_PLACES = 3


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Write a dataset in another format."
    parser = commands.add_parser("convert", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste convert DATASET --to FORMAT|--for TOOL --out DIR [options]"
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="a folder or file of any format that segpaste reads")
    add("--to", choices=LAYOUTS, help="the new format, default: what the tool of --for reads best")
    add("--for", dest="tool", metavar="TOOL", help="write what this tool reads without a loss, such as ultralytics")
    add_new_dataset(parser)
    add("--split", metavar="NAME", nargs="+", help="splits to convert, default: all")
    add("--task", choices=WRITTEN_TASKS, help="task of written YOLO labels, default: that of the dataset")
    add(
        "--depth",
        dest="depth_format",
        choices=_DEPTH,
        default="npy",
        help="npy: metres, png: 16 bits of millimetres; default: npy",
    )
    text = (
        "for datasets of boxes: segment-anything model that predicts masks, a folder or a name on the Hugging Face hub"
    )
    add("--masks-from", metavar="MODEL", help=text)
    add("--device", metavar="DEVICE", help="device of that model, default: cpu")
    add_repeated_ids(parser, "both are counted as lost")
    add_class_attribute(parser)
    add_end(parser, strict="exit with code 1 if anything is lost, or the tool would not start")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Convert and print what became of the dataset."""
    expect_dataset("convert", args.dataset)
    with importing() if args.masks_from is None else nullcontext():  # a model takes all threads
        from segpaste.cli._printed import print_end, progress_bars
        from segpaste.datasets.conversion.convert import convert_dataset

    if args.to is None and args.tool is None:
        raise CommandError("convert: expected the new format (--to), or the tool that reads it (--for); give one")
    if args.device is not None and args.masks_from is None:
        raise CommandError("--device: expected --masks-from, whose model runs on it; give it")
    with progress_bars() as progress:
        summary = convert_dataset(
            args.dataset,
            args.out,
            args.to,
            tool=args.tool,
            splits=args.split,
            format=args.from_,
            images_dir=args.images,
            panoptic_dir=args.panoptic_dir,
            task=args.task,
            depth_format=args.depth_format,
            masks_from=args.masks_from,
            device=args.device or "cpu",
            repeated_ids=args.repeated_ids,
            class_attribute=args.class_attribute,
            verify=args.verify,
            progress=progress,
        )
    print_end(args, summary, lines(summary), is_as_wanted=summary.is_without_loss)


def lines(summary: ConversionSummary) -> Iterator[str]:
    """Yield the printed lines about a conversion."""
    from segpaste.cli._printed import start_lines
    from segpaste.datasets.checking.tools.tool_report import tool_lines

    yield f"dataset  {summary.out}, {summary.format}"
    for name, num in summary.num_photos.items():
        crowds = f" {num_crowds:>6,} crowds" if (num_crowds := summary.num_crowds.get(name, 0)) else ""
        objects = f"{summary.num_objects.get(name, 0):>10,} objects"
        yield f"  {printable(name or 'all'):<32} {num:>10,} images {objects}{crowds}"
    if summary.verified.images:
        yield f"verified {summary.verified}"
    if not summary.losses:
        yield "kept     everything"
    else:
        reader = f" for {summary.for_tool[0].label}" if summary.for_tool else ""
        yield f"lost     the format {summary.format}{reader} cannot hold:"
        yield from _counted(summary.losses)
    if summary.changes:
        yield "changed  written otherwise, with the same meaning:"
        yield from _counted(summary.changes)
    for report in summary.for_tool:
        yield from tool_lines(report, _NUM_PLACES)
    if summary.start is not None:
        yield from start_lines(summary.start)


def _counted(numbers: Mapping[str, int]) -> Iterator[str]:
    for what, num in sorted(numbers.items()):
        yield f"  {printable(what):<48} {num:>10,}"
