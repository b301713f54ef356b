"""A folder that is written beside its final name, and gets that name by one rename when all of it is there."""

from __future__ import annotations

import errno
import os
import weakref
from contextlib import suppress
from pathlib import Path

from segpaste.workspace._locks import lock_folder
from segpaste.workspace.whole import flush, is_partial, make_folder, remove, rename_flushed, write_whole

MARKER = "unfinished"
"""A file that is there while the folder is written: what lies beside it may be removed."""


def marker_text(kind: str) -> bytes:
    """Return what the marker says, such as of a ``bank``."""
    return f"a {kind} is built here; the next build removes what this one leaves\n".encode()


def partial_of(path: Path) -> Path:
    """Return where a result is written before it gets its final name; raise ValueError for a path without a name."""
    if not path.name:
        raise ValueError(f"{path}: expected a folder that can be renamed, got the root; choose one within it")
    return path.with_name(path.name + ".partial")


def resolve_link(path: str | os.PathLike[str]) -> Path:
    """Return where a link leads to: a link itself cannot be given to a folder by renaming it.

    Raises:
        OSError: links lead in a circle.
    """
    path = Path(path).absolute()
    if not path.is_symlink():
        return path
    with suppress(RuntimeError):  # which Python before 3.13 raises for a circle
        if not (place := path.resolve()).is_symlink():
            return place
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def expect_free(path: Path, error: type[ValueError], expected: str = "a new or an empty folder") -> None:
    """Raise ``error``, whose message begins with ``expected``, if no folder can take a final name."""
    path = resolve_link(path)
    if (parent := next((p for p in path.parents if p.exists()), None)) is not None and not parent.is_dir():
        raise error(f"{path}: expected a path within folders, {parent} is a file; choose another")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise error(f"{path}: expected {expected}, it is not; choose another, or remove it")
    if os.path.ismount(path):
        raise error(f"{path}: expected a folder that can be renamed, it is a mount point; choose one within it")


class NewFolder:
    """``PATH.partial``, which becomes ``PATH`` by one rename.

    It is locked and has a marker meanwhile. So only what a killed process left is removed, nothing of a process that is
    still writing, and nothing of the user's.

    Args:
        path: the final name; of a link the folder that it leads to.
        error: the class of what is raised.
        kind: of what is written, such as ``bank``, for messages.

    Attributes:
        path: the final name.
        folder: new, and empty but for the marker; files are written here.

    Raises:
        ValueError: as ``error``; the name is not free, or ``PATH.partial`` is somebody else's or of a running process.
        OSError: the folder cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str], error: type[ValueError], kind: str) -> None:
        self.path = resolve_link(path)
        self.expect_free(self.path, error, kind)
        self.folder = partial_of(self.path)
        make_folder(self.folder)
        lock = lock_folder(self.folder)
        if lock is None:
            raise error(f"{self.folder}: another process builds a {kind} there; wait for it, or choose another path")
        self._unlock = weakref.finalize(self, os.close, lock)
        try:
            _expect_unfinished(self.folder, error, kind)
        except ValueError:
            self._unlock()
            raise
        self._remove()
        try:
            write_whole(self.folder / MARKER, marker_text(kind))
        except OSError:
            self.discard()
            raise

    @staticmethod
    def expect_free(path: str | os.PathLike[str], error: type[ValueError], kind: str) -> None:
        """Refuse, before any work is done, what a `NewFolder` would refuse."""
        path = resolve_link(path)
        expect_free(path, error)
        _expect_unfinished(partial_of(path), error, kind)

    def publish(self) -> None:
        """Give the folder its final name; all of it is there then, also after a power loss."""
        flush(self.folder)
        rename_flushed(self.folder, self.path)
        (self.path / MARKER).unlink()  # last: without it a killed build's folder would pass for somebody else's
        self._unlock()

    def discard(self) -> None:
        """Remove what was written, if it is not published."""
        if not self._unlock.alive:  # a folder of that name is somebody else's by now
            return
        with suppress(OSError):
            self._remove()
            self.folder.rmdir()
        self._unlock()

    def _remove(self) -> None:
        """Remove all that is in the folder, the marker last."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == MARKER):
            remove(path)


def _expect_unfinished(partial: Path, error: type[ValueError], kind: str) -> None:
    """Refuse what is there and was not left by a killed process."""
    if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
        names = {"something else"}
    else:
        names = {path.name for path in partial.iterdir() if not is_partial(path.name)} if partial.exists() else set()
    if names and MARKER not in names:
        raise error(
            f"{partial}: expected no folder, or one of an unfinished {kind}, found {min(names)}; move it away, or "
            "choose another path"
        )
