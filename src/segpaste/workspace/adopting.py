"""Transfer of finished steps to another run, which merges the shards of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from segpaste.workspace.runs import Notes
from segpaste.workspace.whole import make_folder, rename_flushed


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
