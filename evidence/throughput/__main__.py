"""Throughput: images per second of a training step with two loader workers, with and without pastes.

    python -m evidence.throughput run        # repeats that are not done yet, a minute or two each; may be stopped
    python -m evidence.throughput status     # how many repeats are done
    python -m evidence.throughput gather     # all repeats into one file, runs.jsonl
    python -m evidence.throughput page       # docs/evidence/throughput.md and its picture, from the repeats

Arms of other libraries need ``pip install '.[bench]'``; what is not installed is left out. Only for Linux, whose /proc
counts the CPU time of the workers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from benchmarks.peers import keep_quiet

from ..programs import command_line
from ..protocol import FOLDER
from ..runs import RunFolder
from . import page

NAME = "throughput"


def wanted(protocol: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of all repeats."""
    return [{"program": NAME, "repeat": number, **protocol["settings"]} for number in protocol["repeats"]]


def run(folder: RunFolder, settings: list[dict[str, Any]]) -> None:
    """Measure what is missing, one repeat after the other in one process."""
    from .measuring import Bench

    todo = folder.missing(settings)
    print(f"{len(settings) - len(todo)} repeats done, {len(todo)} to do", flush=True)
    if not todo:
        return
    torch.set_num_threads(todo[0]["threads"])
    keep_quiet()
    bench = Bench(todo[0])
    for one in todo:
        folder.write(one, bench.repeat(one["repeat"]))
        print(f"repeat {one['repeat']} done", flush=True)


def main() -> None:
    """Do what the command line says."""
    protocol = json.loads((FOLDER / f"{NAME}.json").read_text(encoding="utf-8"))
    settings = wanted(protocol)
    command_line(
        NAME,
        __doc__,
        lambda folder, processes: run(folder, settings),
        lambda folder, docs: page.write(folder, settings, docs),
    )


if __name__ == "__main__":
    main()
