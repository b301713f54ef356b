"""`DenseSample`: one image with its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste.types import check, tagging
from segpaste.types.depth_holes import filled_depth
from segpaste.types.fields import FLAGS, SAMPLE_FIELDS, flags_of
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
    tight_boxes,
)
from segpaste.types.tracing import is_traced

_NAMES = (*(field.name for field in SAMPLE_FIELDS), *FLAGS)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DenseSample(Movable):
    """One image with its labels, for any subset of the modalities.

    Attributes:
        image: [C, H, W], uint8 or float32.
        boxes: [N, 4], float32 xyxy, continuous pixel edges: a mask over columns 3..5 has x1 = 3, x2 = 6.
            A box, rounded outwards to whole pixels, encloses its mask.
        labels: [N], int64.
        instance_ids: [N], int32, unique in the sample, > 0; required with ``instance_masks``.
        instance_masks: [N, H, W], bool.
        semantic_map: [H, W], int64, 255 is ignored.
        panoptic_map: [H, W], int64, the instance id of the pixel, 0 for stuff; needs ``semantic_map``.
        depth: [1, H, W], float32, metres if ``metric_depth``; needs ``depth_valid``.
        depth_valid: [1, H, W], bool.
        normals: [3, H, W], float32, unit vectors in the camera frame right-down-forward; zero where invalid.
        keypoints: [N, P, 3], float32 (x, y, v): x and y in continuous pixel edges, as in boxes; v is 0 if the point is
            not labelled (then x = y = 0), 1 if it is labelled and not visible, 2 if it is visible.
        crowd_mask: [1, H, W], bool, True in regions whose objects are not annotated individually; objects may be
            pasted over these regions, but the regions are not pasted themselves.
        padding_mask: [1, H, W], bool, True where a pixel is padding.
        camera_intrinsics: camera in pixels; required for metric depth.
        metric_depth: True if depth is in metres.
        keypoint_schema: names of the keypoints, and pairs that swap in a flip; required with ``keypoints``.

    Raises:
        TypeError, ValueError: a field is wrong; the message names it, what was expected and what came.
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
    keypoints: Tensor | None = None
    crowd_mask: CrowdMask | None = None
    padding_mask: PaddingMask | None = None
    camera_intrinsics: CameraIntrinsics | None = None
    metric_depth: bool = False
    keypoint_schema: KeypointSchema | None = None

    def __post_init__(self) -> None:
        self._check(are_plain=False)

    def _check(self, *, are_plain: bool) -> None:
        """Raise the errors of the class; ``are_plain`` if the bytes of bool tensors are known to be 0 and 1."""
        if is_traced():
            return
        check.check_class("DenseSample.metric_depth", self.metric_depth, bool)
        values = {f.name: getattr(self, f.name) for f in SAMPLE_FIELDS}
        check.check_presence("DenseSample", SAMPLE_FIELDS, values)
        sizes: dict[str, int] = {}
        for field in SAMPLE_FIELDS:
            value = values[field.name]
            if value is None or field.layout == "image":
                continue
            label = f"DenseSample.{field.name}"
            check.check_tensor(label, value, field.shape, field.dtypes, sizes)
            if not are_plain:
                check.check_bools(label, value)
            if field.tag is not None and not isinstance(value, field.tag):
                home = "segpaste.types" if field.tag.__module__.startswith("segpaste") else "torchvision.tv_tensors"
                raise TypeError(
                    f"{label}: expected {field.tag.__name__}, got {type(value).__name__}; wrap it in "
                    f"{home}.{field.tag.__name__}, or use DenseSample.from_masks, which takes plain tensors"
                )
        if self.camera_intrinsics is not None and not isinstance(self.camera_intrinsics, CameraIntrinsics):
            raise TypeError(
                "DenseSample.camera_intrinsics: expected CameraIntrinsics, got "
                f"{type(self.camera_intrinsics).__name__}; use CameraIntrinsics(fx, fy, cx, cy)"
            )
        check.check_boxes("DenseSample.boxes", self.boxes, self.canvas_size)
        if self.instance_ids is not None:
            check.check_instance_ids("DenseSample.instance_ids", self.instance_ids)
        if self.panoptic_map is not None:
            check.check_panoptic_map("DenseSample.panoptic_map", self.panoptic_map)
        check_keypoints("DenseSample", self.keypoints, self.keypoint_schema, self.canvas_size)
        check.check_metric("DenseSample", self.metric_depth, self.depth, self.camera_intrinsics)

    @classmethod
    def from_masks(cls, image: Tensor, masks: Tensor, labels: Tensor, **fields: Any) -> DenseSample:
        """Create a sample from plain tensors, with tight boxes and, if none are given, instance ids 1..N.

        Args:
            image: [C, H, W], uint8 or float32.
            masks: [N, H, W] bool; also with bytes other than 0 and 1, as in arrays of Pillow's mode "1".
            labels: [N] int64, classes from 0 without gaps, not category ids.
            fields: other fields by name, such as ``crowd_mask`` or ``semantic_map``; maps may be plain tensors.

        Raises:
            TypeError, ValueError: see the class; also if a name is not that of a field.
        """
        check.check_tensor("DenseSample.from_masks: masks", masks, ("N", "H", "W"), (torch.bool,), {})
        return cls._of_plain_masks(image, check.with_plain_bytes(masks), labels, **fields)

    @classmethod
    def _of_plain_masks(cls, image: Tensor, masks: Tensor, labels: Tensor, **fields: Any) -> DenseSample:
        """Return `from_masks` of masks whose bytes are 0 and 1."""
        if "boxes" in fields:
            raise TypeError("DenseSample.from_masks: expected no boxes, got some; they are computed from the masks")
        check.check_names("DenseSample.from_masks", fields, _NAMES)
        if image.ndim == 3 and image.shape[:2] == masks.shape[1:] != image.shape[1:]:
            raise ValueError(
                f"DenseSample.from_masks: image: expected [C, H, W], got {list(image.shape)} for masks "
                f"{list(masks.shape)}; change [H, W, C] by image.permute(2, 0, 1)"
            )
        for field in SAMPLE_FIELDS:
            if isinstance(value := fields.get(field.name), Tensor):
                value = check.with_plain_bytes(value)
                fields[field.name] = value if field.tag is None else field.tag(value, device=value.device)
        boxes, canvas_size = tight_boxes(masks), tuple(masks.shape[1:])
        values = {
            "image": tv_tensors.Image(image, device=image.device),
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=canvas_size, device=boxes.device),
            "labels": labels,
            "instance_ids": torch.arange(1, len(masks) + 1, dtype=torch.int32, device=masks.device),
            "instance_masks": InstanceMask(masks),
            "metric_depth": False,
        }
        return cls._of_plain({**values, **fields})

    @classmethod
    def _of_plain(cls, values: Mapping[str, Any]) -> DenseSample:
        """Return a sample of fields in which the bytes of bool tensors are known to be 0 and 1."""
        sample = cls._unchecked(values)
        sample._check(are_plain=True)
        return sample

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of the image, (H, W)."""
        return self.image.shape[-2], self.image.shape[-1]

    @property
    def num_instances(self) -> int:
        """Number of instances, N."""
        return self.labels.shape[0]

    @property
    def modalities(self) -> frozenset[Modality]:
        """Modalities of the sample."""
        return frozenset(f.modality for f in SAMPLE_FIELDS if f.modality and getattr(self, f.name) is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return the present fields, tagged so that torchvision.transforms.v2 transforms each of them.

        A transform that is called with the sample itself gets the same fields. Keypoints are [N, P, 6] float64, and
        invalid depth is NaN. Resize, crop, pad and flip keep all fields aligned. Other geometric transforms raise an
        error for fields that they cannot transform correctly. The inverse is `from_dict`.
        """
        values = {f.name: getattr(self, f.name) for f in SAMPLE_FIELDS}
        flags = {name: value for name, value in flags_of(self).items() if value is not None}
        return {**tagging.tagged(values, self.canvas_size, self.keypoint_schema), **flags}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> DenseSample:
        """Create a sample from the fields of `to_dict`, before or after transforms. Invalid depth becomes 0.

        Plain tensors get the classes of their fields. If a transform emptied the box of a mask that has pixels, the box
        is fitted to the mask.

        Raises:
            TypeError: a key is unknown, or a value is not a tensor.
        """
        present = {name: value for name, value in fields.items() if value is not None and name not in FLAGS}
        check.check_names("DenseSample.from_dict", present, _NAMES)
        values = tagging.untagged("DenseSample", present)
        return cls(**values, **{name: fields[name] for name in FLAGS if name in fields})

    def _children(self, transform: v2.Transform | None) -> dict[str, Any]:
        if transform is not None:
            check_transform(transform, "DenseSample", batched=False)
        return {name: value for name, value in self.to_dict().items() if name not in FLAGS}

    @classmethod
    def _of_children(cls, values: Mapping[str, Any], by_transform: bool) -> DenseSample:
        return cls.from_dict(values) if by_transform or tagging.are_tensors(values) else cls._unchecked(values)


