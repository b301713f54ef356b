"""Two forms of a batch: `BatchedDenseSample`, ragged, for losses, and `PaddedBatchedDenseSample`, for devices.

Each is converted to the other, so they share this file. The padded form holds plain tensors of fixed shapes, so it
passes through ``torch.compile``, ``DataLoader`` workers and device transfers. Do not put tagged tensors into it inside
a compiled region; `PaddedBatchedDenseSample.to_batched` restores the tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste.types import check, tagging
from segpaste.types.dense import DenseSample, check_uniform
from segpaste.types.fields import DENSE_FIELDS, FIELDS, FLAGS, INSTANCE_FIELDS, SAMPLE_FIELDS, flags_of
from segpaste.types.instances import Overflow, padded_columns
from segpaste.types.keypoints import KeypointSchema, check_keypoints
from segpaste.types.movable import Movable, register_pytree
from segpaste.types.tagging import check_transform
from segpaste.types.tensors import (
    CameraIntrinsics,
    CrowdMask,
    InstanceMask,
    Modality,
    PaddingMask,
    PanopticMap,
    SemanticMap,
    stacked,
)
from segpaste.types.tracing import is_traced


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchedDenseSample(Movable):
    """Batch of B samples of one canvas size and the same modalities; B may be 0.

    Dense fields are stacked to [B, ...]. Instance fields and intrinsics are lists of B entries, each as in
    `DenseSample`.
    """

    images: tv_tensors.Image
    boxes: list[tv_tensors.BoundingBoxes]
    labels: list[Tensor]
    instance_ids: list[Tensor] | None = None
    instance_masks: list[InstanceMask] | None = None
    semantic_maps: SemanticMap | None = None
    panoptic_maps: PanopticMap | None = None
    depth: Tensor | None = None
    depth_valid: Tensor | None = None
    normals: Tensor | None = None
    keypoints: list[Tensor] | None = None
    crowd_mask: CrowdMask | None = None
    padding_mask: PaddingMask | None = None
    camera_intrinsics: list[CameraIntrinsics] | None = None
    metric_depth: bool = False
    keypoint_schema: KeypointSchema | None = None

    def __post_init__(self) -> None:
        if is_traced():
            return
        check.check_class("BatchedDenseSample.metric_depth", self.metric_depth, bool)
        values = {f.name: getattr(self, f.batched_name) for f in SAMPLE_FIELDS}
        check.check_presence("BatchedDenseSample", SAMPLE_FIELDS, values)
        sizes: dict[str, int] = {}
        for field in DENSE_FIELDS:
            if (value := values[field.name]) is not None:
                label = f"BatchedDenseSample.{field.batched_name}"
                check.check_tensor(label, value, ("B", *field.shape), field.batched_dtypes, sizes)
        for field in SAMPLE_FIELDS:
            if field.layout != "dense" and (value := values[field.name]) is not None:
                check.check_list(f"BatchedDenseSample.{field.batched_name}", value, self.batch_size)
        for b, camera in enumerate(self.camera_intrinsics or ()):
            check.check_class(f"BatchedDenseSample.camera_intrinsics[{b}]", camera, CameraIntrinsics)
        for b in range(self.batch_size):
            per_sample = {"H": sizes["H"], "W": sizes["W"]}
            for field in INSTANCE_FIELDS:
                if (value := values[field.name]) is not None:
                    label = f"BatchedDenseSample.{field.batched_name}[{b}]"
                    check.check_tensor(label, value[b], field.shape, field.dtypes, per_sample)
            check.check_boxes(f"BatchedDenseSample.boxes[{b}]", self.boxes[b], self.canvas_size)
            if self.instance_ids is not None:
                check.check_instance_ids(f"BatchedDenseSample.instance_ids[{b}]", self.instance_ids[b])
        if self.panoptic_maps is not None:
            check.check_panoptic_map("BatchedDenseSample.panoptic_maps", self.panoptic_maps)
        check_keypoints("BatchedDenseSample", self.keypoints, self.keypoint_schema, self.canvas_size)
        check.check_metric("BatchedDenseSample", self.metric_depth, self.depth, self.camera_intrinsics)

    @property
    def batch_size(self) -> int:
        """Number of samples, B."""
        return int(self.images.shape[0])

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of the images, (H, W)."""
        return self.images.shape[-2], self.images.shape[-1]

    @property
    def modalities(self) -> frozenset[Modality]:
        """Modalities of the batch."""
        return frozenset(f.modality for f in SAMPLE_FIELDS if f.modality and getattr(self, f.batched_name) is not None)

    @classmethod
    def from_samples(
        cls, samples: Sequence[DenseSample], *, empty_like: BatchedDenseSample | None = None
    ) -> BatchedDenseSample:
        """Stack samples of one size and the same fields.

        Args:
            samples: B samples.
            empty_like: for B = 0, a batch with the canvas, channels and modalities of the empty batch.

        Raises:
            ValueError: the samples differ in size, dtype, fields or flags, or there is neither a sample nor
                ``empty_like``.
        """
        if not samples:
            if empty_like is None:
                raise ValueError(
                    "BatchedDenseSample.from_samples: got no sample, so the canvas is unknown; pass empty_like=a batch"
                )
            return _emptied(empty_like)
        check_uniform(samples)
        first = samples[0]
        values = flags_of(first)
        for field in SAMPLE_FIELDS:
            column = [getattr(s, field.name) for s in samples]
            if column[0] is None:
                continue
            if field.layout == "dense":
                dense = stacked([value.as_subclass(Tensor) for value in column])
                values[field.batched_name] = field.wrapped(dense, first.canvas_size)
            else:
                values[field.batched_name] = column
        return cls._unchecked(values)  # the samples were checked

    def to_samples(self) -> list[DenseSample]:
        """Return the samples of the batch: the inverse of `from_samples`."""
        samples = []
        for b in range(self.batch_size):
            values = flags_of(self)
            for field in SAMPLE_FIELDS:
                if (column := getattr(self, field.batched_name)) is not None:
                    is_dense = field.layout == "dense"
                    values[field.name] = field.wrapped(column[b], self.canvas_size) if is_dense else column[b]
            samples.append(DenseSample(**values))
        return samples

    @classmethod
    def from_padded(cls, padded: PaddedBatchedDenseSample) -> BatchedDenseSample:
        """Return the ragged batch of a padded one, see `PaddedBatchedDenseSample.to_batched`."""
        check.check_class("BatchedDenseSample.from_padded: padded", padded, PaddedBatchedDenseSample)
        return padded.to_batched()

    def map_samples(self, function: Callable[[DenseSample], DenseSample]) -> BatchedDenseSample:
        """Apply a function to each sample, such as a transform with its own random parameters for each sample.

        A transform that is called with the batch itself uses the same random parameters for all samples.

        Raises:
            ValueError: the function returns samples of different sizes.
        """
        if not self.batch_size:
            return self
        return BatchedDenseSample.from_samples([function(sample) for sample in self.to_samples()])

    def to_padded(
        self,
        max_instances: int,
        *,
        overflow: Overflow = "raise",
        sample_seeds: Tensor | None = None,
        sample_keys: Tensor | None = None,
    ) -> PaddedBatchedDenseSample:
        """Return a padded batch with ``max_instances`` instance slots per image.

        Args:
            max_instances: number of slots, K.
            overflow: handling of an image with more than K instances: ``raise`` an error, or keep the ``largest`` by
                area, in their order. In a panoptic batch the pixels of dropped instances become 255 in the semantic
                map and 0 in the panoptic map.
            sample_seeds: [B] int64, one seed per image, for random choices that can be replayed.
            sample_keys: [B, 5] int64, the key of each image in its run, for replay records.

        Raises:
            ValueError: an image has more instances than slots (the message names the image and both counts), or it has
                padding on its left or top.
        """
        return self._padded(max_instances, overflow, sample_seeds=sample_seeds, sample_keys=sample_keys)

    def _padded(self, max_instances: int, overflow: Overflow, **more: Any) -> PaddedBatchedDenseSample:
        """Return `to_padded`, with masks in the ``slots`` in which they were drawn."""
        columns = {f.batched_name: getattr(self, f.batched_name) for f in SAMPLE_FIELDS}
        num_points = 0 if self.keypoint_schema is None else self.keypoint_schema.num_points
        values = padded_columns(columns, max_instances, overflow, num_points, more.pop("slots", None))
        return PaddedBatchedDenseSample(**values, **flags_of(self), **more)

    def _children(self, transform: v2.Transform | None) -> dict[str, Any]:
        if transform is not None:
            check_transform(transform, "BatchedDenseSample", batched=True)
        values = {f.batched_name: getattr(self, f.batched_name) for f in SAMPLE_FIELDS}
        return tagging.tagged(values, self.canvas_size, self.keypoint_schema)

    @classmethod
    def _of_children(cls, values: Mapping[str, Any], by_transform: bool) -> BatchedDenseSample:
        if not by_transform and not tagging.are_tensors(values):
            return cls._unchecked(values)
        present = {name: value for name, value in values.items() if value is not None and name not in FLAGS}
        return cls(**tagging.untagged("BatchedDenseSample", present), **{name: values[name] for name in FLAGS})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PaddedBatchedDenseSample(Movable):
    """Batch of B images with K instance slots each.

    Rows whose ``instance_valid`` is False are all zero. The constructor does not check this for masks, because it does
    not read pixels; `segpaste.invariants` does. Tagged tensors are accepted and stored as plain tensors. A box, rounded
    outwards to whole pixels, encloses its mask.

    Attributes:
        images: [B, C, H, W], uint8, float16, bfloat16 or float32; channels_last is kept.
        boxes: [B, K, 4], float32 xyxy, continuous pixel edges.
        labels: [B, K], int64.
        instance_valid: [B, K], bool.
        instance_ids: [B, K], int32; required with ``instance_masks``.
        instance_masks: [B, K, H, W], bool.
        semantic_maps: [B, H, W], int64, 255 is ignored.
        panoptic_maps: [B, H, W], int64, instance ids, 0 for stuff.
        depth: [B, 1, H, W], float32.
        depth_valid: [B, 1, H, W], bool.
        normals: [B, 3, H, W], float32, right-down-forward; zero where invalid.
        keypoints: [B, K, P, 3], float32 (x, y, v), as in `DenseSample`.
        crowd_mask: [B, 1, H, W], bool, True in regions whose objects are not annotated individually.
        padding_mask: [B, 1, H, W], bool, True in padding, which is to the right of the image content and below it.
        camera_intrinsics: [B, 4], float32 (fx, fy, cx, cy) in pixels: finite, focal lengths > 0.
        sample_seeds: [B], int64, one seed per image; with None the augmentation draws them.
        sample_keys: [B, 5], int64, the `segpaste.seeding.SampleKey` of each image, each number as the 64 bits of a
            uint64; used for replay records only.
        metric_depth: True if depth is in metres.
        keypoint_schema: names of the keypoints; required with ``keypoints``.

    Raises:
        TypeError, ValueError: a field is wrong; the message names it. Fields are not checked while tracing.
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
        if is_traced():
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
        check_keypoints("PaddedBatchedDenseSample", self.keypoints, self.keypoint_schema, self.canvas_size)
        check.check_metric("PaddedBatchedDenseSample", self.metric_depth, self.depth, self.camera_intrinsics)

    def _check_invalid_rows(self) -> None:
        if self.images.device.type != "cpu":
            return
        valid = check.numbers_of(self.instance_valid)
        for field in INSTANCE_FIELDS:
            value: Tensor | None = getattr(self, field.batched_name)
            if value is None or field.resample is not None:
                continue
            if check.numbers_of(value)[~valid].any():
                raise ValueError(
                    f"PaddedBatchedDenseSample.{field.batched_name}: expected zeros in rows whose instance_valid is "
                    "False, got other values; zero them"
                )

    @property
    def batch_size(self) -> int:
        """Number of images, B."""
        return self.images.shape[0]

    @property
    def max_instances(self) -> int:
        """Number of instance slots per image, K."""
        return self.labels.shape[1]

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of the images, (H, W)."""
        return self.images.shape[-2], self.images.shape[-1]

    @property
    def device(self) -> torch.device:
        """Device of the batch."""
        return self.images.device

    @property
    def modalities(self) -> frozenset[Modality]:
        """Modalities of the batch."""
        return frozenset(f.modality for f in FIELDS if f.modality and getattr(self, f.batched_name) is not None)

    def clone(self) -> PaddedBatchedDenseSample:
        """Return a batch with a copy of every tensor; memory formats are kept."""
        return self.map_tensors(Tensor.clone)

    def to_batched(self) -> BatchedDenseSample:
        """Drop empty slots and tag the tensors: the inverse of `BatchedDenseSample.to_padded`."""
        values = flags_of(self)
        for field in SAMPLE_FIELDS:
            value: Tensor | None = getattr(self, field.batched_name)
            if value is None:
                continue
            if field.layout == "dense":
                values[field.batched_name] = field.wrapped(value, self.canvas_size)
            elif field.layout == "image":
                values[field.batched_name] = [CameraIntrinsics.from_tensor(row) for row in value]
            else:
                rows = [row[valid] for row, valid in zip(value, self.instance_valid, strict=True)]
                values[field.batched_name] = [field.wrapped(row, self.canvas_size) for row in rows]
        return BatchedDenseSample(**values)

    def derived(self, **changes: Any) -> PaddedBatchedDenseSample:
        """Return a batch with new values for some fields, which are not validated: compute them from a valid batch."""
        if is_traced():
            return replace(self, **changes)
        names: tuple[str, ...] = self.__match_args__
        values = {name: getattr(self, name) for name in names}
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


register_pytree(BatchedDenseSample)
register_pytree(PaddedBatchedDenseSample)


def _emptied(like: BatchedDenseSample) -> BatchedDenseSample:
    values = flags_of(like)
    for field in SAMPLE_FIELDS:
        if (column := getattr(like, field.batched_name)) is not None:
            is_dense = field.layout == "dense"
            values[field.batched_name] = field.wrapped(column[:0], like.canvas_size) if is_dense else []
    return BatchedDenseSample(**values)
