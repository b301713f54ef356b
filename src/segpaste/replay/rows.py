"""Conversion of one image to a batch of one row and back, without a copy of large fields.

Masks [N, H, W] of a large image take many times its memory. Most of their pixels are zeros, and zeros that were never
written take no memory, so only the boxes of masks are written here.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from segpaste.datasets.formats.rle import write_mask
from segpaste.seeding import SampleKey, key_tensors
from segpaste.types import CameraIntrinsics, DenseSample, PaddedBatchedDenseSample
from segpaste.types.fields import SAMPLE_FIELDS, flags_of

_LARGE_BYTES = 64 << 20


def one_row(sample: DenseSample, num_slots: int, key: SampleKey) -> PaddedBatchedDenseSample:
    """Return a batch of one sample; its dense fields are those of the sample, not copies.

    Args:
        sample: sample with at most ``num_slots`` instances.
        num_slots: number of instance slots, K.
        key: key of the sample.
    """
    num, values = sample.num_instances, flags_of(sample)
    for field in SAMPLE_FIELDS:
        if (value := getattr(sample, field.name)) is None:
            continue
        if isinstance(value, CameraIntrinsics):
            values[field.batched_name] = value.to_tensor()[None]
            continue
        plain: Tensor = value.as_subclass(Tensor)
        if field.layout == "dense":
            values[field.batched_name] = plain[None].contiguous()
            continue
        slots = untouched_zeros((1, num_slots, *plain.shape[1:]), plain.dtype)
        if field.name == "instance_masks":
            copy_masks(plain, slots[0, :num])
        else:
            slots[0, :num] = plain
        values[field.batched_name] = slots
    values["instance_valid"] = torch.arange(num_slots, device="cpu")[None] < num
    return PaddedBatchedDenseSample(**values, **key_tensors([key]))


def row_sample(batch: PaddedBatchedDenseSample, b: int = 0) -> DenseSample:
    """Return one row of a batch; the masks of the batch are moved to its first slots, not copied."""
    values = flags_of(batch)
    slots = torch.nonzero(batch.instance_valid[b]).flatten()
    for field in SAMPLE_FIELDS:
        column: Tensor | None = getattr(batch, field.batched_name)
        if column is None:
            continue
        if field.layout == "image":
            values[field.name] = CameraIntrinsics.from_tensor(column[b])
        elif field.layout == "dense":
            values[field.name] = field.wrapped(column[b], batch.canvas_size)
        else:
            rows = _moved_up(column[b], slots.tolist()) if field.name == "instance_masks" else column[b][slots]
            values[field.name] = field.wrapped(rows, batch.canvas_size)
    return DenseSample(**values)


def untouched_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return zeros in memory that the system provides only when it is written."""
    return torch.from_numpy(np.zeros(shape, torch.empty(0, dtype=dtype, device="cpu").numpy().dtype))


def copy_masks(masks: Tensor, out: Tensor) -> None:
    """Copy masks [N, H, W] into zeros of that shape; for large masks only their boxes."""
    if masks.nbytes < _LARGE_BYTES:
        out.copy_(masks)
        return
    for mask, zeros in zip(masks.numpy(), out.numpy(), strict=True):
        write_mask(mask, zeros)


def _moved_up(masks: Tensor, slots: list[int]) -> Tensor:
    """Return the masks in these slots, ascending, of [K, H, W], moved to its first slots."""
    if masks.nbytes < _LARGE_BYTES:
        return masks[slots]
    planes = masks.numpy()
    for place, slot in enumerate(slots):
        if place != slot:
            planes[place][planes[place]] = False
            write_mask(planes[slot], planes[place])
    return masks[: len(slots)]
