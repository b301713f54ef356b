"""Allocation of the fields that an engine writes, and writes into the tensors of an existing batch."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import torch
from torch import Tensor

from segpaste.types import FIELDS, PaddedBatchedDenseSample

PLANES = tuple(field.batched_name for field in FIELDS if field.paste == "painted")
"""Fields of pixels that an engine writes, in the order of ``records.hpp``."""

ROWS = tuple(field.batched_name for field in FIELDS if field.paste == "listed")
"""Fields of instances that an engine writes, in the order of ``records.hpp``."""

SHORT_NAMES: Final = {
    "instance_masks": "masks",
    "semantic_maps": "semantic",
    "panoptic_maps": "panoptic",
    "padding_mask": "padding",
    "instance_ids": "ids",
    "instance_valid": "valid",
}
"""Names of fields in native code and kernels, if they differ."""

WRITTEN = (*PLANES, *ROWS)
"""Fields that an engine writes."""

CHANGED = tuple(field.batched_name for field in FIELDS if field.paste is not None)
"""Fields that a paste changes."""


def empty_plane(name: str, like: Tensor) -> Tensor:
    """Allocate an output plane in row-major order, or channels-last for images that are in that order only."""
    last = name == "images" and not like.is_contiguous() and is_channels_last(like)
    if not last:
        return torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return torch.empty(like.shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)


def present_planes(batch: PaddedBatchedDenseSample) -> dict[str, Tensor]:
    """Return the planes that a batch has, by name."""
    return _present(batch, PLANES)


def _present(batch: PaddedBatchedDenseSample, names: Iterable[str]) -> dict[str, Tensor]:
    return {name: tensor for name in names if (tensor := getattr(batch, name)) is not None}


def written_fields(batch: PaddedBatchedDenseSample) -> dict[str, Tensor]:
    """Return the fields that a batch has and an engine writes, by name."""
    return _present(batch, WRITTEN)


def changed_fields(batch: PaddedBatchedDenseSample) -> dict[str, Tensor]:
    """Return the fields that a batch has and a paste changes, by name."""
    return _present(batch, CHANGED)


def is_channels_last(images: Tensor) -> bool:
    """Return whether images are dense in channels-last order."""
    return images.is_contiguous(memory_format=torch.channels_last)


_WRITTEN_OF = attrgetter(*WRITTEN)


def can_be_written(batch: PaddedBatchedDenseSample) -> bool:
    """Return whether an engine may write into a batch: no tensor requires grad, and all are in a supported order."""
    images, *others = _WRITTEN_OF(batch)
    if images.requires_grad or not (images.is_contiguous() or is_channels_last(images)):
        return False
    return all(t is None or (t.is_contiguous() and not t.requires_grad) for t in others)


def memory_span(tensor: Tensor) -> tuple[int, int]:
    """Return the address of the first byte of a tensor's values, and of the byte after the last."""
    start = tensor.data_ptr()
    if tensor.is_contiguous():
        return start, start + tensor.nbytes
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (steps + 1) * tensor.element_size()


def share_memory(some: Iterable[Tensor | None], others: Iterable[Tensor | None]) -> bool:
    """Return whether some tensor of one list overlaps in memory with some tensor of the other."""
    spans, other_spans = ([memory_span(t) for t in ts if t is not None and t.numel()] for ts in (some, others))
    return any(
        start < other_end and other_start < end for start, end in spans for other_start, other_end in other_spans
    )


def write_back(batch: PaddedBatchedDenseSample, out: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Copy the values of ``out`` into the tensors of ``batch``, and return ``batch``."""
    for name, own in changed_fields(batch).items():
        new: Tensor | None = getattr(out, name)
        if new is not None and new is not own:
            own.copy_(new)
    return batch
