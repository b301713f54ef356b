"""Builds and other libraries in turns: each is a process that measures its case once when it is asked to."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import segpaste

PACKAGE = __package__ or ""
PROGRAMS = Path(__file__).parents[len(PACKAGE.split("."))]
"""The folder from which these programs are imported."""
SOURCE = Path(segpaste.__file__).parents[1]
"""The folder that contains the package ``segpaste`` of this build."""

Figures = dict[str, float]
"""Unit to figure, such as ``{"CPU s": 0.4, "MiB": 90.0}``."""

Measured = dict[str, dict[str, list[float]]]
"""Contender to unit to its figures, one for each turn."""


@dataclass(frozen=True, slots=True)
class Data:
    """What the cases work on.

    Attributes:
        dataset: a dataset, as `segpaste.datasets.open_dataset` takes it.
        images: folder of its images, if it does not name it itself.
        bank: a bank of its objects.
        large: a large file of COCO instances, beside its only image.
        scratch: a folder for outputs.
        calls: calls of a turn.
        num: images that ``augment`` writes.
        side: of the batches of steps and of loaded samples, pixels.
    """

    dataset: str
    images: str | None
    bank: str
    large: str
    scratch: str
    calls: int = 25
    num: int = 200
    side: int = 512


def figures_of(case: str, data: Data) -> Iterator[Figures]:
    """Return the figures of a case, without end: ``module:function:argument:...``, the module in this package."""
    module, function, *arguments = case.split(":")
    figures: Iterator[Figures] = getattr(importlib.import_module(f"{PACKAGE}.{module}"), function)(data, *arguments)
    return figures


def remote(python: str, source: Path, case: str, data: Data) -> Generator[Figures]:
    """Yield the figures of a case, measured by another process.

    Args:
        python: its interpreter.
        source: the folder that contains its package ``segpaste``.
        case: see `figures_of`.
        data: what it works on.

    Raises:
        RuntimeError: the process ended; the last line of its stderr that is not indented is the message.
    """
    path = os.pathsep.join(map(str, (source, PROGRAMS)))
    process = subprocess.Popen(
        [python, "-m", f"{PACKAGE}.turns", case, json.dumps(asdict(data))],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        while True:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("\n")
                process.stdin.flush()
            if not (line := process.stdout.readline()):
                said = [line for line in process.communicate()[1].splitlines() if line.strip() and line[0] != " "]
                raise RuntimeError(said[-1] if said else f"it ended with {process.returncode}")
            yield json.loads(line)
    finally:
        process.kill()
        process.communicate()


def in_turns(contenders: Mapping[str, Iterator[Figures]], repeats: int) -> tuple[Measured, dict[str, str]]:
    """Return the figures of each contender, measured in turn, and why some have none.

    The first turn of each does not count. The order changes from turn to turn.
    """
    found: Measured = {}
    skipped: dict[str, str] = {}
    for number in range(repeats + 1):
        names = [name for name in contenders if name not in skipped]
        for name in names if number % 2 else names[::-1]:
            try:
                figures = next(contenders[name])
            except (ImportError, RuntimeError) as error:
                skipped[name] = str(error)
                found.pop(name, None)
                continue
            for unit, figure in figures.items() if number else ():
                found.setdefault(name, {}).setdefault(unit, []).append(figure)
    return found, skipped


def main(case: str, words: dict[str, Any]) -> None:
    """Print the next figures of a case for each line of the input."""
    with contextlib.redirect_stdout(sys.stderr):  # of libraries that print
        figures = figures_of(case, Data(**words))
        for _ in sys.stdin:
            print(json.dumps(next(figures)), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
