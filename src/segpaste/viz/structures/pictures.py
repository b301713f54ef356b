"""Common form of all structures for drawing: a `DenseSample` for each image, on the CPU.

The conversions of the other modules use these functions. They check only what drawing needs: a box beside its object is
drawn there, because such errors are what a user looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types import DenseSample, InstanceMask, KeypointSchema, PaddingMask, tight_boxes
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE

_SLACK = 0.1
"""Tolerance of values outside of 0..1 after the normalisation is undone, for resized and jittered images."""

_MOST = 4.0
"""Upper bound of fractions of an image, even for a box that extends beyond the image."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options of a conversion.

    Attributes:
        mean: of each channel of images in 0..1; None where images are not normalised.
        std: likewise.
        pasted: flags of what was pasted, [B, K] bool or a list of B flags [N].
        bbox_format: of the boxes of AlbumentationsX.
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    pasted: Tensor | Sequence[Tensor] | None = None
    bbox_format: str | None = None


@dataclass(frozen=True, slots=True)
class Pictures:
    """Batch that can be drawn.

    Attributes:
        num_images: number of images, B.
        sample: function that returns an image by its index, one at a time, since masks of a batch may need gigabytes.
        has_boxes: True if the structure has boxes; else those of the samples follow from masks and are not drawn.
        pasted: B flags, bool [N] for the N objects of each sample, or None if they are not known.
    """

    num_images: int
    sample: Callable[[int], DenseSample]
    has_boxes: bool = True
    pasted: Sequence[Tensor] | None = None


def on_cpu(value: Any) -> Tensor:
    """Return a tensor or an array as a plain tensor on the CPU, without a gradient."""
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
    return tensor.detach().as_subclass(Tensor).cpu()


def pixels(image: Any, request: Request) -> Tensor:
    """Undo the normalisation of an image [C, H, W] and return it as uint8; without one return its own values.

    Raises:
        ValueError: mean and standard deviation do not fit the image.
    """
    values = on_cpu(image)
    if values.dtype == torch.uint8:
        return values
    values = values.float()
    if request.mean is None or request.std is None:
        return values
    if len(request.mean) != len(values) or len(request.std) != len(values):
        raise ValueError(
            f"show: expected mean and std with {len(values)} numbers each, one per channel, got {len(request.mean)} "
            f"and {len(request.std)}"
        )
    mean, std = (
        torch.tensor(numbers, dtype=torch.float32, device="cpu").view(-1, 1, 1)
        for numbers in (request.mean, request.std)
    )
    values = values * std + mean
    known = values[values.isfinite()]
    if known.numel() and (known.min() < -_SLACK or known.max() > 1 + _SLACK):
        raise ValueError(
            f"show: expected images in 0..1 after mean and std were undone, got {known.min():.4g} to "
            f"{known.max():.4g}; give the mean and std of the normalisation of these images"
        )
    return (values.nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8)


def sample_of(
    image: Tensor,
    labels: Any,
    *,
    boxes: Tensor | None = None,
    masks: Any = None,
    keypoints: Any = None,
    padding: Tensor | None = None,
) -> DenseSample:
    """Return the sample of one image and its objects.

    Args:
        image: uint8 or float32 [C, H, W].
        labels: class ids, [N].
        boxes: xyxy in pixels, [N, 4]; by default those of the masks.
        masks: [N, H, W], 0 outside of the object.
        keypoints: pixels, [N, P, 2 or 3].
        padding: bool [H, W].

    Raises:
        TypeError, ValueError: see `DenseSample`.
    """
    size = (image.shape[-2], image.shape[-1])
    labels = on_cpu(labels).reshape(-1).long()
    fields: dict[str, Any] = {}
    if masks is not None:
        fields["instance_masks"] = InstanceMask(on_cpu(masks) > 0)
        fields["instance_ids"] = torch.arange(1, len(labels) + 1, dtype=torch.int32, device="cpu")
    if boxes is None:
        boxes = (
            torch.zeros(0, 4, dtype=torch.float32, device="cpu")
            if masks is None
            else tight_boxes(fields["instance_masks"].as_subclass(Tensor))
        )
    if keypoints is not None:
        points = labelled_points(on_cpu(keypoints), size)
        names = tuple(f"point {i}" for i in range(points.shape[1]))
        fields |= {"keypoints": points, "keypoint_schema": KeypointSchema(names)} if names else {}
    if padding is not None:
        fields["padding_mask"] = PaddingMask(padding[None])
    corners = on_cpu(boxes).float().reshape(-1, 4)
    tagged = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=size, device="cpu")
    return DenseSample(tv_tensors.Image(image, device=image.device), tagged, labels, **fields)


def labelled_points(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Return keypoints [N, P, 3] float32; those outside of the image (H, W) are unlabelled.

    Points [N, P, 2] have no visibility: all but those at (0, 0) are visible.
    """
    points = points.float().nan_to_num(-1.0)
    places = points[..., :2]
    known = points[..., 2:] if points.shape[-1] > 2 else (places != 0).any(-1, keepdim=True) * float(VISIBLE)
    inside = ((places >= 0) & (places <= places.new_tensor(size[::-1]))).all(-1, keepdim=True) & (known > UNLABELLED)
    visibility = torch.where(known == HIDDEN, float(HIDDEN), float(VISIBLE))
    return torch.where(inside, torch.cat([places, visibility], -1), 0.0)


def from_cxcywh(boxes: Any, size: tuple[int, int]) -> Tensor:
    """Convert boxes [N, 4] (centre x, centre y, width, height), fractions of ``size`` (H, W), to xyxy pixels.

    Raises:
        ValueError: the boxes are in pixels.
    """
    values = on_cpu(boxes).float().reshape(-1, 4)
    if values.numel() and values.abs().max() > _MOST:
        raise ValueError(
            f"show: expected boxes (centre x, centre y, width, height) as fractions of the image, got numbers up to "
            f"{values.abs().max():.4g}; are these pixels? Show the batch that the model gets"
        )
    edges = torch.tensor([size[1], size[0]], dtype=torch.float32, device="cpu")
    centres, sides = values[:, :2] * edges, values[:, 2:] * edges
    return torch.cat([centres - sides / 2, centres + sides / 2], 1)


def scaled_points(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Convert keypoints [N, P, 2 or 3] from fractions of ``size`` (H, W) to pixels."""
    edges = torch.tensor([size[1], size[0]], dtype=torch.float32, device="cpu")
    return torch.cat([points[..., :2].float() * edges, points[..., 2:].float()], -1)


def has_keys(value: object, *names: str) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a dictionary with these keys."""
    return isinstance(value, Mapping) and all(name in value for name in names)


def is_list(value: object, kind: type) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list or tuple of objects of a class, at least one."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(entry, kind) for entry in value)


def are_targets(value: object, *names: str) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Return whether a value is a list of dictionaries with these keys, at least one."""
    return is_list(value, Mapping) and all(has_keys(entry, *names) for entry in value)
