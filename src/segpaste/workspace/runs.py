"""Long runs that can be interrupted: claimed by one process, noted step by step, resumed, healed, published.

    RUN/run.json              the fingerprint: all that the finished steps depend on
    RUN/parts/000012.json     the note of a step, see `Notes`
    RUN/files/                what is published, see `Workspace`

A note is written last, after the files that it speaks of, so a step is done or not done, also after a power loss. Steps
must be pure functions of the fingerprint: then a run that was interrupted leaves the same bytes as one that was not.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.workspace._locks import lock_folder
from segpaste.workspace.new_folder import expect_free, partial_of, resolve_link
from segpaste.workspace.whole import is_partial, make_folder, publish, remove, sweep, write_json

FINGERPRINT = "run.json"
PARTS = "parts"
"""The folder of a run that has its notes."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Results of the finished steps of a run: a JSON file for each step, and other files beside it.

    Attributes:
        folder: the folder of the files.
    """

    folder: Path

    def path(self, step: int, suffix: str = "json") -> Path:
        """Return the path of a step's file; other files than the note are written before it."""
        return self.folder / f"{step:06d}.{suffix}"

    def has(self, step: int) -> bool:
        """Tell whether a step is done."""
        return self.path(step).exists()

    def write(self, step: int, found: Any) -> None:
        """Note a step as done, with what it found (JSON)."""
        write_json(self.path(step), found)

    def read(self, step: int) -> Any:
        """Return what a finished step found."""
        return json.loads(self.path(step).read_bytes())


class Run:
    """A run in a folder of its own.

    Args:
        folder: the run's; `claim` makes it.
        error: the class of the errors that are raised.
        results: glob patterns of files that are there when a part is finished. A run without any is replaced, whatever
            its arguments.
        owned: names of what else is in the folder, which is removed where nothing is finished.
        other: what the user can choose instead of this folder, such as ``--out``.
        what: what the folder holds. Only ``an unfinished run`` may be deleted by the user, in the words of an error.
        again: what the user repeats to resume, such as ``command``.
        keeping: errors that get a note of what is kept, as an interrupt does.

    Attributes:
        folder: see above.
        notes: of its steps.
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
    def claim(self, fingerprint: Mapping[str, Any]) -> Iterator[None]:
        """Start a run, or resume an interrupted one. Meanwhile no other process can claim the folder.

        Whatever ends it, a run that has finished nothing leaves nothing behind.

        Args:
            fingerprint: JSON; a run resumes only where it is equal.

        Raises:
            ValueError: as the error that was given; the folder is of another run or of none, or a process runs there.
            OSError: the folder cannot be made.
        """
        make_folder(self.folder)
        lock = lock_folder(self.folder)
        if lock is None:
            raise self._error(
                f"{self.folder}: another run is writing there; wait for it, or choose another {self._other}"
            )
        try:
            self._adopt(json.loads(json.dumps(fingerprint)))
            with self._telling():
                self.heal()
                yield
        finally:
            os.close(lock)

    def has_results(self) -> bool:
        """Tell whether a part of the run is finished."""
        return any(any(self.folder.glob(pattern)) for pattern in self._results)

    def heal(self) -> None:
        """Remove half-written files of a killed process; if nothing is finished, remove all its files."""
        sweep(self.folder)
        if not self.has_results():
            for name in self._owned:
                remove(self.folder / name)

    def remove(self) -> None:
        """Remove what the run has written; and the folder, if nothing else is in it."""
        sweep(self.folder)
        for name in (*self._owned, FINGERPRINT):  # the fingerprint last: without it the folder is not a run's
            remove(self.folder / name)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def left(self) -> str:
        """Say what an interrupted run leaves."""
        if not self.has_results():
            return "nothing was finished"
        return f"{self.folder} keeps what is finished; the same {self._again} goes on from there"

    def _adopt(self, fingerprint: Mapping[str, Any]) -> None:
        """Check that the folder is of this run, and write the fingerprint of a new one."""
        there = read_fingerprint(self.folder)
        if there == fingerprint:
            return
        if problem := self._mismatch(there, fingerprint):
            hint = f"delete {self.folder}, or choose another" if self._what == "an unfinished run" else "choose another"
            raise self._error(f"{problem}; {hint} {self._other}")
        try:
            write_json(self.folder / FINGERPRINT, fingerprint)
        except OSError:
            with contextlib.suppress(OSError):  # where it is empty
                self.folder.rmdir()
            raise

    def _mismatch(self, there: Mapping[str, Any] | None, fingerprint: Mapping[str, Any]) -> str | None:
        """Say why a folder with another fingerprint cannot be taken; None where it can."""
        if there is None and (self.folder / FINGERPRINT).exists():
            return f"{self.folder / FINGERPRINT}: expected the fingerprint of {self._what}, got something else"
        if there is None:
            strange = [entry.name for entry in self.folder.iterdir() if not is_partial(entry.name)]
            return f"{self.folder}: expected no folder, or one of {self._what}, found {strange[0]}" if strange else None
        if not self.has_results():
            return None
        keys = [key for key in {**there, **fingerprint} if there.get(key) != fingerprint.get(key)]
        changes = ", ".join(f"{key} {_brief(there.get(key))} there, {_brief(fingerprint.get(key))} now" for key in keys)
        return f"{self.folder} holds {self._what} with other arguments: {changes}"

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Add to the error that ends a run what the folder keeps; if nothing is finished, remove the run's files."""
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
    """A run whose files become a folder: ``OUT.partial/files``, which becomes ``OUT`` by one rename.

    Args:
        out: the final name.
        error: the class of the errors that are raised.

    Attributes:
        out: the final name; for a link, the folder that it points to.
        files: the folder that becomes ``out``.
    """

    def __init__(self, out: Path, error: type[ValueError]) -> None:
        self.out, self._is_published = resolve_link(out), False
        super().__init__(partial_of(self.out), error, owned=("files", PARTS))
        self.files = self.folder / "files"

    def expect_free(self) -> None:
        """Reject a final name that is taken, before any work is done.

        The remains of a run that was killed after it had published its files are removed first.
        """
        self.remove_remains()
        expect_free(self.out, self._error, f"{self._other} to be new or an empty folder")

    def remove_remains(self) -> None:
        """Remove what a run has left that was killed after it had published its files."""
        if self.out.is_dir() and self.folder.is_dir() and (lock := lock_folder(self.folder)) is not None:
            try:
                if set(os.listdir(self.folder)) in (set(), {FINGERPRINT}, {FINGERPRINT, PARTS}):
                    self.remove()
            finally:
                os.close(lock)

    def has_results(self) -> bool:
        """Tell whether a step is finished; without files none is."""
        return self.files.is_dir() and super().has_results()

    def heal(self) -> None:
        """See `Run.heal`; the folders are made anew."""
        super().heal()
        for folder in (self.files, self.notes.folder):
            make_folder(folder)

    def left(self) -> str:
        """Say what an interrupted run leaves."""
        return f"{self.out} is whole" if self._is_published else super().left()

    def publish(self) -> None:
        """Give the finished files their final name, and remove the rest."""
        expect_free(self.out, self._error, f"{self._other} to be new or an empty folder")
        publish(self.files, self.out)
        self._is_published = True
        self.remove()


def read_fingerprint(folder: Path) -> dict[str, Any] | None:
    """Read the fingerprint of a run's folder; None where there is none, or something else."""
    try:
        there = json.loads((folder / FINGERPRINT).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return there if isinstance(there, dict) else None


def _brief(value: Any) -> str:
    return f"{json.dumps(value):.60}"
