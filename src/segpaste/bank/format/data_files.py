"""Check of the data files of a bank against ``meta.json``, when the bank is opened and when it is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from segpaste.bank.schema.blocks import DIGEST_CHARS, NUM_BLOCKS, block_digest, block_spans
from segpaste.bank.schema.meta import META, BankMeta, parse_meta
from segpaste.bank.schema.record import BankError
from segpaste.bank.storage.files import Reader, Request
from segpaste.bank.storage.folder import Folder, RemoteFolder

_BLOCKS_AT_OPENING = 256
"""Number of blocks that opening reads, of all files of a bank together."""
_REMOTE_BLOCKS = 2
"""Blocks of each object that are compared when a bank is opened at a URL; few, because each costs a download."""


class DataFiles:
    """Data files of one bank: the files in its folder, and the entries of its meta that they must match."""

    def __init__(self, folder: Folder, meta: BankMeta) -> None:
        self.folder = folder
        self.meta = meta
        self.where, self.version = folder.where, meta.sha256
        self._meta_seen: tuple[int, ...] = ()

    def check(self, needed: Mapping[str, tuple[int, int]]) -> None:
        """Compare names, sizes and, on a disk, some blocks of all files; ``needed`` as in `StoredBank._files_needed`.

        Raises:
            BankError: a file is missing or does not match.
        """
        self._check_entries(needed)
        for name in self.meta.files:
            self._check_size(name)
        if not isinstance(self.folder, RemoteFolder):
            num = max(1, _BLOCKS_AT_OPENING // max(len(self.meta.files), 1))
            for name in self.meta.files:
                self._check_blocks({name: self.folder.open(name, self.version)}, num)

    def open(self, names: Sequence[str]) -> dict[str, Reader]:
        """Open files for reading, and check that they are those of this bank.

        Raises:
            BankError: the bank was replaced, or a file is gone, has another length or other bytes.
        """
        readers: dict[str, Reader] = {name: self.folder.open(name, self.version) for name in names}
        if isinstance(self.folder, RemoteFolder):  # each of its fetches notices a replaced object
            self._check_blocks(readers, _REMOTE_BLOCKS)
        else:
            self._check_replaced()
            for name in names:
                self._check_size(name)
            self._check_blocks(readers, NUM_BLOCKS)
        return readers

    def verify(self) -> None:
        """Compare the digests of all files; see `StoredBank.verify`."""
        for name, entry in self.meta.files.items():
            if (digest := self.folder.digest(name)) != entry.sha256:
                raise BankError(
                    f"{self.where}/{name}: expected SHA-256 {entry.sha256}, got {digest}; the file was changed, "
                    "copy or build the bank again"
                )

    def _check_entries(self, needed: Mapping[str, tuple[int, int]]) -> None:
        """Check that the files in the meta are those of the format, with sizes that fit the number of crops."""
        files = self.meta.files
        if files.keys() != needed.keys():
            raise BankError(
                f"{self.where}/{META}: expected size and digest of {', '.join(needed):.200}, got those of "
                f"{', '.join(files) or 'no file':.200}; build the bank again"
            )
        for name, (least, most) in needed.items():
            if not least <= (size := files[name].size) <= most:
                limit = f"{least}" if least == most else f"at least {least}" if size < least else f"at most {most}"
                raise BankError(
                    f"{self.where}/{META}: expected {limit} bytes of {name} for {self.meta.num_crops} crops, got "
                    f"{size}; build the bank again"
                )

    def _check_size(self, name: str) -> None:
        expected, size = self.meta.files[name].size, self.folder.size(name)
        if size != expected:
            came = "no such file" if size is None else f"{size}"
            raise BankError(f"{self.where}/{name}: expected {expected} bytes, got {came}; copy or build the bank again")

    def _check_replaced(self) -> None:
        """Check that the bank was not replaced since it was opened; an unchanged ``meta.json`` is not read again."""
        seen: tuple[int, ...] = ()
        with suppress(OSError):
            stat = os.stat(os.path.join(self.where, META))
            seen = stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
        if seen and seen == self._meta_seen:
            return
        if read_meta(self.folder).sha256 != self.version:
            raise BankError(
                f"{self.where}: expected the bank of version {self.version:.12}, which was opened, got another one; "
                "open it again"
            )
        self._meta_seen = seen

    def _check_blocks(self, readers: Mapping[str, Reader], num: int) -> None:
        """Compare at most ``num`` blocks of each file; a bank that was built without block digests has none."""
        expected: list[tuple[str, int, str, bytearray]] = []
        for name in readers:
            entry = self.meta.files[name]
            spans = block_spans(entry.size) if entry.blocks else []
            for i in np.unique(np.linspace(0, len(spans) - 1, min(num, len(spans))).astype(int)).tolist():
                digest = (entry.blocks or "")[i * DIGEST_CHARS : (i + 1) * DIGEST_CHARS]
                expected.append((name, spans[i][0], digest, bytearray(spans[i][1])))
        requests = [Request(readers[name], [memoryview(data)], start) for name, start, _, data in expected]
        self.folder.read_many(requests)
        for name, start, digest, data in expected:
            if block_digest(data) != digest:
                raise BankError(
                    f"{self.where}/{name}: expected the bytes that {META} says, got others at {start}; the file was "
                    "changed, or belongs to another bank; copy or build the bank again"
                )


class Readers:
    """Open files of one bank in one process; each is opened at its first read, and a limited number stays open."""

    most = 256
    """Maximum number of open files; a process may have 1024 by default."""

    def __init__(self, files: DataFiles) -> None:
        self._files = files
        self._open: dict[str, Reader] = {}

    def of(self, names: Iterable[str]) -> Mapping[str, Reader]:
        """Return readers of at least these files.

        Files that another thread still uses stay open until it drops them.

        Raises:
            BankError: see `DataFiles.open`.
        """
        opened, wanted = self._open, set(names)
        if missing := sorted(wanted - opened.keys()):
            if len(opened) + len(missing) > self.most:
                opened = {name: reader for name, reader in opened.items() if name in wanted}
            opened = self._open = {**opened, **self._files.open(missing)}
        return opened


def read_meta(folder: Folder) -> BankMeta:
    """Return the meta of the bank in a folder.

    Raises:
        BankError: there is no bank, or it is broken.
    """
    try:
        text = folder.read_bytes(META)
    except FileNotFoundError:
        raise BankError(
            f"{folder.where}: expected a bank, a folder with {META}, found none; check the path, or run an "
            "interrupted build again"
        ) from None
    return parse_meta(text, f"{folder.where}/{META}")
