"""Crops on disk: three formats, one protocol.

from segpaste.bank import open_bank

bank = open_bank("objects")
crop = bank[0]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from segpaste.bank.block_cache import BlockCache
from segpaste.bank.build import BuildSummary, build_bank
from segpaste.bank.data_files import read_meta
from segpaste.bank.embed import copy_crops, embed_bank
from segpaste.bank.lmdb import LMDBBank, LMDBWriter
from segpaste.bank.loader import BankDataLoader, create_bank_dataloader
from segpaste.bank.memmap import MemmapBank, MemmapWriter
from segpaste.bank.pairing import with_bank
from segpaste.bank.parts import Photos, Selection
from segpaste.bank.predicates import CropPredicate
from segpaste.bank.protocol import InstanceBank
from segpaste.bank.record import BankError, Crop, Layout
from segpaste.bank.remote import RemoteFolder, folder_at
from segpaste.bank.sampler import BankSampler
from segpaste.bank.shards import WebDatasetBank, WebDatasetWriter
from segpaste.bank.similarity import SimilarToPrototype, class_prototypes, near_duplicates
from segpaste.bank.staging import stage_bank_batch
from segpaste.bank.stored import StoredBank
from segpaste.bank.writer import BankWriter

__all__ = [
    "BankDataLoader",
    "BankError",
    "BankSampler",
    "BankWriter",
    "BlockCache",
    "BuildSummary",
    "Crop",
    "CropPredicate",
    "InstanceBank",
    "LMDBBank",
    "LMDBWriter",
    "Layout",
    "MemmapBank",
    "MemmapWriter",
    "Photos",
    "RemoteFolder",
    "Selection",
    "SimilarToPrototype",
    "StoredBank",
    "WebDatasetBank",
    "WebDatasetWriter",
    "build_bank",
    "class_prototypes",
    "copy_crops",
    "create_bank_dataloader",
    "embed_bank",
    "near_duplicates",
    "open_bank",
    "stage_bank_batch",
    "with_bank",
]

_FORMATS: dict[str, type[StoredBank]] = {bank.format: bank for bank in (MemmapBank, LMDBBank, WebDatasetBank)}


def open_bank(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> StoredBank:
    """Open a bank of whatever format.

    Args:
        path: of its folder, or its URL, such as ``s3://bucket/objects``; there it must be shards.
        storage_options: of fsspec's file system, where the path is a URL, see `RemoteFolder`.

    Raises:
        BankError: there is none, or it is broken.
    """
    folder = folder_at(path, storage_options)
    return _FORMATS[read_meta(folder).format](folder)
