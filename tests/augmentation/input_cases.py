"""Pastes of batches of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from samples import EVERY_OBJECT, SCHEMA, Pasted, all_modality_subsets, paste, subset_id
from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.types import Modality, PaddedBatchedDenseSample

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]
PANOPTIC = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 0, "tau_stuff_frac": 0})
SMALL = PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.0))
INSTANCE = frozenset({Modality.INSTANCE})


def paste_with(batch: PaddedBatchedDenseSample, placement: PlacementConfig = SMALL, **options: Any) -> Pasted:
    """A paste by a config with the taxonomy of all samples, unless the options give another one."""
    return paste(
        batch, BatchCopyPasteConfig(placement=placement, **{"panoptic": PANOPTIC, "source": EVERY_OBJECT, **options})
    )
