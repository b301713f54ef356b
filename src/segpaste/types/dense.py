"""`DenseSample`: one image and everything known about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import register_pytree_node
from torchvision import tv_tensors

from segpaste.types import check, sampling
from segpaste.types.boxes import tight_boxes
from segpaste.types.fields import SAMPLE_FIELDS
from segpaste.types.tensors import (
    CameraIntrinsics,
    DepthMap,
    DepthValidMask,
    InstanceMask,
    IntrinsicsTensor,
    Modality,
    MovingBoxes,
    NormalMap,
    PaddingMask,
    PanopticMap,
    SemanticMap,
)


@dataclass(frozen=True, slots=True, eq=False)
class DenseSample:
    """One image with its labels, for any subset of the modalities.

    Attributes:
        image: [C, H, W], uint8 or float32.
        boxes: [N, 4], float32 xyxy, continuous pixel edges: a mask over columns 3..5 has x1 = 3, x2 = 6.
            A box, rounded outwards to whole pixels, encloses its mask.
        labels: [N], int64.
        instance_ids: [N], int32, unique in the sample, > 0; beside ``instance_masks``.
        instance_masks: [N, H, W], bool.
        semantic_map: [H, W], int64, 255 is ignored.
        panoptic_map: [H, W], int64, the instance id of the pixel, 0 for stuff; beside ``semantic_map``.
        depth: [1, H, W], float32, metres if ``metric_depth``; beside ``depth_valid``.
        depth_valid: [1, H, W], bool.
        normals: [3, H, W], float32, unit vectors in the camera frame right-down-forward; zero where invalid.
        padding_mask: [1, H, W], bool, True where a pixel is padding.
        camera_intrinsics: pixels; required for metric depth.
        metric_depth: depth is in metres.

    Raises:
        TypeError, ValueError: at construction, naming the field, what was expected and what came.
    """

    image: tv_tensors.Image
    boxes: tv_tensors.BoundingBoxes
    labels: Tensor
    instance_ids: Tensor | None = None
    instance_masks: InstanceMask | None = None
    semantic_map: SemanticMap | None = None
    panoptic_map: PanopticMap | None = None
    depth: Tensor | None = None
    depth_valid: Tensor | None = None
    normals: Tensor | None = None
    padding_mask: PaddingMask | None = None
    camera_intrinsics: CameraIntrinsics | None = None
    metric_depth: bool = False

    def __post_init__(self) -> None:
        if torch.compiler.is_compiling():
            return
        values = {f.name: getattr(self, f.name) for f in SAMPLE_FIELDS}
        check.check_presence("DenseSample", SAMPLE_FIELDS, values)
        sizes: dict[str, int] = {}
        for field in SAMPLE_FIELDS:
            value = values[field.name]
            if value is None or field.layout == "image":
                continue
            label = f"DenseSample.{field.name}"
            check.check_tensor(label, value, field.shape, field.dtypes, sizes)
            if field.tag is not None and not isinstance(value, field.tag):
                raise TypeError(
                    f"{label}: expected {field.tag.__name__}, got {type(value).__name__}; wrap it in that class"
                )
        if self.camera_intrinsics is not None and not isinstance(self.camera_intrinsics, CameraIntrinsics):
            raise TypeError(
                "DenseSample.camera_intrinsics: expected CameraIntrinsics, got "
                f"{type(self.camera_intrinsics).__name__}; use CameraIntrinsics(fx, fy, cx, cy)"
            )
        check.check_boxes("DenseSample.boxes", self.boxes, self.canvas_size)
        if self.instance_ids is not None:
            check.check_instance_ids("DenseSample.instance_ids", self.instance_ids)
        check.check_metric("DenseSample", self.metric_depth, self.depth, self.camera_intrinsics)

    @classmethod
    def from_masks(cls, image: Tensor, masks: Tensor, labels: Tensor, **fields: Any) -> DenseSample:
        """A sample of plain tensors, with boxes that fit the masks and, if none are given, instance ids 1..N.

        Args:
            image: [C, H, W], uint8 or float32.
            masks: [N, H, W] bool.
            labels: [N] int64, classes from 0 without gaps, not category ids.
            fields: the others, such as semantic_map, by name; maps may be plain tensors.

        Raises:
            TypeError, ValueError: as the class does.
        """
        check.check_tensor("DenseSample.from_masks: masks", masks, ("N", "H", "W"), (torch.bool,), {})
        for field in SAMPLE_FIELDS:
            if field.tag is not None and isinstance(fields.get(field.name), Tensor):
                fields[field.name] = field.tag(fields[field.name])
        return cls(
            image=tv_tensors.Image(image),
            boxes=tv_tensors.BoundingBoxes(tight_boxes(masks), format="XYXY", canvas_size=tuple(masks.shape[1:])),
            labels=labels,
            instance_masks=InstanceMask(masks),
            **{"instance_ids": torch.arange(1, len(masks) + 1, dtype=torch.int32, device=masks.device), **fields},
        )

    @property
    def canvas_size(self) -> tuple[int, int]:
        """(H, W) of the image."""
        return self.image.shape[-2], self.image.shape[-1]

    @property
    def num_instances(self) -> int:
        """N."""
        return self.labels.shape[0]

    @property
    def modalities(self) -> frozenset[Modality]:
        """The modalities that this sample carries."""
        return frozenset(f.modality for f in SAMPLE_FIELDS if f.modality and getattr(self, f.name) is not None)

    def to_dict(self) -> dict[str, Any]:
        """The present fields, tagged so that torchvision.transforms.v2 moves every one of them.

        A transform that is called with the sample itself does the same. Resize, crop, pad and flip keep all fields
        aligned; depth travels as NaN where invalid. Other geometry raises for the fields that it cannot move truly. The
        inverse is `from_dict`.
        """
        out: dict[str, Any] = {f.name: v for f in SAMPLE_FIELDS if (v := getattr(self, f.name)) is not None}
        out["boxes"] = MovingBoxes(self.boxes.as_subclass(torch.Tensor), format="XYXY", canvas_size=self.canvas_size)
        if self.depth is not None and self.depth_valid is not None:
            valid = sampling.usable_depth(self.depth, self.depth_valid.as_subclass(torch.Tensor))
            out["depth"] = DepthMap(torch.where(valid, self.depth, torch.nan))
            out["depth_valid"] = DepthValidMask(self.depth_valid)
        if self.normals is not None:
            out["normals"] = NormalMap(self.normals)
        if self.camera_intrinsics is not None:
            out["camera_intrinsics"] = IntrinsicsTensor.tag(self.camera_intrinsics, self.canvas_size)
        out["metric_depth"] = self.metric_depth
        return out

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> DenseSample:
        """The inverse of `to_dict`, before or after transforms. Depth is 0 wherever it is invalid.

        Raises:
            TypeError: an unknown key.
        """
        values = dict(fields)
        unknown = set(values) - {f.name for f in SAMPLE_FIELDS} - {"metric_depth"}
        if unknown:
            raise TypeError(f"DenseSample.from_dict: expected field names, got {sorted(unknown)}")
        if isinstance(boxes := values.get("boxes"), MovingBoxes):
            plain = boxes.as_subclass(torch.Tensor)
            values["boxes"] = tv_tensors.BoundingBoxes(plain, format=boxes.format, canvas_size=boxes.canvas_size)
        if values.get("depth") is not None and values.get("depth_valid") is not None:
            depth = cast(Tensor, values["depth"]).as_subclass(torch.Tensor)
            valid = cast(Tensor, values["depth_valid"]).as_subclass(torch.Tensor) & depth.isfinite()
            values["depth"], values["depth_valid"] = torch.where(valid, depth, 0.0), valid
        if values.get("normals") is not None:
            values["normals"] = cast(Tensor, values["normals"]).as_subclass(torch.Tensor)
        if isinstance(values.get("camera_intrinsics"), Tensor):
            values["camera_intrinsics"] = CameraIntrinsics.from_tensor(values["camera_intrinsics"])
        return cls(**values)


def _flatten(sample: DenseSample) -> tuple[list[Any], tuple[tuple[str, ...], bool]]:
    values = sample.to_dict()
    metric_depth = values.pop("metric_depth")
    return list(values.values()), (tuple(values), metric_depth)


def _unflatten(values: Iterable[Any], context: tuple[tuple[str, ...], bool]) -> DenseSample:
    names, metric_depth = context
    moved = dict(zip(names, values, strict=True))
    if all(isinstance(value, Tensor) for value in moved.values()):
        return DenseSample.from_dict({**moved, "metric_depth": metric_depth})
    sample = object.__new__(DenseSample)  # pytree functions rebuild containers around placeholders
    for item in dataclasses.fields(DenseSample):
        object.__setattr__(sample, item.name, moved.get(item.name))
    return sample


# Its leaves are those of to_dict, so that a transform of torchvision moves every field of a sample that it is given.
register_pytree_node(DenseSample, _flatten, _unflatten, serialized_type_name="segpaste.DenseSample")
