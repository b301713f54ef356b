"""A model that owns the augmentation, and what its schedule holds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from samples import EVERY_OBJECT, SCHEMA
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import PanopticConfig

SAVED: dict[str, Any] = {"paste_prob": 0.25, "k_range": (1, 2), "class_temperature": 0.5}


class Model(nn.Module):
    def __init__(self, *, is_changed: bool = False) -> None:
        super().__init__()
        panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "contact_priority": {1: 1}})
        placement = {"paste_prob": 1.0, "layers": 3, "grouping": "instance", "class_sizes": {1: {"low": 3, "high": 5}}}
        self.augment = BatchCopyPaste(
            BatchCopyPasteConfig(placement=placement, panoptic=panoptic, source=EVERY_OBJECT)  # type: ignore[arg-type]
        )
        self.head = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2))
        if is_changed:
            self.augment.schedule.set(paste_prob=0.25, k_range=(1, 2), class_temperature=0.5)

    def forward(self, batch: PaddedBatchedDenseSample) -> Tensor:
        found: Tensor = self.head(self.augment(batch).images.float())
        return found


def held(model: nn.Module) -> dict[str, object]:
    schedule = model.augment.schedule
    assert isinstance(schedule, nn.Module)
    return {name: getattr(schedule, name) for name in SAVED}


def fill_freed_memory() -> None:
    """Free tensors of large numbers, of the sizes of the module's tables, so that new memory is not zero by chance."""
    junk = [torch.full((n,), 1 << 40, dtype=torch.int64) for n in (4, 257, 257, 6) for _ in range(50)]
    del junk
