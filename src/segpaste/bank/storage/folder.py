"""Folder of a bank in an object store, read by ranges through a cache on a local disk.

It may be any URL that fsspec knows: ``s3://bucket/folder``, ``gs://``, ``https://``. Only shards are read in this way:
in them a crop is one range. The tag of an object, mostly its ETag, is kept from the opening of the bank. S3 is asked
for bytes of the object with that tag only, and cached blocks depend on it, so bytes of two versions are never mixed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

from segpaste.bank.schema.record import BankError
from segpaste.bank.storage._object_store import Found, ObjectStore, find
from segpaste.bank.storage.block_cache import BlockCache
from segpaste.bank.storage.files import LocalFolder, Request, read_all

NUM_AT_ONCE = 8
"""Maximum number of parallel fetches of one batch; the pool of botocore has 10 connections."""

_DIGEST_BYTES = 8 << 20


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names an object store, not a disk."""
    return "://" in os.fspath(path) and not os.fspath(path).startswith("file://")


def local_path(path: str | os.PathLike[str]) -> str:
    """Return a path without ``file://``."""
    return os.fspath(path).removeprefix("file://")


class RemoteFolder:
    """Folder in an object store.

    Args:
        url: URL of the folder.
        storage_options: options of fsspec's file system. They are pickled with the bank, with their secrets, and so
            go to every worker; those in the environment or in the configuration of the store do not.
        cache: cache of its blocks, by default that of the environment, see `BlockCache`.

    Attributes:
        where: URL, without a slash at its end.
    """

    def __init__(
        self, url: str, storage_options: Mapping[str, Any] | None = None, cache: BlockCache | None = None
    ) -> None:
        self.store = ObjectStore(url, storage_options)
        self.where = self.store.url
        self.cache = BlockCache() if cache is None else cache
        self._found: dict[str, Found | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": None}

    def read_bytes(self, name: str) -> bytes:
        """Read an object as a whole, without the cache; see `LocalFolder.read_bytes`."""
        return self.store.read(name)

    def size(self, name: str) -> int | None:
        """Return the size of an object; see `LocalFolder.size`."""
        found = self._find(name)
        return None if found is None else found.size

    def digest(self, name: str) -> str:
        """Return the SHA-256 of the object in the store, not in the cache; see `LocalFolder.digest`."""
        reader = RemoteReader(self, name, self._known(name), "")
        digest = hashlib.sha256()
        for start in range(0, reader.size, _DIGEST_BYTES):
            digest.update(reader.fetch(start, min(start + _DIGEST_BYTES, reader.size)))
        return digest.hexdigest()

    def open(self, name: str, version: str) -> RemoteReader:
        """Open an object; see `LocalFolder.open`."""
        found = self._known(name)
        return RemoteReader(self, name, found, self.cache.key(version, name, str(found.size), found.tag))

    def read_many(self, requests: Sequence[Request]) -> None:
        """Serve requests; several threads fetch the blocks that the cache lacks, each once."""
        missing = [request for request in requests if not cast(RemoteReader, request.reader).read_kept(request)]
        groups = _sharing_blocks(missing, self.cache.block_bytes if self.cache.max_bytes else 1)
        if len(groups) <= 1:
            read_all(missing)
            return
        with ThreadPoolExecutor(min(len(groups), NUM_AT_ONCE), "segpaste-fetch") as pool:
            list(pool.map(read_all, groups))  # an error cancels the waiting groups

    def _known(self, name: str) -> Found:
        if (found := self._find(name)) is None:
            raise BankError(f"{self.where}/{name}: expected an object, there is none; copy or build the bank again")
        return found

    def _find(self, name: str) -> Found | None:
        """Return an object as it was at its first look-up; one listing serves a thousand objects."""
        if self._found is None:
            self._found = self._list()
        if name not in self._found:
            self._found[name] = self.store.find(name)
        return self._found[name]

    def _list(self) -> dict[str, Found | None]:
        """Return the listed objects; none if objects may be read but not listed."""
        try:
            return {name: found for name, found in self.store.list().items() if found.tag}
        except BankError as error:
            if isinstance(error.__cause__, PermissionError | NotImplementedError):
                return {}
            raise


def _fill(buffers: Sequence[memoryview], parts: Sequence[memoryview]) -> None:
    data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    done = 0
    for buffer in buffers:
        buffer[:] = data[done : done + len(buffer)]
        done += len(buffer)


def _sharing_blocks(requests: Sequence[Request], block_bytes: int) -> list[list[Request]]:
    """Group requests so that no block is needed by two groups."""
    groups: list[list[Request]] = []
    last: tuple[int, int] | None = None
    for request in sorted(requests, key=lambda request: (id(request.reader), request.offset)):
        reader = id(request.reader)
        if last is None or (reader, request.offset // block_bytes) > last:
            groups.append([])
        groups[-1].append(request)
        last = reader, (request.offset + sum(map(len, request.buffers)) - 1) // block_bytes
    return groups


Folder = LocalFolder | RemoteFolder
"""Folder of the files of a bank; it is pickled with the bank, so it has no handles."""


def folder_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Folder:
    """Return the folder at a path or URL."""
    return RemoteFolder(os.fspath(path), storage_options) if is_url(path) else LocalFolder(local_path(path))


class RemoteReader:
    """Reader of ranges of one object, for one process and any of its threads.

    Args:
        folder, name: folder and name of the object.
        found: the object as it was when the bank was opened.
        key: key of its blocks in the cache.
    """

    def __init__(self, folder: RemoteFolder, name: str, found: Found, key: str) -> None:
        self.store, self.cache, self.name, self.key = folder.store, folder.cache, name, key
        self.size, self._tag = found
        self._idle: list[Any] = []  # open files, each used by one thread at a time
        self._is_checked = False

    def read_into(self, buffers: Sequence[memoryview], offset: int) -> None:
        """Fill all buffers; see `Reader.read_into`."""
        wanted = sum(map(len, buffers))
        if offset + wanted > self.size:
            raise BankError(
                f"{self.store.url}/{self.name}: expected {wanted} bytes at {offset}, got "
                f"{max(0, self.size - offset)}; the object is shorter than when the bank was built"
            )
        if self.cache.max_bytes == 0:
            _fill(buffers, [memoryview(self.fetch(offset, offset + wanted))])
        else:
            _fill(buffers, [self._of_block(*span) for span in self._spans(offset, offset + wanted)])

    def read_kept(self, request: Request) -> bool:
        """Serve a request from the cache alone; return False if the cache lacks a byte of it."""
        stop = request.offset + sum(map(len, request.buffers))
        if self.cache.max_bytes == 0 or stop > self.size:
            return False
        parts = []
        for span in self._spans(request.offset, stop):
            if (part := self._kept(*span)) is None:
                return False
            parts.append(part)
        _fill(request.buffers, parts)
        return True

    def fetch(self, start: int, stop: int) -> bytes:
        """Read bytes of the object itself.

        Raises:
            BankError: they cannot be read, or the object was replaced.
        """

        def call(fs: Any, path: str) -> bytes:
            file = self._file(fs, path)
            file.seek(start)
            data: bytes = file.read(stop - start)
            if len(data) < stop - start:
                fs.invalidate_cache()
                self._check(find(fs, path))
                raise EOFError(f"expected {stop - start} bytes, got {len(data)}")
            self._idle.append(file)
            return data

        try:
            return self.store.attempt(self.name, f"read at {start}", call)
        except FileNotFoundError:
            raise self._replaced("no object") from None

    def _file(self, fs: Any, path: str) -> Any:
        """Return an open file that no other thread uses; the first one is checked against the opening of the bank."""
        with suppress(IndexError):
            return self._idle.pop()
        file = fs.open(path, "rb", cache_type="none")
        if not self._is_checked:
            if not self.store.is_s3:  # S3 compares the tag at each range, so its listing is enough
                fs.invalidate_cache()
            self._check(find(fs, path))
            self._is_checked = True
        return file

    def _spans(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return the blocks of a range: number, first byte and end of the bytes in each."""
        size = self.cache.block_bytes
        return [
            (block, max(start - block * size, 0), min(stop - block * size, size))
            for block in range(start // size, -(-stop // size))
        ]

    def _of_block(self, block: int, start: int, stop: int) -> memoryview:
        if (kept := self._kept(block, start, stop)) is not None:
            return kept
        first = block * self.cache.block_bytes
        data = self.fetch(first, min(first + self.cache.block_bytes, self.size))
        self.cache.write(self.key, block, data)
        return memoryview(data)[start:stop]

    def _kept(self, block: int, start: int, stop: int) -> memoryview | None:
        num_bytes = min(self.cache.block_bytes, self.size - block * self.cache.block_bytes)
        return self.cache.read(self.key, block, num_bytes, start, stop)

    def _check(self, found: Found | None) -> None:
        if found != (self.size, self._tag):
            raise self._replaced("no object" if found is None else f"{found.size} bytes, tag {found.tag}")

    def _replaced(self, came: str) -> BankError:
        return BankError(
            f"{self.store.url}/{self.name}: expected {self.size} bytes, tag {self._tag}, got {came}; it was replaced "
            "since the bank was opened; open the bank again"
        )
