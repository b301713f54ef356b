"""`PaddedBatchedDenseSample`: fixed shapes and plain tensors, the form that compiles and lives on a device.

It is a pytree: it passes through ``torch.compile``, ``DataLoader`` workers and device transfers whole. Do not put
tagged tensors back into it inside a compiled region; `PaddedBatchedDenseSample.to_batched` wraps them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste.types import check, tagging
from segpaste.types.batched import BatchedDenseSample, largest_instances, without_orphans
from segpaste.types.fields import FIELDS, FLAGS, INSTANCE_FIELDS, SAMPLE_FIELDS, flags_of
from segpaste.types.keypoints import KeypointSchema, check_keypoints
from segpaste.types.movable import Movable, register_pytree
from segpaste.types.tensors import CameraIntrinsics, Modality
from segpaste.types.transform_calls import check_transform


@dataclass(frozen=True, slots=True, eq=False)
class PaddedBatchedDenseSample(Movable):
    """B images with K instance slots each.

    Rows whose ``instance_valid`` is False are all zero (construction does not read pixels: that of the masks is checked
    by `segpaste.invariants`). Tagged tensors are accepted and stored as plain ones. A box,
    rounded outwards to whole pixels, encloses its mask.

    Attributes:
        images: [B, C, H, W], uint8, float16, bfloat16 or float32; channels_last is kept.
        boxes: [B, K, 4], float32 xyxy, continuous pixel edges.
        labels: [B, K], int64.
        instance_valid: [B, K], bool.
        instance_ids: [B, K], int32; beside ``instance_masks``.
        instance_masks: [B, K, H, W], bool.
        semantic_maps: [B, H, W], int64, 255 is ignored.
        panoptic_maps: [B, H, W], int64, instance ids, 0 for stuff.
        depth: [B, 1, H, W], float32.
        depth_valid: [B, 1, H, W], bool.
        normals: [B, 3, H, W], float32, right-down-forward; zero where invalid.
        keypoints: [B, K, P, 3], float32 (x, y, v), as in `DenseSample`.
        crowd_mask: [B, 1, H, W], bool, True in regions whose objects are not told apart.
        padding_mask: [B, 1, H, W], bool, True is padding: to the right of the picture and below it.
        camera_intrinsics: [B, 4], float32 (fx, fy, cx, cy) in pixels: finite, focal lengths > 0.
        sample_seeds: [B], int64, one seed per image; None lets the augmentation draw them.
        sample_keys: [B, 5], int64, the numbers that name each image in its run (`segpaste.seeding.SampleKey`), each the
            64 bits of a uint64; for replay records, nothing is drawn from them.
        metric_depth: depth is in metres.
        keypoint_schema: what the keypoints are called; beside ``keypoints``.

    Raises:
        TypeError, ValueError: at construction outside of tracing, naming the field, what was expected, what came.
    """

    images: Tensor
    boxes: Tensor
    labels: Tensor
    instance_valid: Tensor
    instance_ids: Tensor | None = None
    instance_masks: Tensor | None = None
    semantic_maps: Tensor | None = None
    panoptic_maps: Tensor | None = None
    depth: Tensor | None = None
    depth_valid: Tensor | None = None
    normals: Tensor | None = None
    keypoints: Tensor | None = None
    crowd_mask: Tensor | None = None
    padding_mask: Tensor | None = None
    camera_intrinsics: Tensor | None = None
    sample_seeds: Tensor | None = None
    sample_keys: Tensor | None = None
    metric_depth: bool = False
    keypoint_schema: KeypointSchema | None = None

    def __post_init__(self) -> None:
        if torch.compiler.is_compiling():
            return
        check.check_class("PaddedBatchedDenseSample.metric_depth", self.metric_depth, bool)
        values = {f.name: getattr(self, f.batched_name) for f in FIELDS}
        check.check_presence("PaddedBatchedDenseSample", FIELDS, values)
        sizes: dict[str, int] = {}
        for field in FIELDS:
            if (value := values[field.name]) is None:
                continue
            label = f"PaddedBatchedDenseSample.{field.batched_name}"
            if isinstance(value, tv_tensors.TVTensor):
                if isinstance(value, tv_tensors.BoundingBoxes):
                    check.check_boxes(label, value, (self.images.shape[-2], self.images.shape[-1]))
                value = value.as_subclass(Tensor)
                object.__setattr__(self, field.batched_name, value)
            check.check_tensor(label, value, field.padded_shape, field.batched_dtypes, sizes)
            if value.device != self.images.device:
                raise ValueError(f"{label}: expected device {self.images.device}, the images', got {value.device}")
        check.check_boxes("PaddedBatchedDenseSample.boxes", self.boxes, self.canvas_size)
        if self.instance_ids is not None:
            check.check_padded_ids("PaddedBatchedDenseSample.instance_ids", self.instance_ids, self.instance_valid)
        if self.panoptic_maps is not None:
            check.check_panoptic_map("PaddedBatchedDenseSample.panoptic_maps", self.panoptic_maps)
        self._check_invalid_rows()
        if self.camera_intrinsics is not None:
            check.check_cameras("PaddedBatchedDenseSample.camera_intrinsics", self.camera_intrinsics)
        check_keypoints("PaddedBatchedDenseSample", self.keypoints, self.keypoint_schema)
        check.check_metric("PaddedBatchedDenseSample", self.metric_depth, self.depth, self.camera_intrinsics)

    def _check_invalid_rows(self) -> None:
        if self.images.device.type != "cpu":
            return
        for field in INSTANCE_FIELDS:
            value: Tensor | None = getattr(self, field.batched_name)
            if value is None or field.resample is not None:
                continue
            if bool((value[~self.instance_valid] != 0).any()):
                raise ValueError(
                    f"PaddedBatchedDenseSample.{field.batched_name}: expected zeros in rows whose instance_valid is "
                    "False, got other values; zero them"
                )

    @property
    def batch_size(self) -> int:
        """B."""
        return self.images.shape[0]

    @property
    def max_instances(self) -> int:
        """K."""
        return self.labels.shape[1]

    @property
    def canvas_size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.images.shape[-2], self.images.shape[-1]

    @property
    def device(self) -> torch.device:
        """Where the batch is."""
        return self.images.device

    @property
    def modalities(self) -> frozenset[Modality]:
        """The modalities that the batch carries."""
        return frozenset(f.modality for f in FIELDS if f.modality and getattr(self, f.batched_name) is not None)

    def clone(self) -> PaddedBatchedDenseSample:
        """Every tensor copied, memory formats kept."""
        return self.map_tensors(Tensor.clone)

    def to_batched(self) -> BatchedDenseSample:
        """Drop empty slots and wrap the tensors in their classes; the inverse of `BatchedDenseSample.to_padded`."""
        values = flags_of(self)
        for field in SAMPLE_FIELDS:
            value: Tensor | None = getattr(self, field.batched_name)
            if value is None:
                continue
            if field.layout == "dense":
                values[field.batched_name] = field.tag(value) if field.tag else value
            elif field.layout == "image":
                values[field.batched_name] = [CameraIntrinsics.from_tensor(row) for row in value]
            else:
                rows = [row[valid] for row, valid in zip(value, self.instance_valid, strict=True)]
                values[field.batched_name] = [self._tagged(field.tag, row) for row in rows]
        return BatchedDenseSample(**values)

    def derived(self, **changes: Any) -> PaddedBatchedDenseSample:
        """This batch with other values for some fields, computed from a valid batch and so not validated again."""
        if torch.compiler.is_compiling():
            return replace(self, **changes)
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return self._unchecked({**values, **changes})

    def _children(self, transform: v2.Transform | None) -> dict[str, Any]:
        if transform is None:
            return Movable._children(self, None)
        check_transform(transform, "PaddedBatchedDenseSample", batched=True)
        values = {f.batched_name: getattr(self, f.batched_name) for f in FIELDS}
        return tagging.tagged(values, self.canvas_size, self.keypoint_schema)

    @classmethod
    def _of_children(cls, values: Mapping[str, Any], by_transform: bool) -> PaddedBatchedDenseSample:
        if not by_transform:
            return cls._unchecked(values)
        present = {name: value for name, value in values.items() if value is not None and name not in FLAGS}
        moved = tagging.untagged("PaddedBatchedDenseSample", tagging.at_top_left(present))
        check.check_boxes("PaddedBatchedDenseSample.boxes", moved["boxes"], moved["boxes"].canvas_size)
        valid, boxes = moved["instance_valid"], moved["boxes"].as_subclass(Tensor)
        moved["boxes"] = boxes.view(*valid.shape, 4).masked_fill(~valid[..., None], 0)  # a flip moves zeros
        return cls(**moved, **{name: values[name] for name in FLAGS})

    def _tagged(self, tag: type[Any] | None, row: Tensor) -> Tensor:
        if tag is None:
            return row
        if tag is tv_tensors.BoundingBoxes:
            boxes: Tensor = tv_tensors.BoundingBoxes(row, format="XYXY", canvas_size=self.canvas_size)
            return boxes
        tagged: Tensor = tag(row)
        return tagged


register_pytree(PaddedBatchedDenseSample)


def pad_batch(
    batch: BatchedDenseSample,
    max_instances: int,
    overflow: Literal["raise", "largest"],
    sample_seeds: Tensor | None,
    sample_keys: Tensor | None,
) -> PaddedBatchedDenseSample:
    """The function behind `BatchedDenseSample.to_padded`, which documents it."""
    check.check_count("to_padded: max_instances", max_instances)
    if overflow not in ("raise", "largest"):
        raise ValueError(f"to_padded: expected overflow='raise' or 'largest', got {overflow!r}")
    if batch.padding_mask is not None:
        check.check_padding("to_padded: padding_mask", batch.padding_mask.as_subclass(Tensor))
    device = batch.images.device
    kept = [_kept(batch, b, max_instances, overflow) for b in range(batch.batch_size)]
    values = {**flags_of(batch), "sample_seeds": sample_seeds, "sample_keys": sample_keys}
    sizes = {"H": batch.canvas_size[0], "W": batch.canvas_size[1]}
    if batch.keypoint_schema is not None:
        sizes["P"] = batch.keypoint_schema.num_points
    for field in SAMPLE_FIELDS:
        column = getattr(batch, field.batched_name)
        if column is None:
            continue
        if field.layout == "dense":
            values[field.batched_name] = column
        elif field.layout == "image":
            rows = [c.to_tensor() for c in column]
            values[field.batched_name] = (torch.stack(rows) if rows else torch.zeros(0, 4)).to(device)
        else:
            tail = [sizes[s] if isinstance(s, str) else s for s in field.shape[1:]]
            padded = torch.zeros(len(column), max_instances, *tail, dtype=field.dtypes[0], device=device)
            for b, row in enumerate(column):
                padded[b, : len(kept[b])] = row.as_subclass(Tensor)[kept[b]]
            values[field.batched_name] = padded
    num = torch.tensor([len(k) for k in kept], dtype=torch.int64, device=device)
    values["instance_valid"] = torch.arange(max_instances, device=device) < num[:, None]
    _clear_orphans(values, [b for b in range(batch.batch_size) if len(kept[b]) < len(batch.labels[b])])
    return PaddedBatchedDenseSample(**values)


def _kept(batch: BatchedDenseSample, b: int, max_instances: int, overflow: str) -> Tensor:
    """Indices of the instances of image ``b`` that get a slot."""
    count = len(batch.labels[b])
    if count <= max_instances:
        return torch.arange(count, device=batch.images.device)
    if overflow == "raise":
        raise ValueError(
            f"to_padded: sample {b} has {count} instances, max_instances is {max_instances}; "
            "raise max_instances, or pass overflow='largest' to keep the largest"
        )
    masks = None if batch.instance_masks is None else batch.instance_masks[b]
    return largest_instances(batch.boxes[b], masks, max_instances)


def _clear_orphans(values: dict[str, Any], rows: list[int]) -> None:
    """Where a panoptic batch lost instances, clear their pixels, in copies of the maps."""
    if not rows or any(values.get(name) is None for name in ("panoptic_maps", "semantic_maps", "instance_ids")):
        return
    panoptic, semantic = (values[name].as_subclass(Tensor).clone() for name in ("panoptic_maps", "semantic_maps"))
    for b in rows:
        panoptic[b], semantic[b] = without_orphans(panoptic[b], semantic[b], values["instance_ids"][b])
    values["panoptic_maps"], values["semantic_maps"] = panoptic, semantic
