"""segpaste: copy-paste augmentation on the device of the batch, with labels that match the pixels exactly.

Public names are imported on first use, so `import segpaste` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste._version import __version__ as __version__
    from segpaste.augmentation import BankSource as BankSource
    from segpaste.augmentation import BatchCopyPaste as BatchCopyPaste
    from segpaste.augmentation import BatchCopyPasteConfig as BatchCopyPasteConfig
    from segpaste.augmentation import IntraBatchSource as IntraBatchSource
    from segpaste.augmentation import SourceStrategy as SourceStrategy
    from segpaste.augmenting import augment_dataset as augment_dataset
    from segpaste.augmenting import replay_dataset as replay_dataset
    from segpaste.bank import BankSampler as BankSampler
    from segpaste.bank import InstanceBank as InstanceBank
    from segpaste.bank import LMDBBank as LMDBBank
    from segpaste.bank import MemmapBank as MemmapBank
    from segpaste.bank import WebDatasetBank as WebDatasetBank
    from segpaste.bank import create_bank_dataloader as create_bank_dataloader
    from segpaste.bank import open_bank as open_bank
    from segpaste.bank import stage_bank_batch as stage_bank_batch
    from segpaste.datasets import CocoDetectionV2 as CocoDetectionV2
    from segpaste.datasets import convert_dataset as convert_dataset
    from segpaste.datasets import create_coco_dataloader as create_coco_dataloader
    from segpaste.presets import get_preset as get_preset
    from segpaste.presets import list_presets as list_presets
    from segpaste.presets import register_preset as register_preset
    from segpaste.samplers import ExhaustiveNxMSampler as ExhaustiveNxMSampler
    from segpaste.samplers import NxMSampler as NxMSampler
    from segpaste.samplers import RandomNxMSampler as RandomNxMSampler
    from segpaste.seeding import derive_seed as derive_seed
    from segpaste.types import BatchedDenseSample as BatchedDenseSample
    from segpaste.types import CameraIntrinsics as CameraIntrinsics
    from segpaste.types import CrowdMask as CrowdMask
    from segpaste.types import DenseSample as DenseSample
    from segpaste.types import InstanceMask as InstanceMask
    from segpaste.types import KeypointSchema as KeypointSchema
    from segpaste.types import Modality as Modality
    from segpaste.types import PaddedBatchedDenseSample as PaddedBatchedDenseSample
    from segpaste.types import PaddingMask as PaddingMask
    from segpaste.types import PanopticMap as PanopticMap
    from segpaste.types import PanopticSchema as PanopticSchema
    from segpaste.types import SemanticMap as SemanticMap
    from segpaste.types import StagedCrops as StagedCrops

_HOMES = {
    "segpaste._version": ("__version__",),
    "segpaste.augmentation": (
        "BankSource",
        "BatchCopyPaste",
        "BatchCopyPasteConfig",
        "IntraBatchSource",
        "SourceStrategy",
    ),
    "segpaste.augmenting": ("augment_dataset", "replay_dataset"),
    "segpaste.bank": (
        "BankSampler",
        "InstanceBank",
        "LMDBBank",
        "MemmapBank",
        "WebDatasetBank",
        "create_bank_dataloader",
        "open_bank",
        "stage_bank_batch",
    ),
    "segpaste.datasets": ("CocoDetectionV2", "convert_dataset", "create_coco_dataloader"),
    "segpaste.presets": ("get_preset", "list_presets", "register_preset"),
    "segpaste.samplers": ("ExhaustiveNxMSampler", "NxMSampler", "RandomNxMSampler"),
    "segpaste.seeding": ("derive_seed",),
    "segpaste.types": (
        "BatchedDenseSample",
        "CameraIntrinsics",
        "CrowdMask",
        "DenseSample",
        "InstanceMask",
        "KeypointSchema",
        "Modality",
        "PaddedBatchedDenseSample",
        "PaddingMask",
        "PanopticMap",
        "PanopticSchema",
        "SemanticMap",
        "StagedCrops",
    ),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