register_pytree(DenseSample)


def check_uniform(samples: Sequence[DenseSample]) -> None:
    """Check that samples can be stacked: one size and dtype, the same fields and flags.

    Raises:
        TypeError: one is of another class.
        ValueError: a sample differs from the first one; the message names it.
    """
    first = samples[0]
    for i, sample in enumerate(samples):
        if not isinstance(sample, DenseSample):
            raise TypeError(
                f"BatchedDenseSample.from_samples: expected DenseSamples, got {type(sample).__name__} as sample {i}; "
                "convert it in the dataset, for example with DenseSample.from_masks"
            )
        if sample.image.shape != first.image.shape or sample.image.dtype != first.image.dtype:
            raise ValueError(
                f"BatchedDenseSample.from_samples: expected images of one shape and dtype, got "
                f"{list(first.image.shape)} {first.image.dtype} in sample 0 and "
                f"{list(sample.image.shape)} {sample.image.dtype} in sample {i}; bring all to one dtype and number of "
                "channels in the dataset, and to one size with create_coco_dataloader(dataset=..., size=...)"
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


def fill_holes(sample: DenseSample) -> DenseSample:
    """Return the sample with values in the holes of its objects' depth; without depth or masks as it is."""
    if sample.depth is None or sample.depth_valid is None or sample.instance_masks is None:
        return sample
    masks = sample.instance_masks.as_subclass(Tensor)
    depth, valid = sample.depth.as_subclass(Tensor), sample.depth_valid.as_subclass(Tensor)
    return replace(sample, depth=filled_depth(depth, valid, masks))
