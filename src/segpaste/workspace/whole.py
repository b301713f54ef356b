"""Files and folders that get their final name only when they are complete, even after a power loss.

A rename is atomic, but it is not a barrier: a file system may store the new name before the content, and the machine
may stop in between. Hence the order is always: write under another name, flush the file to disk, rename, flush the
folder. `WholeFiles` does this for many files at once, which costs much less than one by one: the first flush writes all
pending data, and each folder is flushed once.

Do not use it for caches: a cache that detects damaged entries needs no flush.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Content = bytes | bytearray | memoryview | Iterable[bytes | memoryview]
"""Content of a file: bytes, or an iterable of pieces that are written one after the other."""

_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES}  # errors of file systems that cannot fsync a folder
_PARTIAL = re.compile(r"\..+\.\d+\.partial")
_LONGEST_NAME = 255  # bytes


class WholeFiles:
    """Group of files that get their final names together, each of them complete.

    Within the ``with`` block, files are written under hidden names in their folders. At its end they are flushed and
    renamed, and their folders are flushed. If the block raises an error, the files are removed.

    Example:
        >>> with WholeFiles() as files:
        ...     files.write(folder / "images" / "1.png", png)
        ...     files.write(folder / "depth" / "1.npy", npy)
    """

    def __init__(self) -> None:
        self._partials: dict[Path, Path] = {}

    def write(self, path: str | os.PathLike[str], content: Content) -> Path:
        """Write a file and return its final name; missing folders are created.

        If a path is written twice, the second file replaces the first. An iterable is consumed as it is written.

        Raises:
            OSError: the file cannot be written; the error names it.
        """
        path = Path(path)
        make_folder(path.parent)
        partial = self._partials[path] = path.with_name(_partial_name(path.name))
        with naming(path, partial), partial.open("wb") as file:
            if isinstance(content, bytes | bytearray | memoryview):
                file.write(content)
            else:
                file.writelines(content)
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for partial in self._partials.values():
                partial.unlink(missing_ok=True)

    def _finish(self) -> None:
        for path, partial in self._partials.items():
            with naming(path, partial):
                _sync(partial)
        for path, partial in self._partials.items():
            os.replace(partial, path)
        for folder in dict.fromkeys(path.parent for path in self._partials):
            _sync_folder(folder)


def write_whole(path: str | os.PathLike[str], content: Content) -> Path:
    """Write one file completely or not at all, even after a power loss; see `WholeFiles.write`.

    Use `WholeFiles` for several files that belong together.

    Raises:
        OSError: the file cannot be written; the error names it. An existing file of that name is kept.
    """
    with WholeFiles() as files:
        return files.write(path, content)


def write_json(path: str | os.PathLike[str], value: Any) -> Path:
    """Write a value as JSON; see `write_whole`."""
    return write_whole(path, json.dumps(value).encode())


def publish(folder: Path, path: Path) -> None:
    """Give a folder its final name. After that it is complete, even after a power loss.

    Args:
        folder: folder whose files are flushed, by `WholeFiles` or `flush`; on the same file system as ``path``.
        path: final name; it must not exist, or be an empty folder.

    Raises:
        OSError: the path is taken, or the folder cannot be renamed.
    """
    for inside, _, _ in os.walk(folder, topdown=False):
        _sync_folder(Path(inside))
    rename_flushed(folder, path)


def rename_flushed(new: Path, path: Path) -> None:
    """Rename a flushed file or folder, and flush its old and its new parent folder.

    Raises:
        OSError: it cannot be renamed.
    """
    os.replace(new, path)
    for folder in dict.fromkeys((path.parent, new.parent)):
        _sync_folder(folder)


def flush(path: Path) -> None:
    """Flush a file, or a folder with its content, to disk, one file after the other.

    This is slow; use it only for files that `WholeFiles` has not written.

    Raises:
        OSError: a file cannot be read, or the disk is full or broken.
    """
    if not path.is_dir():
        with naming(path):
            _sync(path)
        return
    for inside in path.iterdir():
        if not inside.is_symlink():
            flush(inside)
    _sync_folder(path)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, so that they exist even after a power loss.

    Raises:
        OSError: the folder cannot be created, or there is a file of that name.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove half-written files of killed processes in a folder and below; no other process may write there."""
    for path in folder.rglob(".*.partial"):
        if is_partial(path.name):
            path.unlink(missing_ok=True)


def is_partial(name: str) -> bool:
    """Return whether a name is that of an unfinished file of `WholeFiles`."""
    return _PARTIAL.fullmatch(name) is not None


def _partial_name(name: str) -> str:
    """Return the name of a file while it is written; its digest stands for a long name."""
    end = f".{os.getpid()}.partial"
    if len(os.fsencode(f".{name}{end}")) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}{end}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


@contextmanager
def naming(path: str | os.PathLike[str], partial: Path | None = None) -> Iterator[None]:
    """Set the file name of an OSError without one, as for a full disk, or with the name ``partial``."""
    try:
        yield
    except OSError as error:
        # Errors of libraries have no errno; a file name would hide their message.
        if error.errno is not None and error.filename in (None, "", str(partial)):
            error.filename = os.fspath(path)
        raise
