"""Checks for pasting into the batch's own tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.engine.planes import changed_fields, memory_span
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.tracing import is_traced


def check_writable(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
    """Check that every tensor that a paste in place would write can be written. No tensor is written here.

    Compiled code checks sizes and strides only.
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
    written = changed_fields(batch)
    for name, tensor in written.items():
        if not _has_own_places(tensor):
            raise ValueError(
                "BatchCopyPaste: expected no expanded tensors, whose values share memory, because inplace=True, got "
                f"{name}; call .contiguous() on it, or leave inplace out"
            )
    if is_traced():
        return
    for name, tensor in written.items():
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(
                f"BatchCopyPaste: expected no inference tensor outside of inference mode because inplace=True, got "
                f"{name}; clone it, or leave inplace out"
            )
    _check_apart(batch, written)


def _check_apart(batch: PaddedBatchedDenseSample, written: dict[str, Tensor]) -> None:
    """Check that no written field shares memory with another field; fields with interleaved values count as sharing."""
    read = ((name, getattr(batch, name)) for name in ("padding_mask", "camera_intrinsics", "sample_seeds"))
    spans = [(*memory_span(t), name) for name, t in [*written.items(), *read] if t is not None and t.numel()]
    last_end, last = 0, ""
    for start, end, name in sorted(spans):
        if start < last_end and not {name, last}.isdisjoint(written):
            raise ValueError(
                f"BatchCopyPaste: expected fields that share no memory because inplace=True, got {name} in the memory "
                f"of {last}; clone one of them, or leave inplace out"
            )
        last_end, last = max((last_end, last), (end, name))


def _has_own_places(tensor: Tensor) -> bool:
    """Return whether no two values share a place in memory."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return True
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return False
            reach = (size - 1) * stride + reach
    return True
