"""Images of a batch that are left out after the draws: nothing is tried for them."""

from __future__ import annotations

from dataclasses import fields, replace

import torch
from torch import Tensor

from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.schedule import Schedule
from segpaste.engine import Drawn
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none


def left_out(batch: PaddedBatchedDenseSample, config: PlacementConfig, schedule: Schedule) -> Tensor | None:
    """Return the images into which nothing may be pasted, [B] bool; None if that depends on their draws only.

    Args:
        batch: prepared batch.
        config: options of the placement.
        schedule: current share of the images.
    """
    found = []
    if config.fixed_share:
        found.append(schedule.beyond_share(not_none(batch.sample_seeds)))
    if not config.into_empty:
        found.append(~batch.instance_valid.any(1))
    return torch.stack(found).any(0) if found else None


def without(drawn: Drawn, images: Tensor | None) -> Drawn:
    """Return draws without those of some images, [B] bool."""
    if images is None:
        return drawn
    placement, counts = drawn
    layers = images[:, None]
    placement = replace(
        placement,
        layer_valid=placement.layer_valid & ~layers,
        carried=placement.carried & ~layers[..., None],
    )
    given = {field.name: getattr(counts, field.name) for field in fields(counts)}
    kept = {name: value.masked_fill(images, 0) for name, value in given.items() if value is not None}
    return placement, replace(counts, **kept)
