"""Reader of vectors in Kaldi's archives (``.ark``), by a script file (``.scp``) or whole, and of ``utt2spk``.

An archive has an entry for each utterance: its id, a space, and a vector or a matrix of floats, in binary or in text.

    id, space, 0x00 'B', 'FV ', 0x04, int32 D, D float32 (DV: float64)
    id, space, 0x00 'B', 'FM ', 0x04, int32 n, 0x04, int32 D, n * D float32 (DM: float64)
    id, spaces, '[', numbers, ']', with a line for each row of a matrix

All numbers are little-endian. A line of a script file has an id and the place of a value, ``path:byte``; without
``:byte`` the value is the whole content of the file. A relative path is looked up in the working folder, as in Kaldi,
else beside the script file. Commands (``... |``), ranges and compressed matrices are rejected: a file of data must not
run a program.
"""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste._utf8 import NotUtf8Error, decode_utf8
from segpaste.encoder.vector_csv import MOST_OPEN, VectorsError

SUFFIXES = (".ark", ".scp")
"""Endings of the files that `read_kaldi` reads."""

_LONGEST_ID = 4096  # bytes
_BINARY = b"\0B"
_KINDS = {b"FV ": (1, "<f4"), b"DV ": (1, "<f8"), b"FM ": (2, "<f4"), b"DM ": (2, "<f8")}
_BLANKS = b" \t\r\n"

Data = mmap.mmap | bytes
Rows = NDArray[np.floating[Any]]


class KaldiVectors(NamedTuple):
    """Vectors of utterances.

    Attributes:
        ids: id of the utterance of each vector; an utterance with a matrix of n rows has n vectors.
        vectors: float32 [N, D], finite.
    """

    ids: list[str]
    vectors: NDArray[np.float32]


def read_kaldi(path: Path) -> KaldiVectors:
    """Read all vectors of an archive, or those that a script file lists.

    Raises:
        VectorsError: the file is broken or of another kind, or there are no vectors.
        OSError: a file cannot be read.
    """
    ids: list[str] = []
    found: list[NDArray[np.float32]] = []
    seen: set[str] = set()
    for name, where, rows in _listed(path) if path.suffix == ".scp" else _archived(path):
        if name in seen:
            raise VectorsError(f"{where}: expected each utterance once, got it twice")
        if found and rows.shape[1] != found[0].shape[1]:
            expected = f"{found[0].shape[1]} numbers as in the utterances before"
            raise VectorsError(f"{where}: expected {expected}, got {rows.shape[1]}")
        with np.errstate(over="ignore"):
            vectors = rows.astype(np.float32)
        if not np.isfinite(vectors).all():
            raise VectorsError(f"{where}: expected finite numbers, got NaN or an infinite value")
        seen.add(name)
        ids += [name] * len(vectors)
        found.append(vectors)
    if not found:
        raise VectorsError(f"{path}: expected a vector for each utterance, got an empty file")
    return KaldiVectors(ids, np.concatenate(found))


def read_speakers(path: Path, ids: list[str]) -> list[str]:
    """Read the speaker of each utterance from an ``utt2spk``, a line for each: its id and the speaker.

    Args:
        path: the file; it may have more utterances.
        ids: ids of the utterances.

    Raises:
        VectorsError: a line is invalid, or an utterance has no speaker.
        OSError: the file cannot be read.
    """
    speaker_of: dict[str, str] = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) != 2:
            raise VectorsError(
                f"{path}: line {number}: expected an utterance and its speaker, got {line.strip()!r:.60}"
            )
        if speaker_of.setdefault(*words) != words[1]:
            raise VectorsError(f"{path}: line {number}: expected one speaker of {words[0]!r:.60}, got another one")
    missing = [name for name in ids if name not in speaker_of]
    if missing:
        more = f" and {len(missing) - 1:,} other utterances" if len(missing) > 1 else ""
        raise VectorsError(f"{path}: expected the speaker of each utterance, got none of {missing[0]!r:.60}{more}")
    return [speaker_of[name] for name in ids]


def _archived(path: Path) -> Iterator[tuple[str, str, Rows]]:
    """Yield the id of each utterance of an archive, its place for messages, and its vectors, [n, D]."""
    data, at = _opened(path), 0
    while (at := _after_blanks(data, at)) < len(data):
        end = data.find(b" ", at, at + _LONGEST_ID)
        try:
            name = data[at:end].decode() if end > at else ""
        except UnicodeDecodeError:
            name = ""
        if not name.isprintable() or not name:
            raise VectorsError(
                f"{path}: byte {at:,}: expected the id of an utterance and a space, as in an archive of Kaldi, got "
                f"{data[at : at + 12]!r}"
            )
        where = f"{path}: utterance {name!r:.60}"
        rows, at = _value(data, end + 1, where)
        yield name, where, rows


