"""Conversions that all adapters share: batches to one target per image, and targets to batches.

Frameworks differ in names, box formats, class numbers and scales, but their targets have the same contents. Each
adapter combines these functions; none converts pixels or boxes itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.integrations._values import channels, expect_colours
from segpaste.types import BatchedDenseSample, CrowdMask, DenseSample, PaddedBatchedDenseSample, PaddingMask
from segpaste.types.check import check_class, check_count
from segpaste.types.sampling import box_masks
from segpaste.types.tensors import tensor_of

_UPRIGHT = (tv_tensors.BoundingBoxFormat.XYXY, tv_tensors.BoundingBoxFormat.XYWH, tv_tensors.BoundingBoxFormat.CXCYWH)


class Objects(NamedTuple):
    """Instances of one image; those without a pixel or with an empty box are left out.

    Attributes:
        boxes: [N, 4] float32 xyxy, continuous pixel edges.
        labels: [N] int64.
        masks: [N, H, W] bool; None in a batch without instance masks.
        slots: [N] int64, their slots in the batch.
    """

    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    slots: Tensor


def has_object(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return which slots hold an object with a pixel, [B, K] bool, since frameworks reject empty boxes."""
    return batch.instance_valid & (batch.boxes[..., 2:] > batch.boxes[..., :2]).all(-1)


def objects_of(batch: PaddedBatchedDenseSample) -> list[Objects]:
    """Return the instances of each image of a batch, in the order of their slots."""
    check_class("batch", batch, PaddedBatchedDenseSample)
    keep = has_object(batch)
    found = []
    for b in range(batch.batch_size):
        slots = keep[b].nonzero()[:, 0]
        masks = None if batch.instance_masks is None else batch.instance_masks[b, slots]
        found.append(Objects(batch.boxes[b, slots], batch.labels[b, slots], masks, slots))
    return found


