"""Rare classes: does pasting objects of a bank, all classes alike, help the tail, and does it keep the head?

    python -m evidence.rare_classes run        # what is not done yet: trials, then the runs; may be stopped at any time
    python -m evidence.rare_classes status     # how many runs are done
    python -m evidence.rare_classes page       # docs/evidence/rare-classes.md and its pictures, from the runs

`evidence/protocols/rare-classes.md` says what is compared, and was committed before the first run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import rare_classes_page
from .measures import group_iou
from .protocol import Protocol, tune
from .runs import Run, RunFolder, run_missing

NAME = "rare-classes"
RESULTS = Path(__file__).parent / "results" / NAME
TRAIN = "evidence.training:train"


def validation_score(run: Run) -> float:
    """Return the mean over all classes, without the background, on validation scenes: what tuning maximises."""
    ious = run.found["validation"]
    return group_iou(ious, list(range(len(ious) - 1)))


def run_all(protocol: Protocol, folder: RunFolder, processes: int) -> None:
    """Run what is not done: tuning, the runs of equal steps, and those of equal CPU seconds."""
    choices = tune(protocol, folder, validation_score, TRAIN, processes)
    for arm, choice in choices.items():
        print(f"{arm}: {choice}", flush=True)
    run_missing(folder, protocol.compared(choices) + protocol.longer_runs(choices), TRAIN, processes)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence.rare_classes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("run", "status", "gather", "page"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the runs")
    parser.add_argument("--processes", type=int, default=2, help="runs at once, of one thread each")
    args = parser.parse_args()
    protocol, folder = Protocol.load(NAME), RunFolder(args.results)
    if args.command == "run":
        run_all(protocol, folder, args.processes)
    elif args.command == "status":
        print(f"{sum(1 for _ in folder)} runs done in {args.results}")
    elif args.command == "gather":
        print(folder.gather())
    else:
        print(rare_classes_page.write(protocol, folder, validation_score))


if __name__ == "__main__":
    main()
