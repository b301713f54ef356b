"""`segpaste demo`: paste synthetic scenes and draw them, without data or downloads."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from segpaste.cli._arguments import MAX_SEED, integer
from segpaste.cli._printed import progress
from segpaste.workspace import naming

_EXAMPLE = """\
KEY=VALUE overrides the configuration: placement.scale_range=[0.5,1.5], placement.layers=2.

examples:
  segpaste demo --out demo_out --num 24 --seed 0
  segpaste demo --size 384 placement.layers=3
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Paste objects between synthetic scenes and write a gallery and an HTML report."
    parser = commands.add_parser("demo", help="paste synthetic scenes", description=text, example=_EXAMPLE)
    parser.usage = "segpaste demo [options] [KEY=VALUE ...]"
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("demo_out"), help="default: demo_out")
    parser.add_argument("--num", metavar="N", type=integer(1), default=24, help="number of images, default: 24")
    parser.add_argument("--seed", metavar="S", type=integer(0, MAX_SEED), default=0, help="default: 0")
    parser.add_argument("--size", metavar="PX", type=integer(32, 1024), default=256, help="image side, default: 256")
    parser.add_argument("--config", metavar="FILE", help="paste configuration in YAML or JSON")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Make the scenes, paste, draw and print."""
    start = time.perf_counter()
    from segpaste.cli import _inputs, _pasting, _settings, _show, _tally

    inputs = _inputs.open_scenes(args.seed, args.size)
    config = _settings.load_config(args.config, args.overrides, inputs.schema)
    paster = _pasting.open_paster(inputs, config, args.seed)
    tally, items = _tally.Tally(config), []
    args.out.mkdir(parents=True, exist_ok=True)
    with progress(args.num) as bar:
        for position in range(args.num):
            augmented = paster.image(position)
            described = _show.describe(augmented, inputs, inputs.photos.file_name(augmented.pick.index))
            tally.add(described)
            items.append(_show.report_item(described, _show.draw(augmented, paster)))
            bar.update()
    with naming(args.out):
        paths = _show.write_pages(args.out, items, tally, "segpaste demo")
    _tally.print_summary(tally, time.perf_counter() - start, (paster.num_pasted_into, paster.seconds))
    print("files    " + "\n         ".join(str(path) for path in paths))
