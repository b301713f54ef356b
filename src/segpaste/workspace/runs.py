"""Long runs that can be interrupted: claimed by one process, recorded step by step, resumed and published.

    RUN/run.json              fingerprint: everything that the finished steps depend on
    RUN/parts/000012.json     note of a step, see `Notes`
    RUN/files/                files to publish, see `Workspace`

A note is written after the files of its step, so a step is either done or not done, even after a power loss. Steps must
be pure functions of the fingerprint. Then an interrupted run results in the same bytes as an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segpaste.workspace.new_folder import expect_free, lock_folder, partial_of, resolve_link
from segpaste.workspace.whole import is_partial, make_folder, publish, remove, sweep, write_json

PARTS = "parts"
"""Subfolder of a run with its notes."""
FINGERPRINT = "run.json"
VERSION = "segpaste"
"""Key of the version that began a run."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Fingerprint of a run that another version may resume, also after it was moved.

    The steps of such a run are pure functions of its options, and every version makes the same pixels of the same
    options. So the version is no option, and a path of an input that has vanished is no other input if everything
    else, such as the digest of the annotations, is the same.

    Attributes:
        values: JSON; nested keys are compared one by one.
        paths: keys of the paths of inputs.
        then: value of options that a version without them did not record, if it is not None.
    """

    values: Mapping[str, Any]
    paths: frozenset[str] = frozenset()
    then: Mapping[str, Any] = field(default_factory=dict)

    def changes(self, there: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Return key, old and new value of everything that differs from a recorded fingerprint."""
        old, new = dict(_flat(there)), dict(_flat(json.loads(json.dumps(dict(self.values)))))
        then = dict(_flat(json.loads(json.dumps(dict(self.then)))))
        found = []
        for key in {**old, **new}:
            before, now = old.get(key, then.get(key)), new.get(key)
            if before != now and key != VERSION and not (key in self.paths and _has_moved(before, now)):
                found.append((key, old.get(key), new.get(key)))
        return found


