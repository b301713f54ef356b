"""`segpaste bench`: time a step on this machine, and compare it with a copy of its batch and with other libraries."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segpaste.cli._arguments import integer
from segpaste.cli._errors import CommandError
from segpaste.cli._printed import progress
from segpaste.workspace import NewFolder, expect_free, naming

_EXAMPLE = """\
Times are multiples of the time to clone the same batch. All methods are measured in turn in one run. Other libraries
are measured if they are installed: pip install 'albumentationsx>=2.5' 'kornia>=0.8' 'ultralytics>=8.4'.

examples:
  segpaste bench --quick
  segpaste bench --threads 2 --out bench_out
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = (
        "Measure what users do, time and memory of a step, and the loader; print Markdown. Takes half an hour, with "
        "--quick two minutes."
    )
    parser = commands.add_parser("bench", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste bench [options]"
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", dest="size", action="store_const", const="quick", help="fewer and smaller batches")
    sizes.add_argument("--tiny", dest="size", action="store_const", const="tiny", help=argparse.SUPPRESS)  # for tests
    parser.add_argument("--threads", metavar="N", type=integer(1, 1024), default=1, help="threads of torch, default: 1")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write report.md, results.json and plots there")
    parser.set_defaults(run=run, size="full")


def run(args: argparse.Namespace) -> None:
    """Measure and print; the process restarts itself with an allocator that keeps freed memory."""
    if args.out is not None:
        expect_free(args.out, CommandError, "--out to be new or an empty folder")
    programs = load_programs()
    if args.device == "cuda" and not importlib.import_module("torch").cuda.is_available():
        raise CommandError("--device cuda: expected a CUDA device, torch sees none; use --device cpu")
    importlib.import_module(f"{programs}.timing").keep_freed_memory()
    suite = importlib.import_module(f"{programs}.suite")
    plan = suite.plan_for(args.size, args.device)
    with _staged(args.out) as folder:
        with _progress(len(suite.parts(plan, args.device))) as announce:
            results = suite.run(plan, args.threads, args.device, announce)
        if folder is not None:
            suite.write(folder, results)
    print(importlib.import_module(f"{programs}.report").markdown(results), end="")
    if errors := results.get("device_steps", {}).get("errors"):
        raise CommandError("expected steps that never wait for the device, got " + "; ".join(errors))


def load_programs(source: Path = Path(__file__).parents[2]) -> str:
    """Return the name of the package of benchmarks: part of an installed segpaste, or next to a checkout's sources.

    Args:
        source: the folder that contains the package ``segpaste``.

    Raises:
        CommandError: it is in neither place.
    """
    if importlib.util.find_spec("segpaste._benchmarks") is not None:
        return "segpaste._benchmarks"
    checkout = source.parent
    if not (checkout / "benchmarks" / "suite.py").is_file():
        raise CommandError(
            "expected the benchmark programs in segpaste._benchmarks or in the checkout's benchmarks/, found neither; "
            "install segpaste from a wheel, or run in a checkout"
        )
    sys.path.insert(0, str(checkout))
    try:
        importlib.import_module("benchmarks")
    finally:
        sys.path.remove(str(checkout))
    return "benchmarks"


@contextlib.contextmanager
def _staged(out: Path | None) -> Iterator[Path | None]:
    """Make a temporary folder, which is renamed to ``out`` on success and removed otherwise."""
    if out is None:
        yield None
        return
    with naming(out):
        new = NewFolder(os.path.abspath(out), CommandError, "report")
        try:
            yield new.folder
            new.publish()
        finally:
            new.discard()


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Yield a function that shows the name of the next measurement in a progress bar."""
    with progress(total, "part") as bar:
        started: list[str] = []

        def announce(name: str) -> None:
            bar.update(len(started) - bar.n)
            bar.set_description(name)
            started.append(name)

        yield announce
        bar.update(len(started) - bar.n)
