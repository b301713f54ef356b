"""Measure the rows."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from segpaste.bank import build_bank
from segpaste.datasets import open_dataset

from ..large_files import write_dataset
from ..loading import write_scenes
from ..plan import Everyday, Loading, Plan
from .rows import AGAIN, BASE, OWN, ROWS, Row
from .turns import SOURCE, Data, Figures, Measured, in_turns, remote

PER_IMAGE = 10
"""Annotations of an image of the large file."""


def prepared(folder: Path, size: Everyday, dataset: Path | None = None, images: Path | None = None) -> Data:
    """Write what the cases work on into a folder: scenes if there is no dataset, a bank, and a large file."""
    if dataset is None:
        images, dataset = write_scenes(folder, Loading(photos=size.scenes, photo_size=size.photo_size))
    opened = open_dataset(dataset, images_dir=images)
    build_bank(opened, folder / "bank", class_names=opened.class_names)
    (folder / "large").mkdir()
    write_dataset(folder / "large", size.large_images, PER_IMAGE)
    paths = {"bank": "bank", "large": "large/annotations.json", "scratch": "."}
    sizes = {"calls": size.calls, "num": size.augmented, "side": size.side}
    files = {key: str(folder / name) for key, name in paths.items()}
    return Data(str(dataset), images and str(images), **files, **sizes)


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """Measure the rows, for `segpaste bench`: always on the CPU, with one thread."""
    return measure_rows(plan.everyday)


def measure_rows(
    size: Everyday,
    dataset: Path | None = None,
    images: Path | None = None,
    *,
    base: Path | None = None,
    peers: Sequence[str] = (),
    only: str | None = None,
    announce: Callable[[str], object] = str,
) -> dict[str, Any]:
    """Measure the cases of the rows; each case once, whatever number of rows it has.

    Args:
        size: extent of the run.
        dataset: to work on; scenes by default.
        images: folder of its images, if it does not name it itself.
        base: folder that contains the package ``segpaste`` of another build.
        peers: interpreters of environments with other libraries. The first that has what a case needs runs it.
        only: text of the cases that are measured; by default that of ``size``.
        announce: called with each case before it is measured.

    Returns:
        ``figures`` of each case by contender and unit, and ``skipped``, why a contender of a case has none.
    """
    found: dict[str, Measured] = {}
    skipped: dict[str, dict[str, str]] = {}
    rows = [row for row in ROWS if (size.only if only is None else only) in row.case]
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as name:
        data = prepared(Path(name), size, dataset, images)
        for row in rows:
            if row.case not in found:
                announce(row.case)
                found[row.case], skipped[row.case] = in_turns(_contenders(row, data, base, peers), size.repeats)
    return {"figures": found, "skipped": {case: reasons for case, reasons in skipped.items() if reasons}}


def _contenders(row: Row, data: Data, base: Path | None, peers: Sequence[str]) -> dict[str, Iterator[Figures]]:
    """Return the builds and other libraries of a row."""
    builds = {OWN: SOURCE, **({BASE: base} if base else {}), AGAIN: SOURCE}
    contenders: dict[str, Iterator[Figures]] = {
        name: remote(sys.executable, path, row.case, data) for name, path in builds.items()
    }
    for name, case in row.peers.items():
        contenders[name] = _first(peers or [sys.executable], case, data)
    return contenders


def _first(interpreters: Sequence[str], case: str, data: Data) -> Iterator[Figures]:
    """Yield the figures of the first interpreter that has what the case needs."""
    reasons = []
    for python in interpreters:
        try:
            yield from remote(python, SOURCE, case, data)
        except RuntimeError as error:
            reasons.append(str(error))
    raise RuntimeError("; ".join(reasons))
