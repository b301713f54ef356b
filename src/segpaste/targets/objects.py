"""Padded batches as one list of objects per image, and lists of annotated images as padded batches."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.targets.annotated import Annotated, sample_of
from segpaste.targets.boxes import visible_areas
from segpaste.targets.colours import normalized
from segpaste.targets.labels import LabelMap, from_framework
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample
from segpaste.types.check import check_class, check_count


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

    @property
    def areas(self) -> Tensor:
        """Number of pixels of each mask, or area of the box without masks, float32 [N]."""
        return visible_areas(self.boxes, self.masks)


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


def normalized_images(
    batch: PaddedBatchedDenseSample, mean: Sequence[float], std: Sequence[float], scale: float = 255.0
) -> Tensor:
    """Return the images of a batch after `normalized`; padding is 0."""
    images = normalized(batch.images, mean, std, scale)
    return images if batch.padding_mask is None else images.masked_fill(batch.padding_mask, 0.0)


def padded_batch(images: Sequence[Annotated], max_instances: int, label_map: LabelMap) -> PaddedBatchedDenseSample:
    """Return a padded batch of images of any sizes, padded to the right and below, with K slots.

    Args:
        images: B images, after `checked`.
        max_instances: K; an image with more instances keeps its largest.
        label_map: class ids of the images.

    Raises:
        TypeError, ValueError: see `DenseSample`; an id has no label; or images have different numbers of channels or
            dtypes.
    """
    check_count("max_instances", max_instances)
    if not images:
        raise ValueError("expected at least one image, got none; skip empty batches")
    canvas = [max(given.image.shape[axis] for given in images) for axis in (-2, -1)]
    with_crowds, samples = any(bool(given.is_crowd.any()) for given in images), []
    for given in images:
        labels = given.labels.to(torch.int64, copy=True)
        labels[~given.is_crowd] = from_framework(labels[~given.is_crowd], label_map)  # a crowd may have no label
        samples.append(sample_of(given._replace(labels=labels), canvas=canvas, with_crowds=with_crowds))
    if any(sample.num_instances > max_instances for sample in samples):
        warn_of_overflow(max_instances)
    return BatchedDenseSample.from_samples(samples).to_padded(max_instances, overflow="largest")
