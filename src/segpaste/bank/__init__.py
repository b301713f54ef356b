"""Crops on disk: three formats, one protocol.

from segpaste.bank import open_bank

bank = open_bank("objects")
crop = bank[0]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from segpaste.bank.build.build_bank import BuildSummary, build_bank
from segpaste.bank.build.parts import Photos, Selection
from segpaste.bank.embed.copies import copy_crops, embed_bank
from segpaste.bank.embed.similarity import SimilarToPrototype, class_prototypes, near_duplicates
from segpaste.bank.format import BANKS
from segpaste.bank.format.data_files import read_meta
from segpaste.bank.format.lmdb import LMDBBank, LMDBWriter
from segpaste.bank.format.memmap import MemmapBank, MemmapWriter
from segpaste.bank.format.protocol import InstanceBank
from segpaste.bank.format.shards import WebDatasetBank, WebDatasetWriter
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.format.writer import BankWriter
from segpaste.bank.read.loader import BankDataLoader, create_bank_dataloader
from segpaste.bank.read.pairing import zip_loaders
from segpaste.bank.read.predicates import CropPredicate
from segpaste.bank.read.sampler import BankSampler
from segpaste.bank.read.staging import stage_bank_batch
from segpaste.bank.schema.record import BankError, Crop, Layout
from segpaste.bank.storage.block_cache import BlockCache
from segpaste.bank.storage.folder import RemoteFolder, folder_at

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
    "zip_loaders",
]


def open_bank(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> StoredBank:
    """Open a bank of whatever format.

    Args:
        path: of its folder, or its URL, such as ``s3://bucket/objects``; there it must be shards.
        storage_options: of fsspec's file system, where the path is a URL, see `RemoteFolder`.

    Raises:
        BankError: there is none, or it is broken.
    """
    folder = folder_at(path, storage_options)
    return BANKS[read_meta(folder).format](folder)
