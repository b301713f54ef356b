"""A model of DistributedDataParallel that contains the augmentation, whose schedule differs between the ranks.

With two CUDA devices the ranks are joined by NCCL, each on a device of its own, else by gloo on the CPU.
"""

from __future__ import annotations

from pathlib import Path

import torch
from runs_world import Written
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from samples import EVERY_OBJECT, SCHEMA, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig
from segpaste.types import PaddedBatchedDenseSample

PROBABILITIES = (0.25, 0.75)
"""Of a paste, on each rank."""


class Augmented(nn.Module):
    """A convolution with a norm, whose buffers are broadcast, on augmented images."""

    def __init__(self) -> None:
        super().__init__()
        rules = PanopticConfig.model_validate({"taxonomy": SCHEMA, "contact_priority": {1: 1}})
        self.augment = BatchCopyPaste(
            BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=rules, source=EVERY_OBJECT)
        )
        self.head = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))

    def forward(self, batch: PaddedBatchedDenseSample) -> Tensor:
        out: Tensor = self.head(self.augment(batch).images).mean()
        return out


def main(folder: Path, rank: int) -> None:
    """Train two steps; write down what of the module is broadcast, and the schedule at the end."""
    on_cards = torch.cuda.device_count() >= len(PROBABILITIES)
    device = torch.device("cuda", rank) if on_cards else torch.device("cpu")
    group = distributed.new_group(backend="nccl") if on_cards else None
    with Written(folder, "ddp-apart", rank) as written:
        augmented = Augmented().to(device)
        augmented.augment.schedule.set(paste_prob=PROBABILITIES[rank], k_range=(1, 1 + rank))
        model = DistributedDataParallel(augmented, process_group=group)
        for seed in range(2):
            model(make_batch(2, image_dtype=torch.float32, seed=10 * rank + seed).to(device)).backward()
        schedule = augmented.augment.schedule
        written.facts = {
            "broadcast": [name for name, _ in augmented.named_buffers()],
            "paste_prob": schedule.paste_prob,
            "k_range": list(schedule.k_range),
            "on_device": schedule.limits.device == device,
        }
