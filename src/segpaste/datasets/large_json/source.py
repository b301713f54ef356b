"""Bytes of a file, read by position.

Reads are positioned, so that forked workers and threads share the descriptor. It refers to the opened file, even if
another program renames a file into its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HELD_BYTES = 4 << 20
"""Size of the largest file held in memory; its index is made in 0.2 s."""

_PIECE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


class FileStamp(NamedTuple):
    """Numbers of `os.stat` that change when a file is written or replaced."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Source:
    """File as UTF-8 text in bytes.

    Files of up to 4 MiB are held in memory, so they may be overwritten while in use. Pipes, which cannot be read by
    position, and files with other encodings (UTF-16, UTF-32) are held in memory, too.

    Args:
        path: the file.

    Attributes:
        size: number of bytes.
        stamp: stamp of the file; None for a pipe.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: its text is truncated.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        close = weakref.finalize(self, os.close, self._descriptor)
        self._text: bytes | None = None
        self._digest: str | None = None
        self.stamp = _stamp_of(self._descriptor)
        self.size = 0 if self.stamp is None else self.stamp.size
        if self.stamp is not None and self.size > HELD_BYTES:
            encoding = json.detect_encoding(self.read(0, 4))
            if encoding.startswith("utf-8"):
                return
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            raw = file.read()
        close()
        self._digest = hashlib.sha256(raw).hexdigest()
        self._text = _in_utf8(raw)
        self.size = len(self._text)

    @property
    def is_held(self) -> bool:
        """True if the text is in memory."""
        return self._text is not None

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` up to ``stop``; fewer if the file ends before."""
        if self._text is not None:
            return self._text[start:stop]
        pieces: list[bytes] = []
        while start < stop and (piece := os.pread(self._descriptor, stop - start, start)):
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def pieces(self, num_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
        """Yield all bytes in order, in pieces of about ``num_bytes`` that do not end in a backslash."""
        at = 0
        while piece := self.read(at, at + num_bytes):
            while piece.endswith(b"\\") and (more := self.read(at + len(piece), at + 2 * len(piece))):
                piece += more
            yield piece
            at += len(piece)

    def is_mentioned(self, word: bytes) -> bool:
        """Return whether a word of fewer than 1000 bytes is anywhere in the file."""
        rest = b""
        for piece in self.pieces():
            if word in rest + piece:
                return True
            rest = piece[-1000:]
        return False

    def compute_digest(self) -> str:
        """Return the SHA-256 of the file, in hex."""
        if self._digest is None:
            found = hashlib.sha256()
            for piece in self.pieces():
                found.update(piece)
            self._digest = found.hexdigest()
        return self._digest

    def has_bom(self) -> bool:
        """Return whether the text begins with a byte order mark."""
        return self.read(0, 3) == _BOM


def _stamp_of(descriptor: int) -> FileStamp | None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileStamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _in_utf8(raw: bytes) -> bytes:
    encoding = json.detect_encoding(raw)
    if encoding.startswith("utf-8"):
        return raw
    return raw.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
