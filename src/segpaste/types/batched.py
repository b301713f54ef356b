"""`BatchedDenseSample`: images of one size stacked, instances ragged. What a loader produces and a loss reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste.types import check, tagging
from segpaste.types.dense import DenseSample
from segpaste.types.fields import DENSE_FIELDS, FLAGS, INSTANCE_FIELDS, SAMPLE_FIELDS, flags_of
from segpaste.types.keypoints import KeypointSchema, check_keypoints
from segpaste.types.movable import Movable, register_pytree
from segpaste.types.tensors import (
    IGNORE_INDEX,
    CameraIntrinsics,
    CrowdMask,
    InstanceMask,
    Modality,
    PaddingMask,
    PanopticMap,
    SemanticMap,
)
from segpaste.types.transform_calls import check_transform

if TYPE_CHECKING:
    from segpaste.types.padded import PaddedBatchedDenseSample


@dataclass(frozen=True, slots=True, eq=False)
class BatchedDenseSample(Movable):
    """B samples of one canvas size and the same modalities; B may be 0.

    Dense fields are stacked to [B, ...]; instance fields and intrinsics are lists of length B whose entries are
    those of `DenseSample`.
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
        if torch.compiler.is_compiling():
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
        check_keypoints("BatchedDenseSample", self.keypoints, self.keypoint_schema)
        check.check_metric("BatchedDenseSample", self.metric_depth, self.depth, self.camera_intrinsics)

    @property
    def batch_size(self) -> int:
        """B."""
        return int(self.images.shape[0])

    @property
    def canvas_size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.images.shape[-2], self.images.shape[-1]

    @property
    def modalities(self) -> frozenset[Modality]:
        """The modalities that the batch carries."""
        return frozenset(f.modality for f in SAMPLE_FIELDS if f.modality and getattr(self, f.batched_name) is not None)

    @classmethod
    def from_samples(
        cls, samples: Sequence[DenseSample], *, empty_like: BatchedDenseSample | None = None
    ) -> BatchedDenseSample:
        """Stack samples of one size and the same fields.

        Args:
            samples: B samples.
            empty_like: for B = 0, a batch whose canvas, channels and modalities the empty batch takes.

        Raises:
            ValueError: mixed sizes, dtypes, modalities or metric flags, or no sample and no ``empty_like``.
        """
        if not samples:
            if empty_like is None:
                raise ValueError(
                    "BatchedDenseSample.from_samples: got no sample, so the canvas is unknown; pass empty_like=a batch"
                )
            return _emptied(empty_like)
        _check_uniform(samples)
        first = samples[0]
        values = flags_of(first)
        for field in SAMPLE_FIELDS:
            column = [getattr(s, field.name) for s in samples]
            if column[0] is None:
                continue
            if field.layout == "dense":
                stacked = torch.stack([v.as_subclass(torch.Tensor) for v in column])
                values[field.batched_name] = field.tag(stacked) if field.tag else stacked
            else:
                values[field.batched_name] = column
        return cls(**values)

    def to_samples(self) -> list[DenseSample]:
        """The inverse of `from_samples`."""
        samples = []
        for b in range(self.batch_size):
            values = flags_of(self)
            for field in SAMPLE_FIELDS:
                column = getattr(self, field.batched_name)
                if column is None:
                    continue
                row = column[b]
                values[field.name] = field.tag(row) if field.layout == "dense" and field.tag else row
            samples.append(DenseSample(**values))
        return samples

    def map_samples(self, function: Callable[[DenseSample], DenseSample]) -> BatchedDenseSample:
        """Apply a function to every sample, such as a transform that draws anew for each.

        A transform that is called with the batch itself draws once and moves all samples alike.

        Raises:
            ValueError: the samples come back in several sizes.
        """
        if not self.batch_size:
            return self
        return BatchedDenseSample.from_samples([function(sample) for sample in self.to_samples()])

    def to_padded(
        self,
        max_instances: int,
        *,
        overflow: Literal["raise", "largest"] = "raise",
        sample_seeds: Tensor | None = None,
        sample_keys: Tensor | None = None,
    ) -> PaddedBatchedDenseSample:
        """Give every image ``max_instances`` instance slots.

        Args:
            max_instances: K.
            overflow: what to do with an image that has more instances: ``raise``, or keep the ``largest`` by area
                (in their order); the pixels of a dropped instance become ignore in semantic and 0 in panoptic maps
                where the batch is panoptic.
            sample_seeds: [B] int64, one seed per image, for draws that can be replayed.
            sample_keys: [B, 5] int64, what names each image in its run, for replay records.

        Raises:
            ValueError: an image has more instances than slots (naming the image and both counts), or padding to the
                left of its picture or above it.
        """
        from segpaste.types.padded import pad_batch

        return pad_batch(self, max_instances, overflow, sample_seeds, sample_keys)

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


