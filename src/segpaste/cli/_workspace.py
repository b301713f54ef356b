"""Where a long command builds its result: beside the final folder, in steps, so that it can stop and go on.

    OUT.partial/run.json     the fingerprint: what the finished result depends on
    OUT.partial/files/       what becomes OUT, by one rename, when all of it is there
    OUT.partial/parts/       what each finished step found, one JSON (and pictures) per step

A step's JSON is written last, after the files that it speaks of, so a step is done or not done. Steps must be pure
functions of the fingerprint: then a run that stopped and went on leaves the same bytes as one that did not stop.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
        """Where a step may keep arrays, to be written before `finish_step`."""
        return self.parts / f"{step:06d}.npz"

    def finish_step(self, step: int, found: Any) -> None:
        """Mark a step as finished, with what it found (JSON)."""
        _write_json(self._part(step), found)

    def found(self, step: int) -> Any:
        """What a finished step found."""
        return json.loads(self._part(step).read_bytes())

    def publish(self) -> None:
        """Give the finished files their final name."""
        expect_free(self.out)
        os.rename(self.files, self.out)
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
    space.folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(space.folder, os.O_RDONLY)
    try:
        _lock(lock, space.folder)
        _match(space.folder, json.loads(json.dumps(fingerprint)))
        if not space.files.is_dir():
            shutil.rmtree(space.parts, ignore_errors=True)
        for folder in (space.files, space.parts):
            folder.mkdir(exist_ok=True)
        for left_over in space.files.rglob(".*.partial"):
            left_over.unlink()
        try:
            yield space
        finally:
            if space.folder.is_dir() and not space.num_done():
                shutil.rmtree(space.folder)
    finally:
        os.close(lock)


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


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(f"{folder}: another run is writing there; wait for it, or choose another --out") from None


def _match(folder: Path, fingerprint: Mapping[str, Any]) -> None:
    """Compare with the unfinished run that is there, or note the fingerprint of a new one."""
    path = folder / "run.json"
    remedy = f"delete {folder}, or choose another --out"
    if not path.exists():
        if strange := [entry.name for entry in folder.iterdir() if entry.name != path.name + ".new"]:
            raise CommandError(
                f"{folder}: expected no folder, or one of an unfinished run, found {strange[0]}; {remedy}"
            )
        _write_json(path, fingerprint)
        return
    try:
        there = json.loads(path.read_bytes())
    except ValueError:
        there = None
    if not isinstance(there, dict):
        raise CommandError(f"{path}: expected the fingerprint of an unfinished run, got something else; {remedy}")
    keys = [key for key in {**there, **fingerprint} if there.get(key) != fingerprint.get(key)]
    if keys:
        differences = ", ".join(
            f"{key} {_brief(there.get(key))} there, {_brief(fingerprint.get(key))} now" for key in keys
        )
        raise CommandError(f"{folder} holds an unfinished run with other arguments: {differences}; {remedy}")


def _brief(value: Any) -> str:
    return f"{json.dumps(value):.60}"


def _write_json(path: Path, value: Any) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(value))
    os.replace(new, path)
