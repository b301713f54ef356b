"""Files into `DenseSample`: COCO and LVIS, other datasets' conventions, jitter, a seeded loader, synthetic scenes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segpaste.datasets.formats.coco import CocoDetectionV2
    from segpaste.datasets.formats.coco_panoptic import CocoPanoptic, CocoPanopticSchema
    from segpaste.datasets.formats.conventions import convert_depth, convert_normals, convert_semantic
    from segpaste.datasets.formats.federated import FederatedLabels
    from segpaste.datasets.formats.records import DatasetError
    from segpaste.datasets.jitter import (
        FixedSizeCrop,
        LargeScaleJitter,
        RandomHorizontalFlip,
        RandomResize,
        SampleTransform,
        SanitizeInstances,
        make_large_scale_jittering,
    )
    from segpaste.datasets.loader import EpochDataLoader, LoaderStats, create_coco_dataloader
    from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch

_HOME = {
    "CocoDetectionV2": "formats.coco",
    "CocoPanoptic": "formats.coco_panoptic",
    "CocoPanopticSchema": "formats.coco_panoptic",
    "DatasetError": "formats.records",
    "EpochDataLoader": "loader",
    "FederatedLabels": "formats.federated",
    "FixedSizeCrop": "jitter",
    "LargeScaleJitter": "jitter",
    "LoaderStats": "loader",
    "RandomHorizontalFlip": "jitter",
    "RandomResize": "jitter",
    "SampleTransform": "jitter",
    "SanitizeInstances": "jitter",
    "SceneConfig": "scenes",
    "SceneDataset": "scenes",
    "convert_depth": "formats.conventions",
    "convert_normals": "formats.conventions",
    "convert_semantic": "formats.conventions",
    "create_coco_dataloader": "loader",
    "make_large_scale_jittering": "jitter",
    "scene_batch": "scenes",
}

__all__ = [
    "CocoDetectionV2",
    "CocoPanoptic",
    "CocoPanopticSchema",
    "DatasetError",
    "EpochDataLoader",
    "FederatedLabels",
    "FixedSizeCrop",
    "LargeScaleJitter",
    "LoaderStats",
    "RandomHorizontalFlip",
    "RandomResize",
    "SampleTransform",
    "SanitizeInstances",
    "SceneConfig",
    "SceneDataset",
    "convert_depth",
    "convert_normals",
    "convert_semantic",
    "create_coco_dataloader",
    "make_large_scale_jittering",
    "scene_batch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
