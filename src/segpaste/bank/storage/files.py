"""Files of a bank on a disk: written with their digests, read at any position.

`segpaste.bank.storage.folder` reads files in an object store.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from segpaste.bank.schema.blocks import block_digest, block_spans
from segpaste.bank.schema.meta import FileEntry
from segpaste.bank.schema.record import BankError

_MOST_AT_ONCE = 1 << 28
"""Maximum size of a small file, bytes; ``meta.json`` has some hundred bytes for each shard."""


class Reader(Protocol):
    """Open file of a folder, for one process and any of its threads; dropping it closes the file."""

    def read_into(self, buffers: Sequence[memoryview], offset: int) -> None:
        """Fill all buffers with the bytes from ``offset`` on.

        Raises:
            BankError: the file ends before, or cannot be read.
        """
        ...


class Request(NamedTuple):
    """Read of consecutive bytes of one file, from ``offset`` on, into one buffer after another."""

    reader: Reader
    buffers: Sequence[memoryview]
    offset: int


def read_all(requests: Sequence[Request]) -> None:
    """Serve requests one after another."""
    for reader, buffers, offset in requests:
        reader.read_into(buffers, offset)


class LocalFolder:
    """Folder on a disk. Its methods raise BankError if a file cannot be read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.where = str(self.path)

    def read_bytes(self, name: str) -> bytes:
        """Read a small file as a whole.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        path = self.path / name
        try:
            if (size := path.stat().st_size) > _MOST_AT_ONCE:
                raise BankError(f"{path}: expected at most {_MOST_AT_ONCE} bytes, got {size}; is it another file?")
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(name) from None
        except OSError as error:
            raise _unreadable(path, error) from error

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if it does not exist."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else None

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file, hexadecimal."""
        try:
            with (self.path / name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(self.path / name, error) from error

    def open(self, name: str, version: str) -> LocalReader:
        """Open a file of the bank of that version."""
        return LocalReader(self.path / name)

    def read_many(self, requests: Sequence[Request]) -> None:
        """Serve several requests to readers of this folder, in parallel if that is faster."""
        read_all(requests)


class LocalReader:
    """Open file that is read at positions, so that no offset is shared with another process."""

    _descriptor = -1
    _close = staticmethod(os.close)  # still there at the exit of the interpreter

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(path, error) from error

    def read_into(self, buffers: Sequence[memoryview], offset: int) -> None:
        """Fill all buffers; see `Reader.read_into`."""
        wanted, done, rest = sum(map(len, buffers)), 0, buffers
        while done < wanted:
            try:
                num = os.preadv(self._descriptor, rest, offset + done)
            except OSError as error:
                raise _unreadable(self.path, error) from error
            if num == 0:
                raise BankError(
                    f"{self.path}: expected {wanted} bytes at {offset}, got {done}; the file is shorter than when it "
                    "was opened"
                )
            done += num
            if done < wanted:
                rest = _behind(buffers, done)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self._close(self._descriptor)


class HashedFile:
    """New file, which must not exist yet and is only appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._hash = hashlib.sha256()
        self._file = path.open("xb")

    def append(self, data: Any) -> None:
        """Append bytes, or an object with a buffer."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._hash.update(view)
        self.size += len(view)

    def finish(self) -> FileEntry:
        """Close the file, with its bytes on disk, and return its entry."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return FileEntry(size=self.size, sha256=self._hash.hexdigest(), blocks=_blocks_of(self.path, self.size))

    def close(self) -> None:
        """Close the file without a sync; bytes that are not on disk yet may be lost."""
        with contextlib.suppress(OSError):
            self._file.close()


def entry_of(path: Path, name: str) -> FileEntry:
    """Return the entry of a file of a folder on a disk."""
    size = (path / name).stat().st_size
    return FileEntry(size=size, sha256=LocalFolder(path).digest(name), blocks=_blocks_of(path / name, size))


def _blocks_of(path: Path, size: int) -> str:
    """Return the digests of the blocks of a file, one after another."""
    reader, digests = LocalReader(path), []
    for start, length in block_spans(size):
        data = bytearray(length)
        reader.read_into([memoryview(data)], start)
        digests.append(block_digest(data))
    return "".join(digests)


def _behind(buffers: Sequence[memoryview], num: int) -> list[memoryview]:
    """Return the buffers without their first ``num`` bytes, since a large read may be split."""
    rest = []
    for buffer in buffers:
        if num < len(buffer):
            rest.append(buffer[num:])
        num = max(0, num - len(buffer))
    return rest


def _unreadable(path: Path, error: OSError) -> BankError:
    return BankError(f"{path}: cannot be read: {error.strerror or error}")
