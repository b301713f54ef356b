"""Batches, modules and the results of every backend."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from samples import CPU_BACKENDS, EVERY_OBJECT, SCHEMA, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

DEVICE = os.environ.get("SEGPASTE_TEST_DEVICE")
"""Where the Triton kernels run too, such as cuda, and their results are compared with those of the CPU; see
``scripts/check_gpu.sh``. The interpreter takes cpu."""

BACKENDS = CPU_BACKENDS if DEVICE is None else (*CPU_BACKENDS, "triton")

roomy_batch = partial(make_batch, batch_size=4, size=(31, 37), max_instances=8, value_range=(0, 85))
"""With a free slot or more."""


def module(source: Any = None, panoptic: dict[str, Any] | None = None, **placement: Any) -> BatchCopyPaste:
    """Two layers at many scales, with a taxonomy and little stuff to lose; ``placement`` may say otherwise."""
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 8, **(panoptic or {})})
    placement = {"paste_prob": 1.0, "layers": 2, "scale_range": (0.4, 2.0), "max_attempts": 4, **placement}
    return BatchCopyPaste(
        BatchCopyPasteConfig(placement=PlacementConfig(**placement), panoptic=rules, source=EVERY_OBJECT), source
    )


def outcomes(batch: PaddedBatchedDenseSample, paste: BatchCopyPaste, backends: Sequence[str] = BACKENDS) -> list[Any]:
    """The output and the report by each backend, by default those that run on the CPU, the reference first."""
    home = batch.device
    found = []
    for name in backends:
        with use_backend(name), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
            on = batch if name != "triton" or DEVICE is None else batch.to(DEVICE)
            found.append(tuple(part.to(home) for part in paste(on, return_report=True)))
    return found
