"""Where a build goes: a folder that gets its name at the end, or an object store that gets ``meta.json`` at the end.

Either way nothing opens before all of it is there. A writer writes into ``folder``, which is local, and hands over each
file that is whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from segpaste.bank.meta import META
from segpaste.bank.object_store import ObjectStore
from segpaste.bank.record import BankError
from segpaste.bank.remote import is_url, local_path
from segpaste.workspace import flush, is_partial, lock_folder, make_folder, rename_flushed, write_whole

MARKER = "unfinished"
"""A file, or object, that is there while a bank is built: what lies beside it may be removed."""
_MARKER_TEXT = b"a bank is built here; the next build removes what this one leaves\n"


class Destination(Protocol):
    """Where a build goes."""

    @property
    def path(self) -> Path | str:
        """Of the bank, or its URL."""
        ...

    @property
    def folder(self) -> Path:
        """Local, new and empty but for a marker: files are written here."""
        ...

    def take(self, name: str) -> None:
        """A file of the folder is whole, and is not touched any more."""
        ...

    def finish(self) -> None:
        """All files are whole, ``meta.json`` too: make it a bank."""
        ...

    def discard(self) -> None:
        """Remove what was written, if it was not finished."""
        ...


def destination_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Destination:
    """The destination of a path or URL.

    Raises:
        BankError: something is there already.
    """
    return Upload(os.fspath(path), storage_options) if is_url(path) else Rename(local_path(path))


def check_free(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
    """Refuse, before any work is done, a destination that will be refused at its end.

    Raises:
        BankError: something is there already, that nobody left unfinished; or nothing can be written there.
    """
    if is_url(path):
        _check_names(os.fspath(path), set(ObjectStore(os.fspath(path), storage_options).list()))
        return
    path = _resolved(local_path(path))
    partial = _partial(path)
    if (parent := next((p for p in path.parents if p.exists()), None)) is not None and not parent.is_dir():
        raise BankError(f"{path}: expected a path within folders, {parent} is a file; choose another")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise _occupied(path)
    if os.path.ismount(path):
        raise BankError(f"{path}: expected a folder that can be renamed, it is a mount point; choose one within it")
    if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
        raise _foreign(partial, "something else")
    names = _names_in(partial) if partial.exists() else set()
    if names and MARKER not in names:
        raise _foreign(partial, min(names))


def _names_in(folder: Path) -> set[str]:
    """Return the names in a folder, without those of files that a killed process left half-written."""
    return {entry.name for entry in folder.iterdir() if not is_partial(entry.name)}


class Rename:
    """``PATH.partial``, which becomes ``PATH`` by one rename.

    It holds the marker and is locked meanwhile: nothing but what a build left is removed, and none that goes on.

    Args:
        path: the bank's folder.

    Raises:
        BankError: it is there, and not empty; or ``PATH.partial`` is there, and not a build's, or of one that goes on.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _resolved(path)
        check_free(self.path)
        self.folder = _partial(self.path)
        make_folder(self.folder)
        lock = lock_folder(self.folder)
        if lock is None:
            raise BankError(f"{self.folder}: another process builds a bank there; wait for it, or choose another path")
        self._unlock = weakref.finalize(self, os.close, lock)
        names = _names_in(self.folder)
        if names and MARKER not in names:
            self._unlock()
            raise _foreign(self.folder, min(names))
        self._remove()
        try:
            write_whole(self.folder / MARKER, _MARKER_TEXT)
        except OSError:
            self.discard()
            raise

    def take(self, name: str) -> None:
        """See `Destination.take`."""

    def finish(self) -> None:
        """See `Destination.finish`."""
        flush(self.folder)
        rename_flushed(self.folder, self.path)
        (self.path / MARKER).unlink()  # last: without it a killed build's folder would pass for somebody else's
        self._unlock()

    def discard(self) -> None:
        """See `Destination.discard`."""
        if not self._unlock.alive:  # a folder of that name is somebody else's by now
            return
        with suppress(OSError):
            self._remove()
            self.folder.rmdir()
        self._unlock()

    def _remove(self) -> None:
        """All that is in the folder, the marker last."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == MARKER):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


class Upload:
    """Files that go to an object store one by one, each when it is whole, and from the local disk then.

    Args:
        url: the bank's folder.
        storage_options: of fsspec's file system.

    Raises:
        BankError: there are objects already that no unfinished build left, or the store cannot be written.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self.store = ObjectStore(url, storage_options, inner_retries=True)
        self.path = self.store.url
        names = set(self.store.list())
        _check_names(self.path, names)
        self._names = names - {MARKER}
        self._remove()
        self.folder = Path(tempfile.mkdtemp(prefix="segpaste-"))
        (self.folder / MARKER).write_bytes(_MARKER_TEXT)
        self.take(MARKER)

    def take(self, name: str) -> None:
        """See `Destination.take`."""
        self._names.add(name)
        try:
            self.store.put(name, self.folder / name)
        except FileNotFoundError as error:
            raise BankError(f"{self.path}/{name}: cannot be written: {error}; check the URL") from error
        (self.folder / name).unlink()

    def finish(self) -> None:
        """See `Destination.finish`."""
        self.take(META)
        self._names = set()
        shutil.rmtree(self.folder)
        with suppress(BankError):  # a bank with a marker is still a bank
            self.store.remove(MARKER)

    def discard(self) -> None:
        """See `Destination.discard`; what cannot be removed, the next build removes."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(BankError):
            self._remove()

    def _remove(self) -> None:
        """The marker last, ``meta.json`` first."""
        for name in sorted(self._names, key=lambda name: (name == MARKER, name != META, name)):
            with suppress(FileNotFoundError):
                self.store.remove(name)
        self._names = set()


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Where a link leads to is where the bank goes: a link itself cannot be given to a folder by renaming it."""
    path = Path(path).absolute()
    return path.resolve() if path.is_symlink() else path


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def _check_names(url: str, names: set[str]) -> None:
    """Nothing lies in an object store's folder, or what an unfinished build left."""
    if META in names or (names and MARKER not in names):
        raise _occupied(url)


def _foreign(partial: Path, found: str) -> BankError:
    return BankError(
        f"{partial}: expected no folder, or one of an unfinished bank, found {found}; move it away, or choose "
        "another path"
    )


def _occupied(path: Path | str) -> BankError:
    return BankError(f"{path}: expected a new or an empty folder, it is not; choose another, or remove it")
