"""Pasting into the batch's own tensors: which of them are written, whether they can be, and how."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config import BatchCopyPasteConfig
from segpaste.types import PaddedBatchedDenseSample

WRITTEN = (
    "images",
    "boxes",
    "labels",
    "instance_valid",
    "instance_ids",
    "instance_masks",
    "semantic_maps",
    "panoptic_maps",
    "depth",
    "depth_valid",
    "normals",
)
"""The fields that a paste changes."""


def check_writable(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
    """Every tensor that a paste in place would write can be written, so that none is before another fails.

    Raises:
        ValueError: the config asks for more slots or a larger canvas than the batch has, or tensors share memory.
        RuntimeError: a tensor is a leaf of a graph of gradients.
    """
    max_instances, multiple = config.max_instances, config.placement.pad_to_multiple
    if multiple is not None and any(size % multiple for size in batch.canvas_size):
        raise ValueError(
            f"BatchCopyPaste: expected a canvas whose sides are multiples of pad_to_multiple={multiple} because "
            f"inplace=True, got {batch.canvas_size}; pad the batch to that, or leave inplace out"
        )
    if max_instances is not None and max_instances > batch.max_instances:
        raise ValueError(
            f"BatchCopyPaste: expected at most the batch's {batch.max_instances} slots in max_instances because "
            f"inplace=True, got {max_instances}; pad the batch to that many, or leave inplace out"
        )
    if torch.compiler.is_compiling():
        return
    owners: dict[int, str] = {}
    for name, tensor in _written(batch).items():
        if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
            raise RuntimeError(
                f"BatchCopyPaste: expected no leaf tensor that requires grad because inplace=True, got one in {name}; "
                "detach it, or leave inplace out"
            )
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
            raise ValueError(
                f"BatchCopyPaste: expected a place in memory for every value because inplace=True, got {name} expanded "
                "from fewer; make it contiguous, or leave inplace out"
            )
        if tensor.numel() and owners.setdefault(tensor.data_ptr(), name) != name:
            raise ValueError(
                f"BatchCopyPaste: expected fields that share no memory because inplace=True, got {name} at the place "
                f"of {owners[tensor.data_ptr()]}; clone one of them, or leave inplace out"
            )


def can_be_written(batch: PaddedBatchedDenseSample) -> bool:
    """Whether kernels may write into a batch: eager, no gradient asked for, in an order that they know."""
    return not torch.compiler.is_compiling() and all(
        not tensor.requires_grad
        and (tensor.is_contiguous() or (name == "images" and tensor.is_contiguous(memory_format=torch.channels_last)))
        for name, tensor in _written(batch).items()
    )


def written_back(batch: PaddedBatchedDenseSample, out: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """The batch with the output's values in its own tensors; what is written there already stays as it is."""
    for name, own in _written(batch).items():
        new: Tensor | None = getattr(out, name)
        if new is own:
            torch.autograd.graph.increment_version(own)  # autograd did not see the kernels write
        elif new is not None:
            own.copy_(new)
    return batch


def _written(batch: PaddedBatchedDenseSample) -> dict[str, Tensor]:
    return {name: tensor for name in WRITTEN if (tensor := getattr(batch, name)) is not None}
