"""Conversion of one image to a batch of one row and back, in as few passes over its pixels as possible.

Masks [N, H, W] of a large image take many times its memory. Most of their pixels are zeros, and zeros that were never
written take no memory, so only the boxes of masks are written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from segpaste._pixels import write_mask
from segpaste.seeding import SampleKey, key_tensors
from segpaste.types import check
from segpaste.types.batches import PaddedBatchedDenseSample
from segpaste.types.dense import DenseSample
from segpaste.types.fields import SAMPLE_FIELDS, flags_of
from segpaste.types.tensors import CameraIntrinsics, untouched

_LARGE_BYTES = 64 << 20


def one_row(sample: DenseSample, num_slots: int, key: SampleKey | None = None) -> PaddedBatchedDenseSample:
    """Return a batch of one sample; its dense fields are those of the sample, not copies.

    Args:
        sample: sample with at most ``num_slots`` instances.
        num_slots: number of instance slots, K.
        key: key of a sample on the CPU; without one the batch has neither keys nor seeds.

    Raises:
        ValueError: the image has padding on its left or top.
    """
    return _row(sample, num_slots, key, Tensor.contiguous)


def own_row(sample: DenseSample, num_slots: int, key: SampleKey | None = None) -> PaddedBatchedDenseSample:
    """Return `one_row` with copies of the dense fields, which keep their memory format, for a paste in place."""
    return _row(sample, num_slots, key, Tensor.clone)


def _row(
    sample: DenseSample, num_slots: int, key: SampleKey | None, dense: Callable[[Tensor], Tensor]
) -> PaddedBatchedDenseSample:
    """Return a batch of one sample whose dense fields come from a function of those of the sample, [1, ...] each.

    It is not validated again: a sample has been, and here only the devices of its fields could differ.
    """
    if sample.padding_mask is not None:
        check.check_padding("one_row: padding_mask", sample.padding_mask.as_subclass(Tensor))
    num, device, values = sample.num_instances, sample.image.device, flags_of(sample)
    for field in SAMPLE_FIELDS:
        if (value := getattr(sample, field.name)) is None:
            continue
        if isinstance(value, CameraIntrinsics):
            values[field.batched_name] = value.to_tensor()[None].to(device)
            continue
        plain: Tensor = value.as_subclass(Tensor)
        if field.layout == "dense":
            _expect_device(f"one_row: {field.name}", plain, device)
            values[field.batched_name] = dense(plain[None])
            continue
        if field.name == "instance_masks":
            slots = masks_in_slots(plain, num_slots, device)
        else:
            slots = torch.zeros(num_slots, *plain.shape[1:], dtype=plain.dtype, device=device)
            slots[:num] = plain
        values[field.batched_name] = slots[None]
    values["instance_valid"] = torch.arange(num_slots, device=device)[None] < num
    keys: dict[str, Any] = {} if key is None else {**key_tensors([key])}
    return PaddedBatchedDenseSample._unchecked({**values, **keys})


def _expect_device(label: str, value: Tensor, device: torch.device) -> None:
    if value.device != device:
        raise ValueError(f"{label}: expected device {device}, the image's, got {value.device}")


def row_sample(batch: PaddedBatchedDenseSample, b: int = 0) -> DenseSample:
    """Return one row of a valid batch, not validated again, which may share its memory.

    Large masks are moved to the first slots of the batch.
    """
    values = flags_of(batch)
    slots = batch.instance_valid[b].nonzero()[:, 0]
    for field in SAMPLE_FIELDS:
        column: Tensor | None = getattr(batch, field.batched_name)
        if column is None:
            continue
        if field.layout == "image":
            values[field.name] = CameraIntrinsics.from_tensor(column[b])
        elif field.layout == "dense":
            values[field.name] = field.wrapped(column[b], batch.canvas_size)
        else:
            own, are_masks = column[b], field.name == "instance_masks"
            rows = _moved_up(own, slots.tolist()) if are_masks and _are_large(own) else kept_slots(own, slots)
            values[field.name] = field.wrapped(rows, batch.canvas_size)
    return DenseSample._unchecked(values)


def masks_in_slots(masks: Tensor, num_slots: int, device: torch.device) -> Tensor:
    """Return masks [N, H, W] as the first of [K, H, W], the others empty; of many pixels only the boxes are copied."""
    num, shape = len(masks), (num_slots, *masks.shape[1:])
    if device.type == "cpu" and math.prod(shape) >= _LARGE_BYTES:
        slots = untouched(shape, torch.bool)
        for mask, zeros in zip(masks.numpy(), slots.numpy(), strict=False):
            write_mask(mask, zeros)
        return slots
    slots = torch.empty(shape, dtype=torch.bool, device=device)
    slots[:num], slots[num:] = masks, False
    return slots


def kept_slots(column: Tensor, slots: Tensor) -> Tensor:
    """Return the entries [N, ...] in these slots, ascending, of [K, ...]: without a copy if they are all."""
    return column if len(slots) == len(column) else column[slots]


def _are_large(masks: Tensor) -> bool:
    return masks.nbytes >= _LARGE_BYTES and masks.is_cpu


def _moved_up(masks: Tensor, slots: list[int]) -> Tensor:
    """Return the masks in these slots, ascending, of [K, H, W], moved to its first slots."""
    planes = masks.numpy()
    for place, slot in enumerate(slots):
        if place != slot:
            planes[place][planes[place]] = False
            write_mask(planes[slot], planes[place])
    return masks[: len(slots)]
