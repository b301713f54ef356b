"""Time what users do, in turns with another build and with what they would use instead.

    python -m benchmarks.everyday [--dataset PATH [--images FOLDER]] [--base FOLDER] [--peers PYTHON ...] [--out FILE]

Each contender of a row is a process of its own with one thread; they take turns, so that a busy machine slows all of
them. Figures are medians over the turns, with the lowest and the highest. FOLDER contains the package ``segpaste`` of
another build, such as ``src`` of a checkout; PYTHON is the interpreter of an environment with other libraries beside
what segpaste needs. Without a dataset, rendered scenes of 480 x 640 are used.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from .. import report, timing
from ..machine import machine
from ..plan import Everyday
from .measuring import measure_rows


def main() -> None:
    """Print the table, and write it and the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, help="a dataset of instances; default: scenes")
    parser.add_argument("--images", type=Path, help="its images, if it does not name their folder")
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="folder with the segpaste of another build")
    parser.add_argument("--peers", nargs="+", default=[], metavar="PYTHON", help="interpreters with other libraries")
    parser.add_argument("--rows", default="", metavar="TEXT", help="only rows whose case contains this")
    parser.add_argument("--repeats", type=int, default=7, help="turns of each contender, default: 7")
    parser.add_argument("--out", type=Path, help="path of a Markdown and a JSON file, without suffix")
    args = parser.parse_args()
    timing.keep_freed_memory()
    size = Everyday(repeats=args.repeats)
    options = {"base": args.base, "peers": args.peers, "only": args.rows}
    announce = functools.partial(print, file=sys.stderr, flush=True)
    found = measure_rows(size, args.dataset, args.images, **options, announce=announce)
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine([]), "everyday": found}
    report.publish("What a user does, and what it costs", report.everyday(found), results, args.out)


if __name__ == "__main__":
    main()
