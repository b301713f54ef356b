"""`segpaste check`: check the health of a dataset; the exit code is 1 if something is wrong."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste.cli._arguments import add_photos, integer
from segpaste.cli._errors import CommandError
from segpaste.cli._printed import class_lines

if TYPE_CHECKING:
    from segpaste.datasets.health.report import HealthReport, Severity, Spread

_EXAMPLE = """\
An error would stop segpaste augment or a training run; a remark would not, but may be a mistake in the data. The exit
code is 1 if there is an error, else 0. For each image only the header is read, with --decode also the pixels.

examples:
  segpaste check instances.json --images photos
  segpaste check data.yaml --split val --decode
  segpaste check panoptic.json --images photos --panoptic-dir panoptic --decode
  segpaste check roboflow_export --json
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Check all images and annotations of a dataset, and list their problems."
    parser = commands.add_parser("check", help="check a dataset", description=text, example=_EXAMPLE)
    parser.usage = "segpaste check ANNOTATIONS.json|FOLDER|DATA.yaml [options]"
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="any dataset that segpaste augment reads")
    add_photos(parser)
    add("--decode", action="store_true", help="also read the pixels of all images and maps")
    add(
        "--workers",
        metavar="N",
        type=integer(0, 256),
        default=8,
        help="images read at once, default: 8; 0 is the same as 1",
    )
    add("--show", metavar="N", type=integer(0), default=5, help="findings of each kind to print, default: 5")
    add("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Check the dataset and print the report."""
    if args.dataset == "scenes":
        raise CommandError("scenes: expected a dataset of files, got synthetic scenes; name a dataset")
    report = _check(args)
    if args.json:
        print(json.dumps({"dataset": args.dataset, **report.to_dict()}, indent=2))
    else:
        print("\n".join(lines(args.dataset, report, args.show)))
    if not report.is_healthy:
        raise SystemExit(1)


def _check(args: argparse.Namespace) -> HealthReport:
    import warnings

    from segpaste.cli import _inputs
    from segpaste.cli._printed import progress
    from segpaste.datasets import DatasetError, check_dataset
    from segpaste.datasets.formats.format import ReadOptions
    from segpaste.datasets.health.check import check_unopened

    options: dict[str, Any] = {"decode": args.decode, "num_threads": max(1, args.workers)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # findings contain them in detail
        try:
            inputs = _inputs.open_dataset(args, 0, 0)
        except DatasetError as error:
            given = ReadOptions(images_dir=args.images, panoptic_dir=args.panoptic_dir, task=args.task)
            return check_unopened(args.dataset, error, args.split, given, format=args.from_, **options)
        with progress(len(inputs.photos)) as bar:
            return check_dataset(inputs.photos, advance=bar.update, **options)


def lines(name: str, report: HealthReport, num_shown: int) -> Iterator[str]:
    """Yield the printed lines of a report."""
    num = f"{report.num_objects:,} objects of " if report.has_annotations else ""
    yield f"{printable(name)}: {report.num_photos:,} images, {num}{len(report.classes):,} classes"
    yield from _findings(report, "error", num_shown)
    yield from _findings(report, "remark", num_shown)
    modes = "".join(f", {num:,} {mode}" for mode, num in report.photo_modes.items())
    yield f"\nimages     width {_spread(report.photo_width_px)}, height {_spread(report.photo_height_px)}{modes}"
    if not report.has_annotations:
        yield "objects    unknown: they are in the maps, whose pixels --decode reads"
        yield _verdict(report)
        return
    yield f"objects    {_spread(report.objects_per_photo)} in an image; each {_percent(report)} of it"
    sizes = ", ".join(f"{num:,} {size}" for size, num in report.object_sizes.items())
    yield f"sizes      {sizes} (COCO's: below 32², below 96², larger)"
    yield f"others     {report.num_crowds:,} crowds, {report.num_stuff:,} segments of stuff"
    yield f"pose       {report.num_with_keypoints:,} objects with labelled points"
    yield "classes"
    yield from class_lines(((found.name, found.num_objects) for found in report.classes if found.num_objects), 32, 10)
    yield _verdict(report)


def _findings(report: HealthReport, severity: Severity, num_shown: int) -> Iterator[str]:
    from segpaste.datasets.health.report import KINDS

    counts = report.counts(severity)
    yield f"\n{severity}s{'' if counts else ': none'}"
    for kind, num in counts.items():
        yield f"  {kind:<22} {num:>8,}  {KINDS[kind][1]}"
        for found in islice(report.of_kind(kind), num_shown):
            yield f"      {printable(found.message)}"
        if num > num_shown > 0:
            yield f"      and {num - num_shown:,} more"


def _spread(spread: Spread) -> str:
    if spread.min is None:
        return "unknown"
    if spread.min == spread.max:
        return f"{spread.min:,g}"
    return f"{spread.min:,g} to {spread.max:,g} (median {spread.median:,g})"


def _percent(report: HealthReport) -> str:
    spread = report.object_area_frac
    if spread.min is None or spread.median is None or spread.max is None:
        return "an unknown share"
    return f"{spread.min:.2%} to {spread.max:.2%} (median {spread.median:.2%})"


def _verdict(report: HealthReport) -> str:
    num_errors, num_remarks = (sum(report.counts(severity).values()) for severity in ("error", "remark"))
    heads = "" if report.was_decoded else "; only headers of images were read, --decode reads their pixels"
    return (
        f"\n{'healthy' if report.is_healthy else 'not healthy'}: {num_errors:,} errors, {num_remarks:,} remarks{heads}"
    )
