"""Bank formats: one protocol, one writer, and a module for each format; all formats are listed here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from segpaste.bank.format.data_files import read_meta
from segpaste.bank.format.lmdb import LMDBBank, LMDBWriter
from segpaste.bank.format.memmap import MemmapBank, MemmapWriter
from segpaste.bank.format.shards import WebDatasetBank, WebDatasetWriter
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.meta import Format
from segpaste.bank.storage.folder import folder_at

BANKS: dict[Format, type[StoredBank]] = {bank.format: bank for bank in (MemmapBank, LMDBBank, WebDatasetBank)}
WRITERS: dict[Format, type[FolderWriter]] = {w.format: w for w in (MemmapWriter, LMDBWriter, WebDatasetWriter)}


def open_bank(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> StoredBank:
    """Open a bank of any format.

    Args:
        path: path of its folder, or its URL, such as ``s3://bucket/objects``; only shards can be read from a URL.
        storage_options: options of fsspec's file system for a URL, see `RemoteFolder`.

    Raises:
        BankError: there is no bank, or it is broken.
    """
    folder = folder_at(path, storage_options)
    return BANKS[read_meta(folder).format](folder)
