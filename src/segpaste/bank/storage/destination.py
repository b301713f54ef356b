"""Destination of a build: a folder that is renamed at the end, or an object store that gets ``meta.json`` at the end.

In both cases the bank cannot be opened before it is complete. A writer writes into ``folder``, which is local, and
passes on each complete file.
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
    """Reject, before any work is done, a destination that would be rejected at the end.

    Raises:
        BankError: the destination has files that no unfinished build left, or cannot be written.
    """
    if is_url(path):
        _check_names(os.fspath(path), set(ObjectStore(os.fspath(path), storage_options).list()))
        return
    NewFolder.expect_free(local_path(path), BankError, "bank")


class Rename(NewFolder):
    """Folder on a disk, see `segpaste.workspace.NewFolder`; errors are `BankError`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, BankError, "bank")

    def take(self, name: str) -> None:
        """Take a complete file of the folder; nothing is to be done."""


class Upload:
    """Files that are uploaded to an object store one by one, each when it is complete, and removed locally.

    Attributes:
        path: URL of the folder of the bank.
        folder: local folder for new files, empty except for a marker.

    Raises:
        BankError: there are objects that no unfinished build left, or the store cannot be written.
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
        """Upload a complete file of the folder, and remove it locally."""
        self._names.add(name)
        try:
            self.store.put(name, self.folder / name)
        except FileNotFoundError as error:
            raise BankError(f"{self.path}/{name}: cannot be written: {error}; check the URL") from error
        (self.folder / name).unlink()

    def publish(self) -> None:
        """Upload ``meta.json`` as the last file, which makes the bank complete, and remove the marker."""
        self.take(META)
        self._names = set()
        shutil.rmtree(self.folder)
        with suppress(BankError):  # a bank with a marker is still a bank
            self.store.remove(MARKER)

    def discard(self) -> None:
        """Remove the written files of an unpublished bank; the next build removes those that cannot be removed now."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(BankError):
            self._remove()

    def _remove(self) -> None:
        """Remove the objects, ``meta.json`` first and the marker last."""
        for name in sorted(self._names, key=lambda name: (name == MARKER, name != META, name)):
            with suppress(FileNotFoundError):
                self.store.remove(name)
        self._names = set()


Destination = Rename | Upload
"""Destination of a build."""


def destination_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Destination:
    """Return the destination at a path or URL, which must be free."""
    return Upload(os.fspath(path), storage_options) if is_url(path) else Rename(local_path(path))


def _check_names(url: str, names: set[str]) -> None:
    """Check that the folder in an object store is empty, or has only the files of an unfinished build."""
    if META in names or (names and MARKER not in names):
        raise BankError(f"{url}: expected a new or an empty folder, got one with files; choose another, or remove it")
