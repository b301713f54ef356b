"""Shards of `segpaste augment`: each makes every n-th step in a folder of its own; the last one assembles them.

    OUT.shards/002-of-004/run.json, parts/, files/    a `segpaste.workspace.Run` each

Shards may run at the same time, on any machines that share the folder; folders made elsewhere may be copied there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from segpaste.augmenting.errors import AugmentError
from segpaste.augmenting.steps import StepMaker
from segpaste.workspace import Fingerprint, Run, adopt_step, lock_folder, read_fingerprint


class Shard(NamedTuple):
    """One of several parts of a run.

    Attributes:
        number: number of the shard, from 1.
        total: number of shards.
    """

    number: int
    total: int

    def steps(self, num_steps: int) -> range:
        """Return the steps of this shard."""
        return range(self.number - 1, num_steps, self.total)


def folder_of(out: Path) -> Path:
    """Return the folder of the shards of an output."""
    return out.with_name(out.name + ".shards")


def run_of(out: Path, shard: Shard) -> Run:
    """Return the run of one shard."""
    return Run(folder_of(out) / f"{shard.number:03d}-of-{shard.total:03d}", AugmentError, owned=("files", "parts"))


def runs_of(out: Path) -> Iterator[Run]:
    """Yield the runs of all shards of an output that exist."""
    for folder in sorted(path for path in folder_of(out).glob("*-of-*") if path.is_dir()):
        yield Run(folder, AugmentError, owned=("files", "parts"))


def maker_of(maker: StepMaker, run: Run) -> StepMaker:
    """Return the maker of the steps of a shard."""
    return replace(maker, files=run.folder / "files", notes=run.notes)


def missing_steps(maker: StepMaker, run: Run, shard: Shard) -> list[int]:
    """Return the steps of a shard that neither it nor the whole run has finished."""
    own = maker_of(maker, run)
    return [step for step in shard.steps(maker.num_steps) if not own.is_done(step) and not maker.is_done(step)]


def missing_shards(out: Path, total: int, maker: StepMaker, fingerprint: Fingerprint) -> list[int]:
    """Return the numbers of the shards that are not finished."""
    found = []
    for shard in (Shard(number, total) for number in range(1, total + 1)):
        run = run_of(out, shard)
        there = read_fingerprint(run.folder)
        is_ours = there is None or not fingerprint.changes(there)
        if not is_ours or missing_steps(maker, run, shard):
            found.append(shard.number)
    return found


@contextmanager
def assembling(out: Path) -> Iterator[bool]:
    """Claim the shards of an output for assembly; False if another process assembles them already."""
    lock = lock_folder(folder_of(out))
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def adopt(out: Path, maker: StepMaker, fingerprint: Fingerprint) -> int:
    """Take over the finished steps of all shards of an output; return their number.

    Raises:
        AugmentError: a shard is of another run, or is being made.
    """
    num = 0
    with ExitStack() as locks:
        for run in runs_of(out):
            folder = run.folder
            if (lock := lock_folder(folder)) is None:
                raise AugmentError(f"{folder}: another process is writing this shard; wait until it ends")
            locks.callback(os.close, lock)
            there = read_fingerprint(folder)
            if there is None or fingerprint.changes(there):
                raise AugmentError(
                    f"{folder}: expected a shard of the same command, got one of another command; delete the folder"
                )
            for step in range(maker.num_steps):
                if run.notes.has(step) and not maker.is_done(step):
                    _adopt(step, maker_of(maker, run), maker)
                    num += 1
    return num


def remove(out: Path) -> None:
    """Remove the shards of a finished output."""
    for run in runs_of(out):
        run.remove()
    with suppress(OSError):
        folder_of(out).rmdir()


def _adopt(step: int, source: StepMaker, target: StepMaker) -> None:
    names = [name for item in source.notes.read(step) for name in item["files"]]
    adopt_step(step, source.notes, target.notes, [(source.files / name, target.files / name) for name in names])
