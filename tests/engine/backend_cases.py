"""Batches, modules and what every backend makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from samples import CPU_BACKENDS, EVERY_OBJECT, SCHEMA, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

roomy_batch = partial(make_batch, batch_size=4, size=(31, 37), max_instances=8, value_range=(0, 85))
"""With a free slot or more."""


def module(source: Any = None, panoptic: dict[str, Any] | None = None, **placement: Any) -> BatchCopyPaste:
    """Two layers at many scales, with a taxonomy and little stuff to lose; ``placement`` may say otherwise."""
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 8, **(panoptic or {})})
    placement = {"layers": 2, "scale_range": (0.4, 2.0), "max_attempts": 4, **placement}
    return BatchCopyPaste(
        BatchCopyPasteConfig(placement=PlacementConfig(**placement), panoptic=rules, source=EVERY_OBJECT), source
    )


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
