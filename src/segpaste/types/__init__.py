"""Containers of samples and batches, their field table, and their support for torchvision's transforms."""

from segpaste.types import collation as _register_collation  # noqa: F401
from segpaste.types import transforms_v2 as _register_transforms_v2  # noqa: F401
from segpaste.types.batches import BatchedDenseSample, PaddedBatchedDenseSample
from segpaste.types.dense import DenseSample
from segpaste.types.fields import FIELDS, Field
from segpaste.types.instances import keep_largest, select_instances
from segpaste.types.keypoints import KeypointSchema
from segpaste.types.movable import Movable
from segpaste.types.staged import StagedCrops
from segpaste.types.tensors import (
    IGNORE_INDEX,
    CameraIntrinsics,
    CrowdMask,
    InstanceMask,
    Modality,
    PaddingMask,
    PanopticMap,
    PanopticSchema,
    SemanticMap,
    tight_boxes,
)

__all__ = [
    "FIELDS",
    "IGNORE_INDEX",
    "BatchedDenseSample",
    "CameraIntrinsics",
    "CrowdMask",
    "DenseSample",
    "Field",
    "InstanceMask",
    "KeypointSchema",
    "Modality",
    "Movable",
    "PaddedBatchedDenseSample",
    "PaddingMask",
    "PanopticMap",
    "PanopticSchema",
    "SemanticMap",
    "StagedCrops",
    "keep_largest",
    "select_instances",
    "tight_boxes",
]