def slots_of(
    image_idx: Tensor, areas: Tensor, batch_size: int, max_instances: int, *, warns: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Assign each object of a flat list a slot of its image.

    Args:
        image_idx: [N] int64, the image of each object, ascending.
        areas: [N], area of each object; an image with more objects than slots keeps its largest.
        batch_size: B.
        max_instances: K.
        warns: warn of an image with more objects.

    Returns:
        [M] int64 each: the objects that are kept, ascending, and the image and the slot of each.
    """
    kept = torch.arange(len(image_idx), device=image_idx.device)
    counts = torch.bincount(image_idx, minlength=batch_size)
    if len(kept) and int(counts.max()) > max_instances:
        if warns:
            warn_of_overflow(max_instances)
        images = [torch.nonzero(image_idx == b)[:, 0] for b in range(batch_size)]
        largest = [rows[areas[rows].argsort(descending=True, stable=True)[:max_instances]] for rows in images]
        kept = torch.cat(largest).sort().values
        counts = counts.clamp(max=max_instances)
    rows = image_idx[kept]
    first = counts.cumsum(0) - counts
    return kept, rows, torch.arange(len(kept), device=kept.device) - first[rows]


def warn_of_overflow(max_instances: int) -> None:
    """Warn that some objects have no slot; Python shows the same warning once."""
    warnings.warn(
        f"an image has more objects than max_instances={max_instances} slots: its largest are kept, the others become "
        "background, in this and in later batches; give more slots",
        stacklevel=4,
    )


def picture_sizes(batch: PaddedBatchedDenseSample) -> list[tuple[int, int]]:
    """Return (height, width) of each image up to its last row and column without padding."""
    height, width = batch.canvas_size
    if batch.padding_mask is None:
        return [(height, width)] * batch.batch_size
    return extents(~batch.padding_mask[:, 0])


def extents(inside: Tensor) -> list[tuple[int, int]]:
    """Return (height, width) up to the last row and column with a True pixel, of each of [B, H, W] bool."""
    return [(_extent(pixels.any(1)), _extent(pixels.any(0))) for pixels in inside]


def _extent(present: Tensor) -> int:
    """Return the number of entries up to the last True one."""
    found = present.nonzero()
    return int(found[-1]) + 1 if len(found) else 0


def pixel_mask(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return [B, H, W] int64: 1 for pixels of the image, 0 for padding; the inverse of ``padding_mask``."""
    if batch.padding_mask is None:
        return torch.ones(batch.batch_size, *batch.canvas_size, dtype=torch.int64, device=batch.device)
    return (~batch.padding_mask[:, 0]).long()


def normalized(
    batch: PaddedBatchedDenseSample, mean: Sequence[float], std: Sequence[float], scale: float = 255.0
) -> Tensor:
    """Return the images as (value / ``scale`` - mean) / std, float32 [B, C, H, W]; padding is 0 after it.

    Float images are read to check their range, which waits for their device; see `expect_colours`.

    Args:
        batch: batch whose images hold 0..``scale``.
        mean: mean of each channel of images in 0..1.
        std: standard deviation of each channel of images in 0..1.
        scale: the value of white.

    Raises:
        ValueError: colours are in another range, the number of channels is another, or ``std`` or ``scale`` is not > 0.
    """
    num_channels = batch.images.shape[1]
    if len(mean) != len(std):
        raise ValueError(f"mean, std: expected as many numbers in each, got {len(mean)} and {len(std)}")
    if len(mean) != num_channels:
        raise ValueError(f"images: expected {len(mean)} channels, as in mean and std, got {channels(num_channels)}")
    if min([*std, scale]) <= 0:
        raise ValueError(f"std, scale: expected numbers > 0, got {list(std)} and {scale}")
    expect_colours("images", [batch.images], scale, "scale")
    shape, device = (num_channels, 1, 1), batch.device
    shift = torch.tensor(mean, dtype=torch.float32, device=device).view(shape) * scale
    spread = torch.tensor(std, dtype=torch.float32, device=device).view(shape) * scale
    images = (batch.images.float() - shift) / spread
    return images if batch.padding_mask is None else images.masked_fill(batch.padding_mask, 0.0)


def corners(name: str, boxes: Any) -> Tensor:
    """Return boxes as plain xyxy in pixels, [N, 4] float32.

    Args:
        name: name for the error.
        boxes: `torchvision.tv_tensors.BoundingBoxes` of a format without an angle, or other values as xyxy; [0] if
            there are none.

    Raises:
        ValueError: they have an angle.
    """
    if isinstance(boxes, tv_tensors.BoundingBoxes):
        if boxes.format not in _UPRIGHT:
            raise ValueError(
                f"{name}: expected boxes of format XYXY, XYWH or CXCYWH, got {boxes.format.name}: an angle does not "
                "follow a paste"
            )
        boxes = F.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
    plain = tensor_of(boxes).float()
    return plain if plain.numel() else plain.reshape(0, 4)


def cxcywh(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Return xyxy boxes [N, 4] as (centre x, centre y, width, height) over (width, height) of ``size`` (H, W)."""
    height, width = size
    low, high = boxes[:, :2], boxes[:, 2:]
    edges = torch.tensor([width, height], dtype=boxes.dtype, device=boxes.device)
    return torch.cat([(low + high) / 2 / edges, (high - low) / edges], 1)


def crowd_region(boxes: Tensor, masks: Tensor | None, size: Sequence[int]) -> Tensor | None:
    """Return the pixels [H, W] bool of crowds, from their masks or their boxes; None if there is no crowd.

    Args:
        boxes: [N, 4] xyxy in pixels.
        masks: [N, H, W], or None if there are boxes only.
        size: [2], H and W.
    """
    if not len(boxes):
        return None
    if masks is not None:
        return masks.any(0)
    return box_masks(boxes, (size[0], size[1])).any(0)


def batch_of(
    images: Sequence[Tensor], objects: Sequence[Objects], crowds: Sequence[Tensor | None], max_instances: int
) -> PaddedBatchedDenseSample:
    """Return a padded batch of images of any sizes, padded to the right and below, with K slots.

    Args:
        images: B images [C, H, W], uint8 or float32.
        objects: the instances of each; ``slots`` is not read.
        crowds: the crowd region [H, W] bool of each, or None.
        max_instances: K; an image with more keeps its largest.

    Raises:
        TypeError, ValueError: see `DenseSample`; or images have different numbers of channels or dtypes.
    """
    check_count("max_instances", max_instances)
    if not images:
        raise ValueError("expected at least one image, got none; skip empty batches")
    height, width = (max(image.shape[axis] for image in images) for axis in (-2, -1))
    if any(len(found.labels) > max_instances for found in objects):
        warn_of_overflow(max_instances)
    with_crowds = any(crowd is not None for crowd in crowds)
    samples = []
    for image, found, crowd in zip(images, objects, crowds, strict=True):
        h, w = image.shape[-2:]
        right, below = width - w, height - h
        padding = torch.ones(1, height, width, dtype=torch.bool, device=image.device)
        padding[:, :h, :w] = False
        fields: dict[str, Any] = {"padding_mask": PaddingMask(padding)}
        if with_crowds:
            region = torch.zeros(h, w, dtype=torch.bool, device=image.device) if crowd is None else crowd
            fields["crowd_mask"] = CrowdMask(pad(region[None], (0, right, 0, below)))
        canvas = pad(image, (0, right, 0, below))
        if found.masks is not None:
            sample = DenseSample.from_masks(canvas, pad(found.masks, (0, right, 0, below)), found.labels, **fields)
        else:
            boxes = tv_tensors.BoundingBoxes(
                found.boxes, format="XYXY", canvas_size=(height, width), device=found.boxes.device
            )
            sample = DenseSample(tv_tensors.Image(canvas, device=canvas.device), boxes, found.labels, **fields)
        samples.append(sample)
    return BatchedDenseSample.from_samples(samples).to_padded(max_instances, overflow="largest")
