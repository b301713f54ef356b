"""Banks of crops on disk: three formats, one protocol.

from segpaste.bank import open_bank

bank = open_bank("objects")
crop = bank[0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste.bank.building.build_bank import BuildSummary as BuildSummary
    from segpaste.bank.building.build_bank import build_bank as build_bank
    from segpaste.bank.building.dataset_bank import DatasetBank as DatasetBank
    from segpaste.bank.building.parts import Selection as Selection
    from segpaste.bank.embed.copies import copy_crops as copy_crops
    from segpaste.bank.embed.copies import embed_bank as embed_bank
    from segpaste.bank.embed.similarity import SimilarToPrototype as SimilarToPrototype
    from segpaste.bank.embed.similarity import class_prototypes as class_prototypes
    from segpaste.bank.embed.similarity import near_duplicates as near_duplicates
    from segpaste.bank.format import open_bank as open_bank
    from segpaste.bank.format.lmdb import LMDBBank as LMDBBank
    from segpaste.bank.format.lmdb import LMDBWriter as LMDBWriter
    from segpaste.bank.format.memmap import MemmapBank as MemmapBank
    from segpaste.bank.format.memmap import MemmapWriter as MemmapWriter
    from segpaste.bank.format.protocol import InstanceBank as InstanceBank
    from segpaste.bank.format.shards import WebDatasetBank as WebDatasetBank
    from segpaste.bank.format.shards import WebDatasetWriter as WebDatasetWriter
    from segpaste.bank.format.stored import StoredBank as StoredBank
    from segpaste.bank.format.writer import BankWriter as BankWriter
    from segpaste.bank.read.loader import BankDataLoader as BankDataLoader
    from segpaste.bank.read.loader import create_bank_dataloader as create_bank_dataloader
    from segpaste.bank.read.pairing import zip_loaders as zip_loaders
    from segpaste.bank.read.predicates import CropPredicate as CropPredicate
    from segpaste.bank.read.sampler import BankSampler as BankSampler
    from segpaste.bank.read.staging import stage_bank_batch as stage_bank_batch
    from segpaste.bank.schema.record import BankError as BankError
    from segpaste.bank.schema.record import Crop as Crop
    from segpaste.bank.schema.record import Layout as Layout
    from segpaste.bank.storage.block_cache import BlockCache as BlockCache
    from segpaste.bank.storage.folder import RemoteFolder as RemoteFolder
    from segpaste.datasets.contract import AnnotatedDataset as Photos  # noqa: F401

_HOMES = {
    "segpaste.bank.building.build_bank": ("BuildSummary", "build_bank"),
    "segpaste.bank.building.dataset_bank": ("DatasetBank",),
    "segpaste.bank.building.parts": ("Selection",),
    "segpaste.bank.embed.copies": ("copy_crops", "embed_bank"),
    "segpaste.bank.embed.similarity": ("SimilarToPrototype", "class_prototypes", "near_duplicates"),
    "segpaste.bank.format": ("open_bank",),
    "segpaste.bank.format.lmdb": ("LMDBBank", "LMDBWriter"),
    "segpaste.bank.format.memmap": ("MemmapBank", "MemmapWriter"),
    "segpaste.bank.format.protocol": ("InstanceBank",),
    "segpaste.bank.format.shards": ("WebDatasetBank", "WebDatasetWriter"),
    "segpaste.bank.format.stored": ("StoredBank",),
    "segpaste.bank.format.writer": ("BankWriter",),
    "segpaste.bank.read.loader": ("BankDataLoader", "create_bank_dataloader"),
    "segpaste.bank.read.pairing": ("zip_loaders",),
    "segpaste.bank.read.predicates": ("CropPredicate",),
    "segpaste.bank.read.sampler": ("BankSampler",),
    "segpaste.bank.read.staging": ("stage_bank_batch",),
    "segpaste.bank.schema.record": ("BankError", "Crop", "Layout"),
    "segpaste.bank.storage.block_cache": ("BlockCache",),
    "segpaste.bank.storage.folder": ("RemoteFolder",),
}
_MOVED = {"Photos": ("segpaste.datasets", "AnnotatedDataset")}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES, _MOVED)
