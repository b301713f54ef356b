"""One of every record that users receive."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from samples import EVERY_IMAGE, make_batch, make_sample, make_samples
from segpaste import BatchCopyPaste
from segpaste.augmentation import PasteSummary
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample, StagedCrops

FULL: dict[str, Any] = {"metric_depth": True, "padding": (2, 1)}
"""Options of samples with every field."""

RECORDS = ("sample", "ragged", "padded", "staged", "report", "placement", "summary")


def full_batch(**options: Any) -> PaddedBatchedDenseSample:
    """A padded batch with every field; K = 5 slots for 3, 1 and 2 instances."""
    batch = make_batch(**FULL, keypoints=True, crowd=True, **options)
    return dataclasses.replace(batch, sample_keys=torch.arange(5 * batch.batch_size).view(-1, 5))


def make_records() -> dict[str, Any]:
    """A record of each kind, by the names in ``RECORDS``."""
    batch = full_batch()
    _, report = BatchCopyPaste(EVERY_IMAGE)(batch, return_report=True)
    return {
        "sample": make_sample(**FULL),
        "ragged": BatchedDenseSample.from_samples(make_samples(2, **FULL)),
        "padded": batch,
        "staged": _staged(),
        "report": report,
        "placement": report.placement,
        "summary": PasteSummary.of(report),
    }


def _staged() -> StagedCrops:
    return StagedCrops(
        images=torch.zeros(2, 3, 3, 4, 5, dtype=torch.uint8),
        alphas=torch.ones(2, 3, 1, 4, 5, dtype=torch.bool),
        class_ids=torch.ones(2, 3, dtype=torch.int64),
        boxes=torch.tensor([0, 0, 5, 4]).expand(2, 3, 4).clone(),
        crop_idx=torch.arange(6).reshape(2, 3),
        version="abc",
    )
