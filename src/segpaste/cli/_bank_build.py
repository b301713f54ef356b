"""`segpaste bank build`: build a bank of a dataset's objects."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from segpaste._printable import class_lines
from segpaste.bank import BuildSummary, Selection, build_bank
from segpaste.bank.building.cropping import DEFAULT_MARGIN_FRAC
from segpaste.bank.building.parts import REASONS
from segpaste.cli._bank_sources import open_sources
from segpaste.cli._errors import CommandError


def run(args: argparse.Namespace) -> None:
    """Build the bank, and print what became of the annotations."""
    start = time.perf_counter()
    of_scenes = {"--num": args.num, "--size": args.size, "--seed": args.seed}
    if "scenes" not in args.datasets and (given := [name for name, value in of_scenes.items() if value is not None]):
        raise CommandError(f"{given[0]}: expected this option with scenes only; leave it out")
    sources = open_sources(args)
    inputs = sources.joined
    min_part = {} if args.min_part is None else {"min_part_frac": args.min_part}
    summary = build_bank(
        inputs.photos,
        args.out,
        class_names=inputs.class_names,
        format=args.format,
        crop_size=args.crop_size,
        fit_into=args.fit_into,
        margin_frac=DEFAULT_MARGIN_FRAC if args.margin is None else args.margin,
        selection=Selection(args.min_area, args.min_fill, args.whole_only, **min_part),
        depth_fill=args.depth_fill,
        workers=max(1, args.workers),
        engine=args.engine,
        built_from={"dataset": inputs.name, "annotations_sha256": inputs.digest, **sources.said},
        fingerprint=sources.folders,
        work_dir=args.work_dir,
        skip_unreadable=args.skip_unreadable,
    )
    print("\n".join(lines(summary, inputs.class_names, args.min_area)))
    seconds = time.perf_counter() - start
    print(f"time     {seconds:.1f} s, {summary.num_crops / seconds:,.0f} crops/s")


def lines(summary: BuildSummary, class_names: list[str], min_area: int) -> Iterator[str]:
    """Yield the printed lines about a build."""
    yield f"bank     {summary.where}"
    yield f"kept     {summary.num_crops:,} crops from {summary.num_photos:,} images"
    kept = [(name, num) for name, num in zip(class_names, summary.kept, strict=True) if num]
    yield from class_lines(kept, 32, 10)
    if num_none := len(class_names) - len(kept):
        yield f"absent   {num_none} {'class has' if num_none == 1 else 'classes have'} no crop"
    if num := summary.num_trimmed:
        yield f"trimmed  {num:,} {'crop' if num == 1 else 'crops'}, whose stray parts were cut off"
    yield f"skipped  {sum(summary.skipped.values()):,}"
    texts = {**REASONS, "small": f"smaller than --min-area {min_area}"}
    for reason, num in summary.skipped.items():
        if num:
            yield f"  {texts[reason]:<32} {num:>10,}"
