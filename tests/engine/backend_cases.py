"""Batches, modules and what every backend makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from samples import CPU_BACKENDS, SCHEMA, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample


def module(source: Any = None, panoptic: dict[str, Any] | None = None, **placement: Any) -> BatchCopyPaste:
    """Two layers at many scales, with a taxonomy and little stuff to lose; ``placement`` may say otherwise."""
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 8, **(panoptic or {})})
    placement = {"layers": 2, "scale_range": (0.4, 2.0), "max_attempts": 4, **placement}
    return BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(**placement), panoptic=rules), source)


def outcomes(
    batch: PaddedBatchedDenseSample, paste: BatchCopyPaste, backends: Sequence[str] = CPU_BACKENDS
) -> list[Any]:
    """The output and the report by each backend, by default those that run on the CPU, the reference first."""
    found = []
    for name in backends:
        with use_backend(name), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
            found.append(paste(batch, return_report=True))
    return found


def batch_of(dtype: torch.dtype = torch.uint8, **options: Any) -> PaddedBatchedDenseSample:
    """Images of 31 x 37 pixels with a free slot or more; those of floats have values in 0..85."""
    batch = make_batch(**{"batch_size": 4, "size": (31, 37), "max_instances": 8, **options})
    return batch if dtype == torch.uint8 else replace(batch, images=(batch.images.float() / 3).to(dtype))
