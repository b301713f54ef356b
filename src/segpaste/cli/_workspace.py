"""Where a long command builds its result: beside the final folder, in steps, so that it can stop and go on.

    OUT.partial/run.json     the fingerprint: what the finished result depends on
    OUT.partial/files/       what becomes OUT, by one rename, when all of it is there
    OUT.partial/parts/       what each finished step found, one JSON (and pictures) per step

A step's JSON is written last, after the files that it speaks of are on the disk, so a step is done or not done, also
after a power loss. Steps must be pure
functions of the fingerprint: then a run that stopped and went on leaves the same bytes as one that did not stop.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from segpaste import workspace
from segpaste.cli._errors import CommandError

RECORDS = "replay.jsonl"
"""The file of an augmented dataset that holds a replay record of every image, one per line."""


def partial_of(out: Path) -> Path:
    """Where the result for ``out`` is built."""
    return out.with_name(out.name + ".partial")


def expect_free(out: Path) -> None:
    """The final folder does not exist, or is empty.

    Raises:
        CommandError: otherwise.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CommandError(
            f"{out}: expected --out to be new or an empty folder, it is not; choose another, or remove it"
        )


class Workspace:
    """The folder of one run; open it with `opened`.

    Attributes:
        folder: OUT.partial.
        files: what becomes OUT.
        parts: what the steps found.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = partial_of(out)
        self.files = self.folder / "files"
        self.parts = self.folder / "parts"

    def is_done(self, step: int) -> bool:
        """Whether a step is finished."""
        return self._part(step).exists()

    def num_done(self) -> int:
        """How many steps are finished."""
        return len(list(self.parts.glob("*.json")))

    def pictures(self, step: int) -> Path:
        """Where a step may keep arrays, to be written whole before `finish_step`."""
        return self.parts / f"{step:06d}.npz"

    def finish_step(self, step: int, found: Any) -> None:
        """Mark a step as finished, with what it found (JSON)."""
        workspace.write_json(self._part(step), found)

    def found(self, step: int) -> Any:
        """What a finished step found."""
        return json.loads(self._part(step).read_bytes())

    def publish(self) -> None:
        """Give the finished files their final name."""
        expect_free(self.out)
        workspace.publish(self.files, self.out)
        shutil.rmtree(self.folder)

    def _part(self, step: int) -> Path:
        return self.parts / f"{step:06d}.json"


@contextlib.contextmanager
def opened(out: Path, fingerprint: Mapping[str, Any]) -> Iterator[Workspace]:
    """Start a run, or go on with the one that was interrupted; while it is open no other process may.

    A run that ends before its first step is finished leaves nothing behind.

    Args:
        out: the final folder.
        fingerprint: JSON; a run goes on only where it is equal.

    Raises:
        CommandError: an unfinished run of another fingerprint is there, or one that is running.
        OSError: the folder cannot be made.
    """
    space = Workspace(out)
    with workspace.claimed(space.folder, fingerprint, "--out", CommandError, results=("parts/*.json",)):
        if not space.files.is_dir():
            shutil.rmtree(space.parts, ignore_errors=True)
        elif not space.num_done():  # killed in its first step, perhaps with other arguments
            shutil.rmtree(space.files)
            shutil.rmtree(space.parts, ignore_errors=True)
        for folder in (space.files, space.parts):
            workspace.make_folder(folder)
        try:
            yield space
        finally:
            if space.folder.is_dir() and not space.num_done():
                shutil.rmtree(space.folder)


@contextlib.contextmanager
def keeping(space: Workspace) -> Iterator[None]:
    """What ends a run before its time says what is left of it.

    Raises:
        DatasetError, ReplayError, KeyboardInterrupt: as they come, with that added.
    """
    from segpaste.datasets import DatasetError
    from segpaste.replay import ReplayError

    kept = f"{space.folder} keeps what is finished; the same command goes on from there"
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept if space.num_done() else "nothing was finished") from None
    except (DatasetError, ReplayError) as error:
        raise type(error)(f"{error} ({kept})" if space.num_done() else str(error)) from error
