"""Pastes of batches of every kind."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from samples import SCHEMA, all_modality_subsets, subset_id
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PanopticConfig, PasteReport, PlacementConfig
from segpaste.types import Modality, PaddedBatchedDenseSample

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]
PANOPTIC = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 0, "tau_stuff_frac": 0})
SMALL = PlacementConfig(scale_range=(0.5, 1.0))
INSTANCE = frozenset({Modality.INSTANCE})


def paste(
    batch: PaddedBatchedDenseSample, placement: PlacementConfig = SMALL, **options: Any
) -> tuple[PaddedBatchedDenseSample, PasteReport]:
    """The output and the report; that nothing was pasted is for the test to know."""
    config = BatchCopyPasteConfig(placement=placement, panoptic=options.pop("panoptic", PANOPTIC), **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
        return BatchCopyPaste(config)(batch, return_report=True)
