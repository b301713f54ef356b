"""Extension of a batch: its canvas to the right and below, and its instance slots."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.types import FIELDS, Field, PaddedBatchedDenseSample


def extend(batch: PaddedBatchedDenseSample, canvas_size: tuple[int, int], num_slots: int) -> PaddedBatchedDenseSample:
    """Return a batch with a larger canvas and more instance slots; the batch itself if it has both already.

    Image pixels are reflected into the padding, so that a patch across the border contains no hard edge. All other
    fields hold their padding values there, and the padding mask marks it. The added slots are empty.

    Args:
        batch: B images.
        canvas_size: (H, W), at least those of the batch.
        num_slots: K, at least that of the batch.
    """
    (height, width), extra = batch.canvas_size, num_slots - batch.max_instances
    bottom, right = canvas_size[0] - height, canvas_size[1] - width
    if not (bottom or right or extra):
        return batch
    values: dict[str, Any] = {}
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if field.name == "padding_mask" and value is None and (bottom or right):
            value = torch.zeros(batch.batch_size, 1, height, width, dtype=torch.bool, device=batch.device)
        if value is None:
            continue
        if has_slots(field) and extra:
            value = values[field.batched_name] = F.pad(value, [*[0, 0] * (value.ndim - 2), 0, extra])
        if field.resample is None or not (bottom or right):
            continue
        if field.resample == "filter":
            values[field.batched_name] = _mirrored(value, bottom, right)
        else:
            values[field.batched_name] = F.pad(value, [0, right, 0, bottom], value=fill_of(field))
    return batch.derived(**values)


def has_slots(field: Field) -> bool:
    """Return whether a field of a batch has a row for each instance slot."""
    return field.layout == "instance" or field.name == "instance_valid"


def fill_of(field: Field) -> float:
    """Return the padding value of a field in a batch, where depth that is not there is 0."""
    return 0.0 if math.isnan(field.pad_value) else field.pad_value


def _mirrored(images: Tensor, bottom: int, right: int) -> Tensor:
    """Extend images [B, C, H, W] by reflection at the edge pixel, repeatedly where they are small."""
    is_last = not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last)
    order = torch.channels_last if is_last else torch.contiguous_format
    for dim, extra in ((2, bottom), (3, right)):
        size = images.shape[dim]
        steps = torch.arange(size + extra, device=images.device) % max(2 * size - 2, 1)
        images = images.index_select(dim, torch.minimum(steps, 2 * size - 2 - steps))
    return images.contiguous(memory_format=order)
