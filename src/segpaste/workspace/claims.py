"""A folder where a long run keeps what is finished, claimed by one process at a time.

The folder has a ``run.json``, the fingerprint of the run: all that the finished parts depend on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from segpaste.workspace.whole import is_partial, make_folder, sweep, write_json

FINGERPRINT = "run.json"


@contextlib.contextmanager
def claimed(
    folder: Path,
    fingerprint: Mapping[str, Any],
    other: str,
    error: type[ValueError],
    what: str = "an unfinished run",
    results: Sequence[str] = (),
) -> Iterator[None]:
    """Start a run, or resume the one that was interrupted; meanwhile no other process may.

    Files that a killed process left half-written are removed.

    Args:
        folder: of the run; it is made.
        fingerprint: JSON; a run goes on only where it is equal.
        other: what the user can choose anew instead, such as ``--out``.
        error: the class of what is raised.
        what: is there; with ``a run``, which may be finished, nobody is told to delete it.
        results: glob patterns of what a run keeps; a run of another fingerprint that was killed before it had any of
            them is replaced, its other files stay. Without patterns it is refused.

    Raises:
        ValueError: as ``error``; an unfinished run of another fingerprint is there, or one that is running.
        OSError: the folder cannot be made.
    """
    make_folder(folder)
    lock = lock_folder(folder)
    if lock is None:
        raise error(f"{folder}: another run is writing there; wait for it, or choose another {other}")
    try:
        try:
            problem = _mismatch(folder, json.loads(json.dumps(fingerprint)), what, results)
        except OSError:
            with contextlib.suppress(OSError):  # where it is empty
                folder.rmdir()
            raise
        if problem:
            hint = f"delete {folder}, or choose another" if what == "an unfinished run" else "choose another"
            raise error(f"{problem}; {hint} {other}")
        sweep(folder)
        yield
    finally:
        os.close(lock)


def lock_folder(folder: Path) -> int | None:
    """Lock a folder that is there, until the descriptor is closed or the process ends.

    Returns:
        The descriptor, or None: somebody else has it, or has just moved it away.

    Raises:
        OSError: it is no folder, or cannot be opened.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(folder)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _mismatch(folder: Path, fingerprint: Mapping[str, Any], what: str, results: Sequence[str]) -> str | None:
    """What is wrong with the run that is there; of a new one the fingerprint is noted."""
    path = folder / FINGERPRINT
    if not path.exists():
        if strange := [entry.name for entry in folder.iterdir() if not is_partial(entry.name)]:
            return f"{folder}: expected no folder, or one of {what}, found {strange[0]}"
        write_json(path, fingerprint)
        return None
    try:
        there = json.loads(path.read_bytes())
    except ValueError:
        there = None
    if not isinstance(there, dict):
        return f"{path}: expected the fingerprint of {what}, got something else"
    if results and there != fingerprint and not any(any(folder.glob(pattern)) for pattern in results):
        write_json(path, fingerprint)
        return None
    keys = [key for key in {**there, **fingerprint} if there.get(key) != fingerprint.get(key)]
    differences = ", ".join(f"{key} {_brief(there.get(key))} there, {_brief(fingerprint.get(key))} now" for key in keys)
    return f"{folder} holds {what} with other arguments: {differences}" if keys else None


def _brief(value: Any) -> str:
    return f"{json.dumps(value):.60}"