register_pytree(BatchedDenseSample)


def largest_instances(boxes: Tensor, masks: Tensor | None, max_instances: int) -> Tensor:
    """Indices of the ``max_instances`` largest instances, ascending, int64; all where there are no more.

    Area is the mask's, or the box's where there is no mask; of equal areas the earlier instance is kept.
    """
    if masks is not None:
        area = masks.as_subclass(torch.Tensor).flatten(1).sum(1)
    else:
        corners = boxes.as_subclass(torch.Tensor)
        area = (corners[:, 2:] - corners[:, :2]).prod(1)
    return torch.sort(area, descending=True, stable=True).indices[:max_instances].sort().values


def without_orphans(panoptic: Tensor, semantic: Tensor, instance_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Panoptic and semantic map [H, W] whose thing pixels all have an instance: the others become 0 and ignore."""
    orphan = (panoptic != 0) & ~torch.isin(panoptic, instance_ids.to(panoptic.dtype))
    return panoptic.masked_fill(orphan, 0), semantic.masked_fill(orphan, IGNORE_INDEX)


def keep_largest(sample: DenseSample, max_instances: int) -> DenseSample:
    """The sample with only its ``max_instances`` largest instances, in their order; see `select_instances`."""
    if sample.num_instances <= max_instances:
        return sample
    return select_instances(sample, largest_instances(sample.boxes, sample.instance_masks, max_instances))


def select_instances(sample: DenseSample, keep: Tensor) -> DenseSample:
    """The sample with only the instances at the indices ``keep`` (int64).

    Where a panoptic map is present the others' pixels become 0 there and ignore in the semantic map, so that every
    thing pixel still has its mask.
    """
    values = {f.name: getattr(sample, f.name) for f in fields(DenseSample)}
    for field in INSTANCE_FIELDS:
        if values[field.name] is not None:
            values[field.name] = _tagged_like(values[field.name], values[field.name].as_subclass(torch.Tensor)[keep])
    if sample.panoptic_map is not None and sample.semantic_map is not None and sample.instance_ids is not None:
        panoptic, semantic = without_orphans(
            sample.panoptic_map.as_subclass(torch.Tensor),
            sample.semantic_map.as_subclass(torch.Tensor),
            values["instance_ids"],
        )
        values["panoptic_map"], values["semantic_map"] = PanopticMap(panoptic), SemanticMap(semantic)
    return DenseSample(**values)


def _tagged_like(like: Tensor, value: Tensor) -> Tensor:
    return tv_tensors.wrap(value, like=like) if isinstance(like, tv_tensors.TVTensor) else value


def _check_uniform(samples: Sequence[DenseSample]) -> None:
    first = samples[0]
    for i, sample in enumerate(samples):
        if sample.image.shape != first.image.shape or sample.image.dtype != first.image.dtype:
            raise ValueError(
                f"BatchedDenseSample.from_samples: expected images of one shape and dtype, got "
                f"{list(first.image.shape)} {first.image.dtype} in sample 0 and "
                f"{list(sample.image.shape)} {sample.image.dtype} in sample {i}; bring all to one size and dtype, "
                "for example with segpaste.datasets.make_large_scale_jittering, or keep them in a list with "
                "DataLoader(..., collate_fn=list)"
            )
        for field in SAMPLE_FIELDS:
            if (getattr(sample, field.name) is None) != (getattr(first, field.name) is None):
                raise ValueError(
                    f"BatchedDenseSample.from_samples: expected {field.name!r} in all samples or in none, "
                    f"but sample 0 and sample {i} differ"
                )
        for name in FLAGS:
            own, other = getattr(first, name), getattr(sample, name)
            if own != other:
                raise ValueError(
                    f"BatchedDenseSample.from_samples: expected one {name}, got {own} in sample 0 and {other} in "
                    f"sample {i}"
                )


def _emptied(like: BatchedDenseSample) -> BatchedDenseSample:
    values = flags_of(like)
    for field in SAMPLE_FIELDS:
        column = getattr(like, field.batched_name)
        if column is None:
            continue
        if field.layout == "dense":
            nothing = column.as_subclass(torch.Tensor)[:0]
            values[field.batched_name] = field.tag(nothing) if field.tag else nothing
        else:
            values[field.batched_name] = []
    return BatchedDenseSample(**values)
