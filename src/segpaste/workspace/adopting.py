"""Steps of one run that another one takes over, as the shards of a run are put together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from segpaste.workspace.runs import Notes
from segpaste.workspace.whole import make_folder, rename_flushed


def adopt_step(step: int, source: Notes, target: Notes, files: Iterable[tuple[Path, Path]]) -> None:
    """Move a finished step to another run: its files first, then its note. After a kill it can be called again.

    Args:
        step: finished in ``source``.
        source: notes of the run that has made it.
        target: notes of the run that takes it over, on the same file system.
        files: the old and the new path of each of the step's files.

    Raises:
        OSError: a file is in neither place, or cannot be moved.
    """
    for old, new in files:
        make_folder(new.parent)
        if old.exists() or not new.exists():
            os.replace(old, new)
    rename_flushed(source.path(step), target.path(step))