def _listed(path: Path) -> Iterator[tuple[str, str, Rows]]:
    """Yield the same for each line of a script file."""
    files: dict[str, Data] = {}
    for number, line in _lines(path):
        name, _, place = line.strip().partition(" ")
        where, place = f"{path}: line {number}, utterance {name!r:.60}", place.strip()
        if not place or place.endswith(("|", "]")):
            kinds = {"|": "a command, which is not run", "]": "a range of a matrix"}
            got = kinds.get(place[-1:], "none")
            raise VectorsError(
                f"{where}: expected a place such as vectors.ark:27, got {got}; write it with copy-vector"
            )
        match = re.fullmatch(r"(.+):(\d{1,18})", place, re.ASCII)
        name_of_file, at = (match[1], int(match[2])) if match else (place, 0)
        if name_of_file not in files:
            if len(files) >= MOST_OPEN:
                files.clear()
            found = Path(name_of_file)
            files[name_of_file] = _opened(found if found.exists() else path.parent / found)
        yield name, where, _value(files[name_of_file], at, f"{where}, {place}")[0]


def _opened(path: Path) -> Data:
    """Map a file into memory; one without bytes cannot be mapped."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text that are not empty, with their numbers."""
    try:
        text = decode_utf8(path.read_bytes())
    except NotUtf8Error as error:
        raise VectorsError(f"{path}: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.replace("\t", " ")


def _value(data: Data, at: int, where: str) -> tuple[Rows, int]:
    """Return the vector or matrix at a byte as [n, D], and the byte after it."""
    if data[at : at + 2] == _BINARY:
        return _binary(data, at + 2, where)
    return _text(data, at, where)


def _binary(data: Data, at: int, where: str) -> tuple[Rows, int]:
    """Return the value after the mark of a binary one."""
    kind = data[at : at + 3]
    if kind not in _KINDS:
        compressed = kind[:2] == b"CM"
        got = "a compressed matrix; write it with --compress=false" if compressed else f"the type {kind!r}"
        raise VectorsError(f"{where}: expected a vector or matrix of floats, got {got}")
    num_sizes, dtype = _KINDS[kind]
    start = at + 3 + 5 * num_sizes
    head = data[at + 3 : start]
    if len(head) < 5 * num_sizes:
        raise VectorsError(f"{where}: expected a whole value, got a file that ends in its size; write it again")
    sizes = [int.from_bytes(head[i + 1 : i + 5], "little", signed=True) for i in range(0, len(head), 5)]
    if any(head[i] != 4 for i in range(0, len(head), 5)) or min(sizes) < 1:
        raise VectorsError(f"{where}: expected sizes from 1, got {' x '.join(map(str, sizes))}; write the file again")
    num = math.prod(sizes)
    end = start + num * np.dtype(dtype).itemsize
    if end > len(data):
        raise VectorsError(
            f"{where}: expected {num:,} numbers, got a file that ends {end - len(data):,} bytes before; write it again"
        )
    return np.frombuffer(data[start:end], dtype).reshape(-1, sizes[-1]), end


def _text(data: Data, at: int, where: str) -> tuple[Rows, int]:
    """Return the value that is written in text."""
    at = _after_blanks(data, at)
    end = data.find(b"]", at) if data[at : at + 1] == b"[" else -1
    if end < 0:
        raise VectorsError(
            f"{where}: expected a binary value, or numbers within [ and ], got {data[at : at + 12]!r} at byte {at:,}"
        )
    lines = [line.split() for line in data[at + 1 : end].splitlines() if line.strip()]
    lengths = sorted({len(line) for line in lines})
    if len(lengths) != 1:
        raise VectorsError(f"{where}: expected rows of one length, got {', '.join(map(str, lengths)) or 'no numbers'}")
    try:
        return np.array(lines, np.bytes_).astype(np.float64), end + 1
    except ValueError as error:
        raise VectorsError(f"{where}: expected numbers within [ and ], got something else: {error}") from error


def _after_blanks(data: Data, at: int) -> int:
    while at < len(data) and data[at : at + 1] in _BLANKS:
        at += 1
    return at
