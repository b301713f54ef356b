"""Padding of a batch on the right and at the bottom, up to whole patches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.types import FIELDS, PaddedBatchedDenseSample


def padded_to_multiple(batch: PaddedBatchedDenseSample, multiple: int) -> PaddedBatchedDenseSample:
    """Pad the batch to a canvas whose sides are multiples of ``multiple`` pixels; return it as is if they are already.

    Image pixels are reflected into the padding, so that a patch across the border contains no hard edge. All other
    fields hold their padding values there, and the padding mask is True there.
    """
    height, width = batch.canvas_size
    bottom, right = -height % multiple, -width % multiple
    if bottom == 0 and right == 0:
        return batch
    values: dict[str, Any] = {}
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if field.name == "padding_mask" and value is None:
            value = torch.zeros(batch.batch_size, 1, height, width, dtype=torch.bool, device=batch.device)
        if value is None or field.resample is None:
            continue
        if field.resample == "filter":
            values[field.batched_name] = _mirrored(value, bottom, right)
        else:
            fill = 0.0 if math.isnan(field.pad_value) else field.pad_value  # missing depth is 0 in a batch
            values[field.batched_name] = F.pad(value, [0, right, 0, bottom], value=fill)
    return batch.derived(**values)


def _mirrored(images: Tensor, bottom: int, right: int) -> Tensor:
    """Extend images [B, C, H, W] by reflection at the edge pixel, repeatedly where they are small."""
    is_last = not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last)
    order = torch.channels_last if is_last else torch.contiguous_format
    for dim, extra in ((2, bottom), (3, right)):
        size = images.shape[dim]
        steps = torch.arange(size + extra, device=images.device) % max(2 * size - 2, 1)
        images = images.index_select(dim, torch.minimum(steps, 2 * size - 2 - steps))
    return images.contiguous(memory_format=order)
