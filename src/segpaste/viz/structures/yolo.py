"""Batches of Ultralytics' loaders, before and after the trainer has converted them to floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from segpaste.types import DenseSample
from segpaste.viz.structures.pictures import (
    Pictures,
    Request,
    from_cxcywh,
    has_keys,
    on_cpu,
    pixels,
    sample_of,
    scaled_points,
)


def is_yolo(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``img``, ``cls``, ``bboxes`` and ``batch_idx``."""
    return has_keys(batch, "img", "cls", "bboxes", "batch_idx")


def of_yolo(batch: Mapping[str, Any], request: Request) -> Pictures:
    """Return the images of a batch of Ultralytics.

    Masks are maps with the value i + 1 at the i-th object of an image, or one mask per object; smaller ones are
    enlarged without smoothing. ``sem_masks`` are not shown.

    Raises:
        ValueError: the image of an object is not in the batch.
    """
    rows = _checked_rows(on_cpu(batch["batch_idx"]).reshape(-1), len(batch["img"]))
    overlap = "masks" in batch and is_overlap(on_cpu(batch["masks"]), rows, len(batch["img"]))
    images = batch["img"]
    return Pictures(len(images), lambda b: _sample(batch, pixels(images[b], request), b, rows == b, overlap))


def _checked_rows(batch_idx: Tensor, batch_size: int) -> Tensor:
    """Return the image of each object, [N] int64."""
    wrong = batch_idx[~((batch_idx >= 0) & (batch_idx < batch_size))]
    if len(wrong):
        raise ValueError(
            f"show: expected batch_idx from 0 to {batch_size - 1}, the index of an object's image in the batch of "
            f"{batch_size}, got {wrong[0].item():g}; number the images of each batch from 0"
        )
    return batch_idx.long()


def is_overlap(masks: Tensor, rows: Tensor, batch_size: int) -> bool:
    """Return whether masks are one map per image, and not one mask per object.

    Args:
        masks: [B or N, h, w].
        rows: image of each object, int64 [N].
        batch_size: number of images, B.
    """
    if len(masks) != len(rows):
        return True
    if len(masks) != batch_size:
        return False
    empty = torch.bincount(rows, minlength=batch_size) == 0  # the map of an image without objects is empty
    return not bool(masks[empty].any())


def _sample(batch: Mapping[str, Any], image: Tensor, b: int, own: Tensor, overlap: bool) -> DenseSample:
    size = (image.shape[-2], image.shape[-1])
    fields: dict[str, Any] = {}
    if "masks" in batch:
        masks = on_cpu(batch["masks"])
        numbers = torch.arange(1, int(own.sum()) + 1, device="cpu")[:, None, None]
        masks = masks[b] == numbers if overlap else masks[own] > 0
        fields["masks"] = (
            interpolate(masks[None].float(), size, mode="nearest-exact")[0] if len(masks) else masks.new_zeros(0, *size)
        )
    if "keypoints" in batch:
        fields["keypoints"] = scaled_points(on_cpu(batch["keypoints"])[own], size)
    return sample_of(
        image, on_cpu(batch["cls"]).reshape(-1)[own], boxes=from_cxcywh(on_cpu(batch["bboxes"])[own], size), **fields
    )
