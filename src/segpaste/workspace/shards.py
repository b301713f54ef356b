"""Shards of a run: parts of its steps that are made in folders of their own, at the same time and on any machines.

    OUT.shards/002-of-004/run.json, parts/, files/    a `Run` each

Folders made elsewhere may be copied there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from segpaste.workspace._locks import lock_folder
from segpaste.workspace.runs import Run


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
