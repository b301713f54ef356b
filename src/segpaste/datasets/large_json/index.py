"""Index of an annotation file: columns of ids, references and texts, in one memory-mapped file of the cache folder.

    16 bytes   "segpaste-index", 2 zeros
     4 bytes   CRC-32 of all that follows
     4 bytes   length of the header
     header    JSON: format, key, facts, and for each array its name, dtype, shape and position
     arrays    each at a multiple of 64 bytes

All numbers are little-endian. A file that is damaged, or has another key or format, counts as missing, and the index is
made again. Without a writable folder an index stays in memory.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste._caches import cache_folder
from segpaste.datasets.large_json.text import FileStamp
from segpaste.workspace import write_whole

Column = NDArray[Any]


def id_column(ids: Iterable[int]) -> Column:
    """Return ids as an array of integers, or of decimal text if they exceed 64 bits; `int` reads an element."""
    found = list(ids)
    try:
        return np.array(found, np.int64)
    except OverflowError:
        return np.array([str(number).encode() for number in found])


def join_columns(parts: Iterable[Column]) -> Column:
    """Join the id columns of blocks."""
    found = list(parts)
    if any(part.dtype.kind == "S" for part in found):
        found = [part.astype("S") for part in found]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def narrow(values: Column) -> Column:
    """Return integers in the smallest type that holds them all; with negative integers the type does not change."""
    if values.dtype.kind not in "iu" or not values.size or values.min() < 0:
        return values
    return values.astype(np.min_scalar_type(values.max()))


def repeats(ids: Column) -> NDArray[np.bool_]:
    """Return for each id whether it occurs before in the column."""
    order = np.argsort(ids, kind="stable")
    ordered, is_again = ids[order], np.zeros(len(ids), bool)
    is_again[order[1:]] = ordered[1:] == ordered[:-1]
    return is_again


def positions_in(ids: Column, wanted: Column) -> NDArray[np.int64]:
    """Return the position of each wanted id in a column of unique ids, -1 if it is missing; [wanted] int64."""
    if "S" in (ids.dtype.kind, wanted.dtype.kind):
        ids, wanted = ids.astype("S"), wanted.astype("S")
    if not ids.size:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(ids, kind="stable")
    found = order[np.searchsorted(ids, wanted, sorter=order).clip(max=ids.size - 1)]
    return np.where(ids[found] == wanted, found, -1)


def pack_texts(texts: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenate texts in UTF-8, and return them with the end of each text."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), ends


def unpack_text(packed: Column, ends: Column, position: int) -> str:
    """Return one of the texts of `pack_texts`."""
    start = int(ends[position - 1]) if position else 0
    return packed[start : int(ends[position])].tobytes().decode("utf-8", "surrogatepass")


def firsts_of(groups: NDArray[np.int64], num_groups: int) -> NDArray[np.int64]:
    """Return the start of each group among members sorted by group, and the end of the last; [groups + 1] int64."""
    return np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=num_groups))]).astype(np.int64)


FORMAT = 2
"""Version of index files; it changes with their content, not only with their form."""

_MAGIC = b"segpaste-index\0\0"
_PREFIX = struct.Struct("<16sII")
_ALIGN = 64
_UNUSED_S = 90 * 24 * 3600
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Index:
    """Small values and arrays about an annotation file.

    Attributes:
        facts: small values of JSON types.
        arrays: integers, or texts of a fixed length in bytes; read-only.
    """

    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def load_index(key: str) -> Index | None:
    """Return the index of this key from the cache folder; None if there is no complete one."""
    path = _path_of(key)
    try:
        with path.open("rb") as file:
            if not _is_whole(file.fileno()):
                return None
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        index = _parse(text, key)
        with suppress(OSError):
            os.utime(path)  # records the last use
    except (OSError, ValueError, TypeError, KeyError, struct.error):
        return None
    return index


def save_index(key: str, index: Index) -> None:
    """Write an index into the cache folder, and remove files there that were not used for 90 days.

    Do nothing if the folder is not writable.
    """
    path = _path_of(key)
    with suppress(OSError):
        write_whole(path, _pieces(key, index))
    with suppress(OSError):
        for other in path.parent.iterdir():
            with suppress(OSError):
                if other.is_file() and time.time() - other.stat().st_mtime > _UNUSED_S:
                    other.unlink()


def noted_digest(stamp: FileStamp) -> str | None:
    """Return the recorded digest of a file with this stamp."""
    try:
        text = _note_of(stamp).read_text("ascii")
    except (OSError, ValueError):
        return None
    is_digest = len(text) == 64 and not set(text) - set("0123456789abcdef")
    return text if is_digest else None


def note_digest(stamp: FileStamp, digest: str) -> None:
    """Record the digest of a file, unless it was written so recently that another write may leave the same stamp."""
    if time.time_ns() - max(stamp.mtime_ns, stamp.ctime_ns) > _SETTLED_NS:
        with suppress(OSError):
            write_whole(_note_of(stamp), digest.encode())


def _path_of(key: str) -> Path:
    return cache_folder("annotations") / f"{key}.{FORMAT}.index"


def _note_of(stamp: FileStamp) -> Path:
    return cache_folder("annotations") / f"{'-'.join(map(str, stamp))}.digest"


def _is_whole(descriptor: int) -> bool:
    """Compare the checksum by reads, because pages of the mapping count as memory of the process."""
    prefix = os.pread(descriptor, _PREFIX.size, 0)
    magic, wanted, _ = _PREFIX.unpack(prefix)
    found, at = 0, _PREFIX.size - 4
    while piece := os.pread(descriptor, 1 << 20, at):
        found = zlib.crc32(piece, found)
        at += len(piece)
    return bool(magic == _MAGIC and found == wanted)


def _parse(text: mmap.mmap, key: str) -> Index | None:
    _, _, length = _PREFIX.unpack(text[: _PREFIX.size])
    header = json.loads(text[_PREFIX.size : _PREFIX.size + length])
    if (header["format"], header["key"]) != (FORMAT, key):
        return None
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape, position in header["arrays"]:
        kind = np.dtype(dtype)
        if kind.kind not in "iuS":
            return None
        array = np.frombuffer(text, kind, int(np.prod(shape)), position) if np.prod(shape) else np.zeros(0, kind)
        arrays[name] = array.reshape(shape)
    return Index(header["facts"], arrays)


def _pieces(key: str, index: Index) -> Iterator[bytes]:
    """Yield the pieces of an index file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in index.arrays.items()}
    header = _header(key, index, arrays, 0)
    header = _header(key, index, arrays, len(header) + 1024)
    body = [struct.pack("<I", len(header)), header]
    at = _PREFIX.size + len(header)
    for array in arrays.values():
        body += [bytes(-at % _ALIGN), array.tobytes()]
        at += -at % _ALIGN + array.nbytes
    checksum = 0
    for piece in body:
        checksum = zlib.crc32(piece, checksum)
    yield _PREFIX.pack(_MAGIC, checksum, 0)[:-4]
    yield from body


def _header(key: str, index: Index, arrays: dict[str, NDArray[Any]], length: int) -> bytes:
    """Return the header, padded to ``length`` bytes, with the positions of arrays after a header of that length."""
    rows, at = [], _PREFIX.size + length
    for name, array in arrays.items():
        at += -at % _ALIGN
        rows.append([name, array.dtype.str, list(array.shape), at])
        at += array.nbytes
    values = {"format": FORMAT, "key": key, "facts": index.facts, "arrays": rows}
    return json.dumps(values).encode().ljust(length)
