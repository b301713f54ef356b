"""Format of packed records in one LMDB file, for banks on local NVMe drives that many processes read.

Keys are the index of the crop as 8 bytes, big-endian, so that the file has the order of the crops; a value is one
packed record of `segpaste.bank.schema.record`. The classes follow, a block of 2^20 int64 per key, so that a sampler
need not read all crops. LMDB maps its file, and a file that is truncated while it is open kills the process, so sizes
are compared before it is opened. http://www.lmdb.tech/doc/
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.protocol import Columns
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.meta import LARGEST_FILE, FileEntry, Format
from segpaste.bank.schema.record import Array, BankError
from segpaste.bank.storage.files import entry_of
from segpaste.extras import require

DATA = "data.mdb"
_CLASS_BLOCK = 1 << 20
_PER_TRANSACTION = 1 << 24  # bytes
_ADVICE = {"read": "run segpaste bank verify, copy or build the bank again", "written": "is the disk full?"}


def crop_key(index: int) -> bytes:
    """Return the key of the record of a crop."""
    return struct.pack(">Q", index)


def class_key(block: int) -> bytes:
    """Return the key of a block of classes; it is after the keys of all crops."""
    return b"\xff" + struct.pack(">Q", block)


class LMDBBank(StoredBank):
    """Bank in one LMDB file."""

    format: ClassVar[Format] = "lmdb"

    def _files_needed(self) -> dict[str, tuple[int, int]]:
        return {DATA: (len(self) * self.layout.dtype.itemsize, LARGEST_FILE)}

    def _open(self) -> _Use:
        self._files.open([DATA])  # checks blocks: a damaged mapped page can end the process
        with _problems_told(self.where, "read"):
            return _Use(self.where, self.version)

    def _read(self, handle: _Use, rows: Sequence[int], out: Columns) -> None:
        dtype = self.layout.dtype
        with handle.reading() as get:
            for n, row in enumerate(rows):
                record = np.frombuffer(get(crop_key(row), dtype.itemsize, f"for crop {row}"), dtype)
                for name, array in out.items():
                    array[n] = record[name][0]

    def _class_ids(self, handle: _Use) -> NDArray[np.int64]:
        ids = np.empty(len(self), np.int64)
        with handle.reading() as get:
            for block, first in enumerate(range(0, len(ids), _CLASS_BLOCK)):
                part = ids[first : first + _CLASS_BLOCK]
                part[:] = np.frombuffer(get(class_key(block), part.nbytes, "of classes"), "<i8")
        return ids


class LMDBWriter(FolderWriter):
    """Writer of an `LMDBBank`, with the arguments of `FolderWriter`."""

    format: ClassVar[Format] = "lmdb"

    def _start(self) -> None:
        with _problems_told(self._folder, "written"):
            self._env = require("lmdb").open(str(self._folder), map_size=1 << 30, lock=False)
        self._classes = (self._folder / "classes.raw").open("w+b")
        self._waiting: list[tuple[bytes, bytes]] = []
        self._size = 0

    def _append(self, row: Array) -> None:
        self._put(crop_key(self.num_crops), row.tobytes())
        self._classes.write(row["class_id"].tobytes())

    def _finish(self) -> dict[str, FileEntry]:
        self._classes.seek(0)
        for block, classes in enumerate(iter(lambda: self._classes.read(8 * _CLASS_BLOCK), b"")):
            self._put(class_key(block), classes)
        self._commit()
        with _problems_told(self._folder, "written"):
            self._env.sync(True)
        self._discard()
        (self._folder / "classes.raw").unlink()
        return {DATA: entry_of(self._folder, DATA)}

    def _discard(self) -> None:
        self._env.close()
        self._classes.close()

    def _put(self, key: bytes, value: bytes) -> None:
        self._waiting.append((key, value))
        self._size += len(value)
        if self._size >= _PER_TRANSACTION:
            self._commit()

    def _commit(self) -> None:
        """Write the waiting values; if the map is full, enlarge it."""
        full = require("lmdb").MapFullError
        with _problems_told(self._folder, "written"):
            while True:
                try:
                    with self._env.begin(write=True) as transaction:
                        for key, value in self._waiting:
                            transaction.put(key, value, append=True)
                    break
                except full:
                    self._env.set_mapsize(2 * self._env.info()["map_size"])
        self._waiting, self._size = [], 0


@contextmanager
def _problems_told(folder: Path | str, action: str) -> Iterator[None]:
    """Raise the errors of LMDB about its pages or the disk as BankError; ``action`` is a key of `_ADVICE`."""
    try:
        yield
    except require("lmdb").Error as error:
        raise BankError(f"{folder}/{DATA}: cannot be {action}: {error}; {_ADVICE[action]}") from error


class _Environment:
    """Environment that is open in this process, with its users."""

    def __init__(self, path: str) -> None:
        self.pid = os.getpid()
        self.users: set[int] = set()
        self.env = require("lmdb").open(path, readonly=True, lock=False, readahead=False, create=False)


class _Use:
    """Use by one bank of the only environment that LMDB allows a process to have of a file.

    Each read holds it, so no environment is closed during a read; the last use that is dropped closes it. LMDB
    identifies a file by its inode and not by its name, and so does this class.

    Every call of LMDB holds one lock, which a fork takes too: otherwise a child that was forked during a call would
    wait for its end for ever. Crops are copied without the lock.
    """

    _lock: ClassVar[threading.RLock] = threading.RLock()  # re-entrant: the garbage collector may drop a use anywhere
    _of_file: ClassVar[dict[tuple[int, int, str], _Environment]] = {}
    _environment: _Environment | None = None

    def __init__(self, path: str, version: str) -> None:
        stat = os.stat(os.path.join(path, DATA))
        self._path = path
        self._key = key = stat.st_dev, stat.st_ino, version
        with self._lock:
            while True:
                found = self._of_file.get(key)
                if found is not None and found.pid != os.getpid():  # opened by the parent
                    found.env.close()
                    found = None
                if found is None:
                    found = self._of_file[key] = _Environment(path)
                found.users.add(id(self))
                if self._of_file.get(key) is found:
                    break  # else its last user was collected before this one was added
            self._environment, self._env = found, found.env

    @contextmanager
    def reading(self) -> Iterator[Callable[[bytes, int, str], Any]]:
        """Yield a function that returns the value of a key, a buffer of the given size, valid in the block."""

        def get(key: bytes, size: int, what: str) -> Any:
            with self._lock:
                value = transaction.get(key)
            if value is None or len(value) != size:
                came = "no record" if value is None else f"{len(value)} bytes"
                raise BankError(f"{self._path}/{DATA}: expected {size} bytes {what}, got {came}")
            return value

        with _problems_told(self._path, "read"):
            with self._lock:
                transaction = self._env.begin(buffers=True)
            try:
                yield get
            finally:
                with self._lock:
                    transaction.abort()

    def __del__(self) -> None:
        if (environment := self._environment) is None:
            return
        with self._lock:
            environment.users.discard(id(self))
            if environment.users:
                return
            if self._of_file.get(self._key) is environment:
                del self._of_file[self._key]
            environment.env.close()


os.register_at_fork(before=_Use._lock.acquire, after_in_parent=_Use._lock.release, after_in_child=_Use._lock.release)
