"""Command line shared by all comparisons."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .protocol import Protocol, Score, tune
from .runs import RunFolder, run_missing

_RESULTS = Path(__file__).parent / "results"
_DOCS = Path(__file__).parents[1] / "docs" / "evidence"

WritePage = Callable[[Protocol, RunFolder, Score, Path], Path]


def main(name: str, doc: str | None, train: str, score: Score, write_page: WritePage) -> None:
    """Run a comparison, count its runs, gather them in one file, or write its page.

    Args:
        name: of the protocol.
        doc: the program's docstring.
        train: ``module:name`` of the function that does a run.
        score: the validation score of a run, for tuning.
        write_page: writes the page of runs that are all done, and returns its path.
    """
    protocol = Protocol.load(name)
    command_line(
        name,
        doc,
        lambda folder, processes: run_all(protocol, folder, score, train, processes),
        lambda folder, docs: write_page(protocol, folder, score, docs),
    )


def command_line(
    name: str,
    doc: str | None,
    run: Callable[[RunFolder, int], None],
    write_page: Callable[[RunFolder, Path], Path],
) -> None:
    """Parse the command line and do what it says.

    Args:
        name: of the protocol.
        doc: the program's docstring.
        run: does what is missing in a folder, in so many processes.
        write_page: writes the page of a folder of runs into a folder of pages, and returns its path.
    """
    program = f"python -m evidence.{name.replace('-', '_')}"
    parser = argparse.ArgumentParser(
        prog=program, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "status", "gather", "page"))
    parser.add_argument("--results", type=Path, default=_RESULTS / name, help="folder of the runs")
    parser.add_argument("--processes", type=int, default=2, help="runs at once, of one thread each")
    parser.add_argument("--docs", type=Path, default=_DOCS, help="folder of the page")
    args = parser.parse_args()
    folder = RunFolder(args.results)
    if args.command == "run":
        run(folder, args.processes)
    elif args.command == "status":
        print(f"{sum(1 for _ in folder)} runs done in {args.results}")
    elif args.command == "gather":
        print(folder.gather())
    else:
        print(write_page(folder, args.docs))


def run_all(protocol: Protocol, folder: RunFolder, score: Score, train: str, processes: int) -> None:
    """Run what is not done: tuning, the runs of equal steps, and those of equal CPU seconds."""
    choices = tune(protocol, folder, score, train, processes)
    for arm, choice in choices.items():
        print(f"{arm}: {choice}", flush=True)
    run_missing(folder, protocol.compared(choices) + protocol.longer_runs(choices), train, processes)
