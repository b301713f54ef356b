"""segpaste's own containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from segpaste.types import FIELDS, BatchedDenseSample, DenseSample, PaddedBatchedDenseSample
from segpaste.viz.structures.pictures import Pictures, Request, is_list, on_cpu


def is_padded(batch: object) -> bool:
    """Return whether a batch is a padded one."""
    return isinstance(batch, PaddedBatchedDenseSample)


def of_padded(batch: PaddedBatchedDenseSample, request: Request) -> Pictures:
    """Return the samples of a padded batch, without the slots that have no instance."""
    pasted = None
    if request.pasted is not None:
        flags = _flags_of(batch, request.pasted)
        pasted = [row[valid] for row, valid in zip(flags, on_cpu(batch.instance_valid), strict=True)]
    return Pictures(batch.batch_size, partial(_of_row, batch), pasted=pasted)


def _of_row(batch: PaddedBatchedDenseSample, b: int) -> DenseSample:
    columns = {field.batched_name: getattr(batch, field.batched_name) for field in FIELDS}
    own: dict[str, Any] = {name: on_cpu(value[b : b + 1]) for name, value in columns.items() if value is not None}
    if own["images"].dtype != torch.uint8:
        own["images"] = own["images"].float()
    return replace(batch, **own).to_batched().to_samples()[0]


def _flags_of(batch: PaddedBatchedDenseSample, pasted: object) -> torch.Tensor:
    shape = (batch.batch_size, batch.max_instances)
    if not isinstance(pasted, torch.Tensor) or pasted.dtype != torch.bool or tuple(pasted.shape) != shape:
        came = f"{pasted.dtype} {list(pasted.shape)}" if isinstance(pasted, torch.Tensor) else type(pasted).__name__
        raise ValueError(
            f"show: pasted: expected bool {list(shape)}, a flag for each slot of the batch such as "
            f"report.slot_layer >= 0, got {came.removeprefix('torch.')}"
        )
    return on_cpu(pasted)


def is_ragged(batch: object) -> bool:
    """Return whether a batch is a ragged one."""
    return isinstance(batch, BatchedDenseSample)


def of_ragged(batch: BatchedDenseSample, _: Request) -> Pictures:
    """Return the samples of a ragged batch."""
    samples = batch.to_samples()
    return Pictures(len(samples), lambda b: samples[b].to("cpu"))


def is_sample(batch: object) -> bool:
    """Return whether a batch is a single sample."""
    return isinstance(batch, DenseSample)


def of_sample(batch: DenseSample, _: Request) -> Pictures:
    """Return the sample."""
    return Pictures(1, lambda _: batch.to("cpu"))


def is_sample_list(batch: object) -> bool:
    """Return whether a batch is a list of samples."""
    return is_list(batch, DenseSample)


def of_sample_list(batch: Sequence[DenseSample], _: Request) -> Pictures:
    """Return the samples of a list, which may differ in size."""
    return Pictures(len(batch), lambda b: batch[b].to("cpu"))
