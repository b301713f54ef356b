"""The fields of a batch as an engine writes them: room for new ones, and writing into the batch's own."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.records import WRITTEN
from segpaste.types import PaddedBatchedDenseSample

PLANES = ("images", "instance_masks", "semantic_maps", "panoptic_maps", "depth", "depth_valid", "normals")
"""Fields of pixels that a paste changes."""

ROWS = ("boxes", "labels", "instance_ids", "instance_valid")
"""Fields of instances that a paste changes."""


def empty_plane(name: str, like: Tensor) -> Tensor:
    """Room for an output plane in row-major order; images stay channels last if ``like`` is (and only so)."""
    last = name == "images" and not like.is_contiguous() and like.is_contiguous(memory_format=torch.channels_last)
    if not last:
        return torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return torch.empty(like.shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)


def present_planes(batch: PaddedBatchedDenseSample) -> dict[str, Tensor]:
    """The planes that a batch has, by name."""
    return {name: plane for name in PLANES if (plane := getattr(batch, name)) is not None}


def written_fields(batch: PaddedBatchedDenseSample) -> dict[str, Tensor]:
    """The fields that a batch has and a paste changes, by name."""
    return {name: tensor for name in WRITTEN if (tensor := getattr(batch, name)) is not None}


def can_be_written(batch: PaddedBatchedDenseSample) -> bool:
    """Whether an engine may write into the tensors of a batch: no gradient asked for, in an order that it knows."""
    return all(
        not tensor.requires_grad
        and (tensor.is_contiguous() or (name == "images" and tensor.is_contiguous(memory_format=torch.channels_last)))
        for name, tensor in written_fields(batch).items()
    )


def memory_span(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses of the first byte of a tensor's values and of the byte after the last."""
    if tensor.is_contiguous():
        return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (steps + 1) * tensor.element_size()


def write_back(batch: PaddedBatchedDenseSample, out: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """The batch with the values of another one in its own tensors."""
    for name, own in written_fields(batch).items():
        new: Tensor | None = getattr(out, name)
        if new is not None and new is not own:
            own.copy_(new)
    return batch
