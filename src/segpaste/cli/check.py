"""`segpaste check`: check the health of a dataset; the exit code is 1 if something is wrong."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste.cli._arguments import add_class_attribute, add_photos, add_progress, add_repeated_ids, integer
from segpaste.cli._errors import CommandError
from segpaste.cli._process import importing

if TYPE_CHECKING:
    from segpaste.datasets.checking.report import HealthReport
    from segpaste.datasets.formats.registry import FoundDataset

_EXAMPLE = """\
An error would stop segpaste augment or a training run; a remark would not, but may be a mistake in the data. The exit
code is 1 if there is an error, or if a tool that --for names would lose or change a label or not start, else 0. With
--for all it is that of the errors. For each image only the header is read, with --decode also the pixels. Without
--split it is the split to train on; what tools of --for do is told of all splits.

examples:
  segpaste check instances.json --images photos
  segpaste check data.yaml --split val --decode
  segpaste check panoptic.json --images photos --panoptic-dir panoptic --decode
  segpaste check roboflow_export --json
  segpaste check data.yaml --for ultralytics
  segpaste check instances.json --images photos --for all
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Check all images and annotations of a dataset, and list their problems."
    parser = commands.add_parser("check", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste check ANNOTATIONS.json|FOLDER|DATA.yaml [options]"
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="any dataset that segpaste augment reads")
    add_photos(parser)
    add_repeated_ids(parser, "each is a remark, and an error for the tools of --for, which read the file itself")
    add_class_attribute(parser)
    add("--decode", action="store_true", help="also read the pixels of all images and maps")
    add(
        "--workers",
        metavar="N",
        type=integer(0, 256),
        default=8,
        help="images read at once, default: 8; 0 is the same as 1",
    )
    add("--show", metavar="N", type=integer(0), default=5, help="findings of each kind to print, default: 5")
    add(
        "--for",
        dest="tools",
        metavar="TOOL[,TOOL...]",
        type=_names,
        default=(),
        help="also tell what other tools do to this dataset, such as ultralytics or pycocotools; all: a line for each",
    )
    add("--json", action="store_true", help="print the report as JSON")
    add_progress(parser)
    parser.set_defaults(run=run)


def _names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def run(args: argparse.Namespace) -> None:
    """Check the dataset and print the report."""
    if args.dataset == "scenes":
        raise CommandError("scenes: expected a dataset of files, got synthetic scenes; name a dataset")
    report, splits, absent = _check(args)
    if args.json:
        told = {"dataset": args.dataset, "split": splits[0] if splits else None, **report.to_dict()}
        print(json.dumps(told, indent=2))
    else:
        from segpaste.datasets.checking.report import report_lines

        name = f"{args.dataset}, split {splits[0]}" if splits else args.dataset
        print("\n".join(report_lines(report, name, num_shown=args.show, decode="--decode")))
        if others := splits[1:]:
            what = "only what tools do to them was checked" if args.tools and args.split is None else "not checked"
            print(f"other splits: {', '.join(map(printable, others))}; {what}; --split NAME checks one")
        if absent:
            print(f"no files: split {', '.join(map(printable, absent))}; no tool that trains was seen to mind")
    is_bad = any(tool.errors for tool in report.tools)
    if "all" not in args.tools:  # none keeps everything, and nobody uses all of them
        is_bad = is_bad or not all(tool.keeps_labels and not tool.lacks for tool in report.tools)
    if is_bad or not report.is_healthy:
        raise SystemExit(1)


def _check(args: argparse.Namespace) -> tuple[HealthReport, Sequence[str], Sequence[str]]:
    """Return the report, the names of the checked split and of the others, and those of which there is no file.

    There are no names for a dataset without splits.

    Without ``--split`` tools are reported for the others, too.
    """
    import warnings

    options: dict[str, Any] = {"decode": args.decode, "num_threads": max(1, args.workers), "tools": args.tools}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # findings contain them in detail
        with importing():  # reading imports torch if the annotations of a format are those of its samples
            from segpaste.cli._printed import progress
            from segpaste.datasets.checking.check import check_dataset, check_unopened, tools_of_split
            from segpaste.datasets.checking.tools.registry import TOOLS
            from segpaste.datasets.checking.tools.starts import lacks_of
            from segpaste.datasets.errors import DatasetError
            from segpaste.datasets.formats.format import ReadOptions
            from segpaste.datasets.formats.registry import find_dataset

            given = ReadOptions(
                args.images,
                args.panoptic_dir,
                args.task,
                repeated_ids=args.repeated_ids,
                class_attribute=args.class_attribute,
            )
            rejected = None
            try:
                found = find_dataset(args.dataset, args.from_)
                annotations = found.read(args.split, given)
            except DatasetError as error:
                rejected = error
        if rejected is not None:
            report = check_unopened(args.dataset, rejected, args.split, given, format=args.from_, **options)
            found = find_dataset(args.dataset, args.from_)
        elif not len(annotations):
            raise CommandError(f"{found.path}: expected at least one image, got none")
        else:
            with progress(len(annotations)) as bar:
                report = check_dataset(annotations, advance=bar.update, **options)
        splits = _splits(found, args.split)
        absent = [name for name in splits[1:] if found.format.is_absent(found.path, name)]
        splits = [name for name in splits if name not in absent]
        if not splits or not args.tools:
            return report, splits, absent
        lacks = {name: lacks_of(found, splits, TOOLS[name]) for name in {told.name for told in report.tools}}
        tools = [replace(told, split=splits[0], lacks=lacks[told.name]) for told in report.tools]
        for name in splits[1:] if args.split is None else ():
            try:
                first = None if rejected is not None else annotations.categories
                tools += tools_of_split(found, name, given, args.tools, options["num_threads"], first)
            except DatasetError as error:
                lack = f"split {name} cannot be read: {error}"
                tools += [replace(told, split=name, findings=(), errors=1, lacks=lack) for told in report.tools]
        return replace(report, tools=tuple(tools)), splits, absent


def _splits(found: FoundDataset, chosen: str | None) -> Sequence[str]:
    """Return the splits of a dataset, the checked one first; none without splits."""
    from segpaste.datasets.formats.format import NO_SPLIT

    if found.splits == (NO_SPLIT,):
        return ()
    checked = found.chosen_split(chosen)
    return checked, *(name for name in found.splits if name != checked)
