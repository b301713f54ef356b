"""Field table: all facts about the fields of a sample, one row per field.

Validation, stacking, padding, moving, resampling and compositing loop over these rows. A new modality needs one row
here, one declaration per container and one invariant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types.keypoints import MovingKeypoints
from segpaste.types.tensors import (
    IGNORE_INDEX,
    CrowdMask,
    DepthMap,
    DepthValidMask,
    InstanceMask,
    Modality,
    NormalMap,
    PaddingMask,
    PanopticMap,
    SemanticMap,
)

FieldLayout = Literal["dense", "instance", "image", "batch_only"]
Resample = Literal["filter", "linear", "nearest"]
Paste = Literal["painted", "listed", "derived"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a sample.

    Attributes:
        name: name in `DenseSample`.
        shape: shape in one sample; the symbols N (instances), C, H, W agree across all fields.
        dtypes: dtypes that a `DenseSample` accepts.
        batched_name: name in the batch containers; by default the same.
        batched_dtypes: dtypes that a `PaddedBatchedDenseSample` accepts.
        layout: ``dense`` fields are stacked; ``instance`` fields have a leading N, and are lists in a ragged batch and
            K slots in a padded batch; ``image`` fields are one small row per image; ``batch_only`` fields are in
            batches only.
        modality: modality that is present if this field is present, if any.
        required: True if every sample has the field.
        needs: fields that must be present if this field is present.
        tag: class of the field in a `DenseSample`, or None for a plain tensor.
        transform_tag: class of the field in transforms v2, or None if no transform moves it.
        resample: interpolation between pixel centres, or None if the field has no pixels.
        pad_value: value outside the image.
        paste: how a paste writes the field. An engine writes ``painted`` fields pixel by pixel and ``listed`` fields
            slot by slot; ``derived`` fields are computed from its results, see `segpaste.engine.derived`. None if a
            paste does not change the field.
    """

    name: str
    shape: tuple[str | int, ...]
    dtypes: tuple[torch.dtype, ...]
    layout: FieldLayout
    modality: Modality | None = None
    required: bool = False
    needs: tuple[str, ...] = ()
    tag: type[Any] | None = None
    transform_tag: type[Any] | None = None
    resample: Resample | None = None
    pad_value: float | int | bool = 0
    paste: Paste | None = None
    batched_name: str = ""
    batched_dtypes: tuple[torch.dtype, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "batched_name", self.batched_name or self.name)
        object.__setattr__(self, "batched_dtypes", self.batched_dtypes or self.dtypes)
        object.__setattr__(self, "transform_tag", self.transform_tag or self.tag)

    @property
    def padded_shape(self) -> tuple[str | int, ...]:
        """Shape in a `PaddedBatchedDenseSample`."""
        return ("B", "K", *self.shape[1:]) if self.layout == "instance" else ("B", *self.shape)

    def wrapped(self, value: Tensor, canvas_size: tuple[int, int]) -> Tensor:
        """Return a plain tensor, of images of size (H, W), as the class that it has in a `DenseSample`."""
        if self.tag is None:
            return value
        is_boxes = self.tag is tv_tensors.BoundingBoxes
        options: dict[str, Any] = {"format": "XYXY", "canvas_size": canvas_size} if is_boxes else {}
        wrapped: Tensor = self.tag(value, device=value.device, **options)
        return wrapped


_IMAGE_DTYPES = (torch.uint8, torch.float32)
_BATCHED_IMAGE_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)

FIELDS: tuple[Field, ...] = (
    Field(
        "image",
        ("C", "H", "W"),
        _IMAGE_DTYPES,
        "dense",
        Modality.IMAGE,
        required=True,
        tag=tv_tensors.Image,
        resample="filter",
        paste="painted",
        batched_dtypes=_BATCHED_IMAGE_DTYPES,
        batched_name="images",
    ),
    Field("boxes", ("N", 4), (torch.float32,), "instance", required=True, tag=tv_tensors.BoundingBoxes, paste="listed"),
    Field("labels", ("N",), (torch.int64,), "instance", required=True, paste="listed"),
    Field("instance_ids", ("N",), (torch.int32,), "instance", needs=("instance_masks",), paste="listed"),
    Field(
        "instance_masks",
        ("N", "H", "W"),
        (torch.bool,),
        "instance",
        Modality.INSTANCE,
        needs=("instance_ids",),
        tag=InstanceMask,
        resample="nearest",
        paste="painted",
    ),
    Field(
        "semantic_map",
        ("H", "W"),
        (torch.int64,),
        "dense",
        Modality.SEMANTIC,
        tag=SemanticMap,
        resample="nearest",
        pad_value=IGNORE_INDEX,
        paste="painted",
        batched_name="semantic_maps",
    ),
    Field(
        "panoptic_map",
        ("H", "W"),
        (torch.int64,),
        "dense",
        Modality.PANOPTIC,
        needs=("semantic_map",),
        tag=PanopticMap,
        resample="nearest",
        paste="painted",
        batched_name="panoptic_maps",
    ),
    Field(
        "depth",
        (1, "H", "W"),
        (torch.float32,),
        "dense",
        Modality.DEPTH,
        needs=("depth_valid",),
        transform_tag=DepthMap,
        resample="linear",
        pad_value=float("nan"),
        paste="painted",
    ),
    Field(
        "depth_valid",
        (1, "H", "W"),
        (torch.bool,),
        "dense",
        needs=("depth",),
        transform_tag=DepthValidMask,
        resample="nearest",
        paste="painted",
    ),
    Field(
        "normals",
        (3, "H", "W"),
        (torch.float32,),
        "dense",
        Modality.NORMALS,
        transform_tag=NormalMap,
        resample="linear",
        paste="painted",
    ),
    Field("keypoints", ("N", "P", 3), (torch.float32,), "instance", transform_tag=MovingKeypoints, paste="derived"),
    Field(
        "crowd_mask",
        (1, "H", "W"),
        (torch.bool,),
        "dense",
        tag=CrowdMask,
        resample="nearest",
        paste="derived",
    ),
    Field(
        "padding_mask",
        (1, "H", "W"),
        (torch.bool,),
        "dense",
        tag=PaddingMask,
        resample="nearest",
        pad_value=True,
    ),
    Field("camera_intrinsics", (4,), (torch.float32,), "image"),
    Field("instance_valid", ("N",), (torch.bool,), "batch_only", paste="listed"),
    Field("sample_seeds", (), (torch.int64,), "batch_only"),
    Field("sample_keys", (5,), (torch.int64,), "batch_only"),
)
"""Fields that hold tensors or cameras."""

FLAGS = ("metric_depth", "keypoint_schema")
"""Fields that describe other fields, and are the same for all samples of a batch."""

SAMPLE_FIELDS = tuple(f for f in FIELDS if f.layout != "batch_only")
DENSE_FIELDS = tuple(f for f in FIELDS if f.layout == "dense")
INSTANCE_FIELDS = tuple(f for f in FIELDS if f.layout == "instance")
BY_TRANSFORM_TAG: dict[type[Any], Field] = {
    f.transform_tag: f for f in FIELDS if f.transform_tag is not None and f.resample is not None
}


def flags_of(record: Any) -> dict[str, Any]:
    """Return the `FLAGS` of a sample or a batch, by name."""
    return {name: getattr(record, name) for name in FLAGS}
