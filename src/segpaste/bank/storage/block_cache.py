"""Cache of blocks of remote files on a local disk, of bounded size, shared by all processes of the machine.

A block is a file: its bytes, then a CRC-32 for each page of 16 KiB of them. Every read checks the sums of the pages
that it reads, so a block that was damaged, truncated or swapped is fetched again, never pasted. Lengths alone are not
enough: a file that was renamed just before a crash may have its length and no bytes. So nothing is synced.

The used bytes are counted in the file ``used``, under a lock. When a block would pass the bound, the least recently
read blocks are removed, a tenth of the bound at once. Times of last use are modification times, to the second.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import warnings
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.bank.schema.record import BankError

BLOCK_BYTES = 1 << 20
"""Size of a block. A crop of 256² is 256 KiB: larger blocks fetch mostly unused bytes if the cache is too small."""
MAX_BYTES = 20 << 30
"""Default bound of the cache."""

_PAGE = 1 << 14
_USED = "used"
_NEW = "new-"
_STALE_S = 3600
_TOUCH_S = 1.0


class BlockCache:
    """Folder of blocks.

    Args:
        folder: path of the folder; by default ``SEGPASTE_CACHE``, else ``segpaste/blocks`` under ``XDG_CACHE_HOME`` or
            ``~/.cache``.
        max_bytes: bound of all blocks together, 0 for no cache; by default ``SEGPASTE_CACHE_BYTES``, else 20 GiB. For
            a moment each process may exceed it by the block that it writes.
        block_bytes: size of a block, in bytes of the remote file.

    Raises:
        BankError: a size is no number, or out of range.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        max_bytes: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._given = (folder, max_bytes, block_bytes)
        self.folder = _default_folder() if folder is None else Path(folder).absolute()
        self.max_bytes = _default_max_bytes() if max_bytes is None else max_bytes
        self.block_bytes = block_bytes
        if self.max_bytes < 0 or block_bytes < 1:
            raise BankError(f"BlockCache: expected sizes of at least 0 and 1 byte, got {max_bytes} and {block_bytes}")

    def __reduce__(self) -> Any:
        """Pickle only the given arguments: on another machine the defaults are those of that machine."""
        return BlockCache, self._given

    def key(self, *parts: str) -> str:
        """Return the name of a remote file in the cache."""
        return hashlib.sha256("\0".join((*parts, str(self.block_bytes))).encode()).hexdigest()[:32]

    def read(self, key: str, block: int, num_bytes: int, start: int, stop: int) -> memoryview | None:
        """Return bytes ``start`` to ``stop`` of a block of ``num_bytes``; None if it is missing or damaged."""
        try:
            with open(self.folder / f"{key}-{block}", "rb", buffering=0) as file:
                return _read_pages(file.fileno(), key, block, num_bytes, start, stop)
        except OSError:
            return None

    def write(self, key: str, block: int, data: bytes) -> None:
        """Store a block; if the disk is full or not writable, warn once and continue without."""
        sums = _sums(data, key, block, 0)
        size = len(data) + len(sums)
        if size > self.max_bytes:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._reserve(size)
            descriptor, new = tempfile.mkstemp(dir=self.folder, prefix=_NEW)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.write(sums)
                os.replace(new, self.folder / f"{key}-{block}")
            except BaseException:
                with suppress(OSError):
                    os.unlink(new)
                raise
        except OSError as error:
            warnings.warn(
                f"{self.folder}: blocks of the bank cannot be cached, they are read from the store each time: "
                f"{error.strerror or error}; make room, or set SEGPASTE_CACHE to another folder",
                RuntimeWarning,
                stacklevel=2,
            )

    def _reserve(self, size: int) -> None:
        """Count a new block, and make room for it first."""
        descriptor = os.open(self.folder / _USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing the file releases it, and so does the end of the process
            text = file.read()
            used = int(text) if text.isdigit() else self._evict(self.max_bytes)
            if used + size > self.max_bytes:
                used = self._evict(max(0, self.max_bytes - self.max_bytes // 10 - size))
            file.seek(0)
            file.write(b"%020d" % (used + size))

    def _evict(self, target: int) -> int:
        """Remove the least recently read blocks until at most ``target`` bytes are left; return the bytes left."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    stale = entry.name.startswith(_NEW) and time.time() - status.st_mtime > _STALE_S
                    if entry.name != _USED and entry.is_file(follow_symlinks=False):
                        found.append((not stale, status.st_mtime, status.st_size, entry.path))
        left = sum(size for _, _, size, _ in found)
        for fresh, _, size, path in sorted(found):
            if fresh and left <= target:
                break
            if not fresh or not os.path.basename(path).startswith(_NEW):
                with suppress(FileNotFoundError):
                    os.unlink(path)
                left -= size
        return left


def _default_folder() -> Path:
    if named := os.environ.get("SEGPASTE_CACHE"):
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "segpaste" / "blocks"


def _default_max_bytes() -> int:
    named = os.environ.get("SEGPASTE_CACHE_BYTES", "").strip()
    if named and not (named.isascii() and named.isdigit()):
        raise BankError(
            f"SEGPASTE_CACHE_BYTES: expected a number of bytes such as {MAX_BYTES}, without a unit, got {named!r}; "
            "write the number in full, or unset the variable"
        )
    return int(named) if named else MAX_BYTES


def _read_pages(descriptor: int, key: str, block: int, num_bytes: int, start: int, stop: int) -> memoryview | None:
    status = os.fstat(descriptor)
    if status.st_size != num_bytes + 4 * -(-num_bytes // _PAGE):
        return None
    first, last = start // _PAGE, -(-stop // _PAGE)
    size = min(last * _PAGE, num_bytes) - first * _PAGE
    data = os.pread(descriptor, size, first * _PAGE)
    sums = os.pread(descriptor, 4 * (last - first), num_bytes + 4 * first)
    if len(data) != size or _sums(data, key, block, first) != sums:
        return None
    if time.time() - status.st_mtime > _TOUCH_S:
        with suppress(OSError):
            os.utime(descriptor)
    return memoryview(data)[start - first * _PAGE : stop - first * _PAGE]


def _sums(data: bytes, key: str, block: int, first: int) -> bytes:
    """Return the CRC-32 of every page, little-endian, seeded with the name of the block."""
    view, seed = memoryview(data), zlib.crc32(f"{key}-{block}".encode())
    pages = range(0, len(data), _PAGE)
    sums = [zlib.crc32(view[at : at + _PAGE], seed ^ (first + at // _PAGE)) for at in pages]
    return np.array(sums, "<u4").tobytes()


def cache_state(problems: list[dict[str, str]]) -> dict[str, Any]:
    """Return folder, limit, size and free space of the cache of remote banks.

    Args:
        problems: gets an error for an invalid limit, and a remark for a folder that cannot be written to.
    """
    try:
        found = BlockCache()
    except BankError as error:
        problems.append({"severity": "error", "message": str(error)})
        return {}
    place = next(path for path in (found.folder, *found.folder.parents) if path.exists())
    is_writable = os.access(place, os.W_OK | os.X_OK) and place.is_dir()
    if not is_writable:
        text = f"{found.folder}: blocks of remote banks cannot be kept there; set SEGPASTE_CACHE to another folder"
        problems.append({"severity": "remark", "message": text})
    return {
        "folder": str(found.folder),
        "exists": found.folder.is_dir(),
        "is_writable": is_writable,
        "max_bytes": found.max_bytes,
        "free_bytes": shutil.disk_usage(place).free,
    }
