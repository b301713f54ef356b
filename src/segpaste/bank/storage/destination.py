"""Where a build goes: a folder that gets its name at the end, or an object store that gets ``meta.json`` at the end.

Either way nothing opens before all of it is there. A writer writes into ``folder``, which is local, and hands over each
file that is whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from segpaste.bank.schema.meta import META
from segpaste.bank.schema.record import BankError
from segpaste.bank.storage._object_store import ObjectStore
from segpaste.bank.storage.folder import is_url, local_path
from segpaste.workspace import MARKER, NewFolder, marker_text


def check_free(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
    """Refuse, before any work is done, a destination that will be refused at its end.

    Raises:
        BankError: something is there already, that nobody left unfinished; or nothing can be written there.
    """
    if is_url(path):
        _check_names(os.fspath(path), set(ObjectStore(os.fspath(path), storage_options).list()))
        return
    NewFolder.expect_free(local_path(path), BankError, "bank")


class Rename(NewFolder):
    """A folder on a disk, see `segpaste.workspace.NewFolder`; errors are `BankError`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, BankError, "bank")

    def take(self, name: str) -> None:
        """A file of the folder is whole, and is not touched any more."""


class Upload:
    """Files that go to an object store one by one, each when it is whole, and from the local disk then.

    Attributes:
        path: URL of the bank's folder.
        folder: local, new and empty but for a marker: files are written here.

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
        (self.folder / MARKER).write_bytes(marker_text("bank"))
        self.take(MARKER)

    def take(self, name: str) -> None:
        """A file of the folder is whole: upload it, and remove it here."""
        self._names.add(name)
        try:
            self.store.put(name, self.folder / name)
        except FileNotFoundError as error:
            raise BankError(f"{self.path}/{name}: cannot be written: {error}; check the URL") from error
        (self.folder / name).unlink()

    def publish(self) -> None:
        """All files are whole, ``meta.json`` too: make it a bank."""
        self.take(META)
        self._names = set()
        shutil.rmtree(self.folder)
        with suppress(BankError):  # a bank with a marker is still a bank
            self.store.remove(MARKER)

    def discard(self) -> None:
        """Remove what was written, if it was not published; what cannot be removed, the next build removes."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(BankError):
            self._remove()

    def _remove(self) -> None:
        """The marker last, ``meta.json`` first."""
        for name in sorted(self._names, key=lambda name: (name == MARKER, name != META, name)):
            with suppress(FileNotFoundError):
                self.store.remove(name)
        self._names = set()


Destination = Rename | Upload
"""Where a build goes."""


def destination_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Destination:
    """The destination of a path or URL, which must be free."""
    return Upload(os.fspath(path), storage_options) if is_url(path) else Rename(local_path(path))


def _check_names(url: str, names: set[str]) -> None:
    """Nothing lies in an object store's folder, or what an unfinished build left."""
    if META in names or (names and MARKER not in names):
        raise BankError(f"{url}: expected a new or an empty folder, it is not; choose another, or remove it")
