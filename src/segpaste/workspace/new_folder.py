"""New folder that is written under another name, and gets its final name by one rename when it is complete.

A lock of a folder lets one process at a time write there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path

from segpaste.workspace.whole import flush, is_partial, make_folder, remove, rename_flushed, write_whole

MARKER = "unfinished"
"""Name of a file that exists while the folder is written; other files beside it may be removed."""


def marker_text(kind: str) -> bytes:
    """Return the content of the marker of a kind of folder, such as ``bank``."""
    return f"a {kind} is being built here; the next build removes the files of this one\n".encode()


def partial_of(path: Path) -> Path:
    """Return the path of a result before it gets its final name; raise ValueError for a path without a name."""
    if not path.name:
        raise ValueError(f"{path}: expected a folder that can be renamed, got the root; choose one within it")
    return path.with_name(path.name + ".partial")


def resolve_link(path: str | os.PathLike[str]) -> Path:
    """Return the target of a link, or the path itself: a rename cannot replace a link by a folder.

    Raises:
        OSError: the links form a loop.
    """
    path = Path(path).absolute()
    if not path.is_symlink():
        return path
    with suppress(RuntimeError):  # raised for a loop by Python before 3.13
        if not (place := path.resolve()).is_symlink():
            return place
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def expect_free(path: Path, error: type[ValueError], expected: str = "a new or an empty folder") -> None:
    """Raise ``error`` if a folder cannot be renamed to this path; its message begins with ``expected``."""
    path = resolve_link(path)
    if (parent := next((p for p in path.parents if p.exists()), None)) is not None and not parent.is_dir():
        raise error(f"{path}: expected a path within folders, {parent} is a file; choose another")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise error(f"{path}: expected {expected}, it is not; choose another, or remove it")
    if os.path.ismount(path):
        raise error(f"{path}: expected a folder that can be renamed, it is a mount point; choose one within it")


class NewFolder:
    """Folder ``PATH.partial``, which becomes ``PATH`` by one rename.

    Until then it is locked and has a marker. Hence only files of a killed process are removed, never those of a running
    process or of the user.

    Args:
        path: final name; for a link, the folder that it points to.
        error: class of the errors that are raised.
        kind: kind of result, such as ``bank``, for messages.

    Attributes:
        path: final name.
        folder: new folder for the files, empty except for the marker.

    Raises:
        ValueError: raised as ``error``; the final name is taken, or ``PATH.partial`` belongs to a running process or
            was not made by this class.
        OSError: the folder cannot be created.
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
        """Raise the errors of the constructor that can be known before any work is done."""
        path = resolve_link(path)
        expect_free(path, error)
        _expect_unfinished(partial_of(path), error, kind)

    def publish(self) -> None:
        """Give the folder its final name. After that it is complete, even after a power loss."""
        flush(self.folder)
        rename_flushed(self.folder, self.path)
        (self.path / MARKER).unlink()  # last: without it the folder of a killed build would seem to be the user's
        self._unlock()

    def discard(self) -> None:
        """Remove the folder, unless it is published."""
        if not self._unlock.alive:  # a folder of that name would belong to another process
            return
        with suppress(OSError):
            self._remove()
            self.folder.rmdir()
        self._unlock()

    def _remove(self) -> None:
        """Remove the content of the folder, the marker last."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == MARKER):
            remove(path)


def _expect_unfinished(partial: Path, error: type[ValueError], kind: str) -> None:
    """Raise ``error`` if the path exists and was not left by a killed process."""
    if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
        names = {"something else"}
    else:
        names = {path.name for path in partial.iterdir() if not is_partial(path.name)} if partial.exists() else set()
    if names and MARKER not in names:
        raise error(
            f"{partial}: expected no folder, or one of an unfinished {kind}, found {min(names)}; move it away, or "
            "choose another path"
        )


def lock_folder(folder: Path) -> int | None:
    """Lock an existing folder until the descriptor is closed or the process ends.

    Returns:
        The descriptor, or None if another process holds the lock or has just moved the folder away.

    Raises:
        OSError: the path is not a folder, or cannot be opened.
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
