"""Shards of a run: parts of its steps that are made in folders of their own, at the same time and on any machines.

    OUT.shards/002-of-004/run.json, parts/, files/    a `Run` each

Folders made elsewhere may be copied there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from segpaste.workspace.new_folder import lock_folder
from segpaste.workspace.runs import Notes, Run
from segpaste.workspace.whole import make_folder, rename_flushed


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


def shard_run(out: Path, shard: Shard, error: type[ValueError]) -> Run:
    """Return the run of one shard of an output; errors are raised as ``error``."""
    return _run(_folder(out) / f"{shard.number:03d}-of-{shard.total:03d}", error)


def shard_runs(out: Path, error: type[ValueError]) -> Iterator[Run]:
    """Yield the runs of all shards of an output that exist."""
    for folder in sorted(path for path in _folder(out).glob("*-of-*") if path.is_dir()):
        yield _run(folder, error)


def adopt_step(step: int, source: Notes, target: Notes, files: Iterable[tuple[Path, Path]]) -> None:
    """Move a finished step to another run: its files first, then its note. After a kill, call it again.

    Args:
        step: number of a step that is finished in ``source``.
        source: notes of the run that finished the step.
        target: notes of the other run, on the same file system.
        files: old and new path of each file of the step.

    Raises:
        OSError: a file is at neither path, or cannot be moved.
    """
    for old, new in files:
        make_folder(new.parent)
        if old.exists() or not new.exists():
            os.replace(old, new)
    rename_flushed(source.path(step), target.path(step))


@contextmanager
def assembling(out: Path) -> Iterator[bool]:
    """Claim the shards of an output for assembly; False if another process assembles them already."""
    lock = lock_folder(_folder(out))
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def remove_shards(out: Path) -> None:
    """Remove the shards of a finished output."""
    for run in shard_runs(out, ValueError):
        run.remove()
    with suppress(OSError):
        _folder(out).rmdir()


def _folder(out: Path) -> Path:
    return out.with_name(out.name + ".shards")


def _run(folder: Path, error: type[ValueError]) -> Run:
    return Run(folder, error, owned=("files", "parts"))
