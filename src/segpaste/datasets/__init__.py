"""Datasets of `DenseSample`: readers, joins, format conversion, jitter, a loader, synthetic scenes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste.datasets.annotations import Annotations as Annotations
    from segpaste.datasets.checking.check import check_dataset as check_dataset
    from segpaste.datasets.checking.report import ClassHealth as ClassHealth
    from segpaste.datasets.checking.report import Finding as Finding
    from segpaste.datasets.checking.report import HealthReport as HealthReport
    from segpaste.datasets.contract import AnnotatedDataset as AnnotatedDataset
    from segpaste.datasets.contract import DatasetWrapper as DatasetWrapper
    from segpaste.datasets.contract import FederatedLabels as FederatedLabels
    from segpaste.datasets.conversion.convert import convert_dataset as convert_dataset
    from segpaste.datasets.conversion.summary import ConversionSummary as ConversionSummary
    from segpaste.datasets.errors import DatasetError as DatasetError
    from segpaste.datasets.formats.backgrounds import BackgroundImages as BackgroundImages
    from segpaste.datasets.formats.coco.dataset import CocoDetectionV2 as CocoDetectionV2
    from segpaste.datasets.formats.coco.panoptic import CocoPanoptic as CocoPanoptic
    from segpaste.datasets.formats.coco.segments import CocoPanopticSchema as CocoPanopticSchema
    from segpaste.datasets.formats.conventions import convert_depth as convert_depth
    from segpaste.datasets.formats.conventions import convert_normals as convert_normals
    from segpaste.datasets.formats.conventions import convert_semantic as convert_semantic
    from segpaste.datasets.formats.cutouts import CutOuts as CutOuts
    from segpaste.datasets.formats.maps.dataset import MapPhotos as MapPhotos
    from segpaste.datasets.formats.maps.declaration import MapDeclaration as MapDeclaration
    from segpaste.datasets.formats.maps.declaration import read_declaration as read_declaration
    from segpaste.datasets.formats.registry import FORMATS as FORMATS
    from segpaste.datasets.formats.registry import FoundDataset as FoundDataset
    from segpaste.datasets.formats.registry import find_dataset as find_dataset
    from segpaste.datasets.formats.registry import open_dataset as open_dataset
    from segpaste.datasets.formats.size_priors import learned_sizes as learned_sizes
    from segpaste.datasets.formats.size_priors import read_size_prior as read_size_prior
    from segpaste.datasets.formats.yolo.dataset import YoloDataset as YoloDataset
    from segpaste.datasets.in_memory.datumaro import from_datumaro as from_datumaro
    from segpaste.datasets.in_memory.datumaro import to_datumaro as to_datumaro
    from segpaste.datasets.in_memory.fiftyone import from_fiftyone as from_fiftyone
    from segpaste.datasets.in_memory.fiftyone import to_fiftyone as to_fiftyone
    from segpaste.datasets.in_memory.supervision import from_supervision as from_supervision
    from segpaste.datasets.in_memory.supervision import to_supervision as to_supervision
    from segpaste.datasets.jitter import FixedSizeCrop as FixedSizeCrop
    from segpaste.datasets.jitter import LargeScaleJitter as LargeScaleJitter
    from segpaste.datasets.jitter import RandomHorizontalFlip as RandomHorizontalFlip
    from segpaste.datasets.jitter import RandomResize as RandomResize
    from segpaste.datasets.jitter import SampleTransform as SampleTransform
    from segpaste.datasets.jitter import SanitizeInstances as SanitizeInstances
    from segpaste.datasets.jitter import make_large_scale_jittering as make_large_scale_jittering
    from segpaste.datasets.joined import JoinedPhotos as JoinedPhotos
    from segpaste.datasets.joined import read_class_map as read_class_map
    from segpaste.datasets.loader import EpochDataLoader as EpochDataLoader
    from segpaste.datasets.loader import LoaderStats as LoaderStats
    from segpaste.datasets.loader import create_coco_dataloader as create_coco_dataloader
    from segpaste.datasets.scenes import SceneConfig as SceneConfig
    from segpaste.datasets.scenes import SceneDataset as SceneDataset
    from segpaste.datasets.scenes import scene_batch as scene_batch
    from segpaste.datasets.splitting.split import split_dataset as split_dataset
    from segpaste.datasets.splitting.summary import ClassParts as ClassParts
    from segpaste.datasets.splitting.summary import SplitSummary as SplitSummary

_HOMES = {
    "segpaste.datasets.annotations": ("Annotations",),
    "segpaste.datasets.formats.backgrounds": ("BackgroundImages",),
    "segpaste.datasets.conversion.summary": ("ConversionSummary",),
    "segpaste.datasets.conversion.convert": ("convert_dataset",),
    "segpaste.datasets.contract": ("AnnotatedDataset", "DatasetWrapper", "FederatedLabels"),
    "segpaste.datasets.errors": ("DatasetError",),
    "segpaste.datasets.formats.coco.dataset": ("CocoDetectionV2",),
    "segpaste.datasets.formats.coco.panoptic": ("CocoPanoptic",),
    "segpaste.datasets.formats.coco.segments": ("CocoPanopticSchema",),
    "segpaste.datasets.formats.conventions": ("convert_depth", "convert_normals", "convert_semantic"),
    "segpaste.datasets.formats.cutouts": ("CutOuts",),
    "segpaste.datasets.formats.maps.dataset": ("MapPhotos",),
    "segpaste.datasets.formats.maps.declaration": ("MapDeclaration", "read_declaration"),
    "segpaste.datasets.formats.registry": ("FORMATS", "FoundDataset", "find_dataset", "open_dataset"),
    "segpaste.datasets.formats.size_priors": ("learned_sizes", "read_size_prior"),
    "segpaste.datasets.formats.yolo.dataset": ("YoloDataset",),
    "segpaste.datasets.checking.check": ("check_dataset",),
    "segpaste.datasets.in_memory.datumaro": ("from_datumaro", "to_datumaro"),
    "segpaste.datasets.in_memory.fiftyone": ("from_fiftyone", "to_fiftyone"),
    "segpaste.datasets.in_memory.supervision": ("from_supervision", "to_supervision"),
    "segpaste.datasets.checking.report": ("ClassHealth", "Finding", "HealthReport"),
    "segpaste.datasets.jitter": (
        "FixedSizeCrop",
        "LargeScaleJitter",
        "RandomHorizontalFlip",
        "RandomResize",
        "SampleTransform",
        "SanitizeInstances",
        "make_large_scale_jittering",
    ),
    "segpaste.datasets.joined": ("JoinedPhotos", "read_class_map"),
    "segpaste.datasets.loader": ("EpochDataLoader", "LoaderStats", "create_coco_dataloader"),
    "segpaste.datasets.splitting.split": ("split_dataset",),
    "segpaste.datasets.splitting.summary": ("ClassParts", "SplitSummary"),
    "segpaste.datasets.scenes": ("SceneConfig", "SceneDataset", "scene_batch"),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