def read_fingerprint(folder: Path) -> dict[str, Any] | None:
    """Read the fingerprint in the folder of a run; None if there is none, or it is not valid."""
    try:
        there = json.loads((folder / FINGERPRINT).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return there if isinstance(there, dict) else None


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes of the finished steps of a run: a JSON file for each step, and other files beside it.

    Attributes:
        folder: folder of the files.
    """

    folder: Path

    def path(self, step: int, suffix: str = "json") -> Path:
        """Return the path of a file of a step; the note, ``json``, must be written last."""
        return self.folder / f"{step:06d}.{suffix}"

    def has(self, step: int) -> bool:
        """Return whether a step is done."""
        return self.path(step).exists()

    def write(self, step: int, found: Any) -> None:
        """Record a step as done, with its result (JSON)."""
        write_json(self.path(step), found)

    def read(self, step: int) -> Any:
        """Return the result of a finished step."""
        return json.loads(self.path(step).read_bytes())


class Run:
    """Run in a folder of its own.

    Args:
        folder: folder of the run; `claim` creates it.
        error: class of the errors that are raised.
        results: glob patterns of files that exist when a part is finished. A run without such files is replaced,
            whatever its arguments.
        owned: names of other files and folders of the run, which are removed if nothing is finished.
        other: option with which the user chooses another folder, such as ``--out``, for messages.
        what: content of the folder, for messages. Only ``an unfinished run`` makes messages suggest to delete it.
        again: what the user repeats to resume, such as ``command``, for messages.
        keeping: classes of errors whose messages say what the folder keeps, as that of an interrupt does.

    Attributes:
        folder: as given.
        notes: notes of the steps.
    """

    def __init__(
        self,
        folder: Path,
        error: type[ValueError],
        *,
        results: Sequence[str] = (f"{PARTS}/*.json",),
        owned: Sequence[str] = (PARTS,),
        other: str = "--out",
        what: str = "an unfinished run",
        again: str = "command",
        keeping: tuple[type[Exception], ...] = (ValueError,),
    ) -> None:
        self.folder, self.notes, self._error = folder, Notes(folder / PARTS), error
        self._results, self._owned = results, owned
        self._other, self._what, self._again = other, what, again
        self._keeping = keeping

    @contextlib.contextmanager
    def claim(self, fingerprint: Mapping[str, Any] | Fingerprint) -> Iterator[None]:
        """Start a run, or resume an interrupted one. Meanwhile no other process can claim the folder.

        If no part is finished at the end, all files of the run are removed.

        Args:
            fingerprint: JSON; only a run with an equal fingerprint resumes, or one without `Fingerprint.changes`.

        Raises:
            ValueError: raised as ``error``; the folder belongs to another run, is not that of a run, or is claimed by
                another process.
            OSError: the folder cannot be created.
        """
        make_folder(self.folder)
        lock = lock_folder(self.folder)
        if lock is None:
            raise self._error(
                f"{self.folder}: another run is writing there; wait for it, or choose another {self._other}"
            )
        try:
            self._adopt(fingerprint)
            with self._telling():
                self.heal()
                yield
        finally:
            os.close(lock)

    def has_results(self) -> bool:
        """Return whether a part of the run is finished."""
        return any(any(self.folder.glob(pattern)) for pattern in self._results)

    def heal(self) -> None:
        """Remove half-written files of a killed process; if nothing is finished, remove all files of the run."""
        sweep(self.folder)
        if not self.has_results():
            for name in self._owned:
                remove(self.folder / name)

    def remove(self) -> None:
        """Remove the files of the run, and the folder if nothing else is in it."""
        sweep(self.folder)
        for name in (*self._owned, FINGERPRINT):  # the fingerprint last: it marks the folder as that of a run
            remove(self.folder / name)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def left(self) -> str:
        """Return a message that says what an interrupted run leaves."""
        if not self.has_results():
            return "nothing was finished"
        return f"{self.folder} keeps what is finished; the same {self._again} resumes from there"

    def _adopt(self, fingerprint: Mapping[str, Any] | Fingerprint) -> None:
        """Check that the folder belongs to this run, and write the fingerprint of a new run."""
        there = read_fingerprint(self.folder)
        values = fingerprint.values if isinstance(fingerprint, Fingerprint) else fingerprint
        if there == json.loads(json.dumps(dict(values))):
            return
        if there is not None and self.has_results() and not _changes(fingerprint, there):
            return  # it remains as the version that began the run has written it
        if problem := self._mismatch(there, fingerprint):
            hint = f"delete {self.folder}, or choose another" if self._what == "an unfinished run" else "choose another"
            raise self._error(f"{problem}; {hint} {self._other}")
        try:
            write_json(self.folder / FINGERPRINT, dict(values))
        except OSError:
            with contextlib.suppress(OSError):  # if it is not empty
                self.folder.rmdir()
            raise

    def _mismatch(self, there: Mapping[str, Any] | None, fingerprint: Mapping[str, Any] | Fingerprint) -> str | None:
        """Return why a folder with another fingerprint cannot be used; None if it can."""
        if there is None and (self.folder / FINGERPRINT).exists():
            return f"{self.folder / FINGERPRINT}: expected the fingerprint of {self._what}, got something else"
        if there is None:
            strange = [entry.name for entry in self.folder.iterdir() if not is_partial(entry.name)]
            return f"{self.folder}: expected no folder, or one of {self._what}, found {strange[0]}" if strange else None
        if not self.has_results():
            return None
        of = ""
        if isinstance(fingerprint, Fingerprint) and there.get(VERSION) != fingerprint.values.get(VERSION):
            of = f" of version {there.get(VERSION)}"
        changes = (f"{key} {_brief(old)} there, {_brief(new)} now" for key, old, new in _changes(fingerprint, there))
        return f"{self.folder} holds {self._what}{of} with other arguments: {', '.join(changes)}"

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Add what the folder keeps to the error that ends a run; if nothing is finished, remove the run's files."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            interrupt.args = (self.left(),)
            raise
        except self._keeping as error:
            if self.has_results():
                error.args = (f"{error} ({self.left()})",)
            raise
        finally:
            if self.folder.is_dir() and not self.has_results():
                self.remove()


class Workspace(Run):
    """Run whose result is a folder: ``OUT.partial/files``, which becomes ``OUT`` by one rename.

    Args:
        out: final name.
        error: class of the errors that are raised.
        other: option with which the user chooses another folder, for messages.

    Attributes:
        out: final name; for a link, the folder that it points to.
        files: folder that becomes ``out``.
    """

    def __init__(self, out: Path, error: type[ValueError], *, other: str = "--out") -> None:
        self.out, self._is_published = resolve_link(out), False
        super().__init__(partial_of(self.out), error, owned=("files", PARTS), other=other)
        self.files = self.folder / "files"

    def expect_free(self) -> None:
        """Raise ``error`` if the final name is taken, before any work is done.

        If a run was killed after it had published its files, its remains are removed first.
        """
        self.remove_remains()
        expect_free(self.out, self._error, f"{self._other} to be new or an empty folder")

    def remove_remains(self) -> None:
        """Remove the remains of a run that was killed after it had published its files."""
        if self.out.is_dir() and self.folder.is_dir() and (lock := lock_folder(self.folder)) is not None:
            try:
                if set(os.listdir(self.folder)) in (set(), {FINGERPRINT}, {FINGERPRINT, PARTS}):
                    self.remove()
            finally:
                os.close(lock)

    def has_results(self) -> bool:
        """Return whether a step is finished; without the folder of files, none is."""
        return self.files.is_dir() and super().has_results()

    def heal(self) -> None:
        """Remove files as `Run.heal` does, and create missing folders."""
        super().heal()
        for folder in (self.files, self.notes.folder):
            make_folder(folder)

    def left(self) -> str:
        """Return a message that says what an interrupted run leaves."""
        return f"{self.out} is complete" if self._is_published else super().left()

    def publish(self) -> None:
        """Give the folder of finished files its final name, and remove the rest."""
        expect_free(self.out, self._error, f"{self._other} to be new or an empty folder")
        publish(self.files, self.out)
        self._is_published = True
        self.remove()


def _changes(fingerprint: Mapping[str, Any] | Fingerprint, there: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    if isinstance(fingerprint, Fingerprint):
        return fingerprint.changes(there)
    now = json.loads(json.dumps(dict(fingerprint)))
    keys = (key for key in {**there, **now} if there.get(key) != now.get(key))
    return [(key, there.get(key), now.get(key)) for key in keys]


def _brief(value: Any) -> str:
    return f"{json.dumps(value):.60}"


def _has_moved(before: Any, now: Any) -> bool:
    return isinstance(before, str) and isinstance(now, str) and not os.path.lexists(before)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
