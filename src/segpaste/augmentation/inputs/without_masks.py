"""Targets of crops that have no instance masks: images without objects are pasted into, those with boxes only are not.

A box does not say which pixels its object has. So ``source.mask_from`` must say how masks are made from boxes. Without
it an image of boxes takes no paste and keeps its boxes. Which images these are stays a tensor, so that nothing waits
for the device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.inputs import _slots
from segpaste.engine import Outcome, Survey
from segpaste.engine.planes import ROWS
from segpaste.types import PaddedBatchedDenseSample


class Spared(NamedTuple):
    """Images of boxes without masks.

    Attributes:
        images: [B] bool, the images that take no paste.
        rows: their instance fields before the paste, by name.
    """

    images: Tensor
    rows: dict[str, Tensor]

    def without_room(self, found: Survey) -> Survey:
        """Return a survey in which these images have no free slot."""
        return found._replace(num_free=found.num_free.masked_fill(self.images, 0))

    def restored(self, outcome: Outcome, *, in_place: bool) -> Outcome:
        """Return an outcome in which these images have the instances that they had."""
        fields = {}
        for name, before in self.rows.items():
            after = getattr(outcome.batch, name)
            kept = torch.where(self.images.view(-1, *[1] * (before.ndim - 1)), before, after)
            fields[name] = after.copy_(kept) if in_place else kept
        return outcome._replace(batch=outcome.batch.derived(**fields))


def spared(
    target: PaddedBatchedDenseSample, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig, *, copied: bool
) -> Spared | None:
    """Return the images that take no paste; None if the batch was given with masks, or ``mask_from`` makes them.

    Args:
        target: batch as it was given.
        batch: the same, prepared.
        config: config of the paste.
        copied: True if the batch is about to be overwritten.
    """
    is_ready = target.instance_masks is not None or batch.instance_masks is None or config.emit_classmix
    if is_ready or config.source.mask_from is not None:
        return None
    rows = {name: value for name in ROWS if (value := getattr(batch, name)) is not None}
    rows = {name: value.clone() for name, value in rows.items()} if copied else rows
    return Spared(batch.instance_valid.any(1), rows)


def with_masks_for_crops(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> PaddedBatchedDenseSample:
    """Add empty masks to a batch without masks if crops are pasted; images of boxes get no paste, see `Spared`."""
    is_ready = batch.instance_masks is not None or batch.panoptic_maps is not None
    takes = config.source.kind == "bank" and config.source.mask_from is None and not config.emit_classmix
    return _slots.with_masks_of_no_pixel(batch) if takes and not is_ready else batch
