"""Two images of one size with objects, as a batch: each is pasted into the other, by us and by another library."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from segpaste import BatchCopyPaste, get_preset
from segpaste.augmentation import PasteReport
from segpaste.types import PaddedBatchedDenseSample, tight_boxes

SIDE = 72
SLOTS = 24


def pair(seed: int, most: int, *, filled: bool) -> PaddedBatchedDenseSample:
    """Return two images with up to ``most`` objects each: filled boxes, or any pixels of them; some overlap."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((2, SLOTS, SIDE, SIDE), bool)
    valid = np.zeros((2, SLOTS), bool)
    sides = [4, 9, 16, 25, 38] if filled else [9, 16, 25, 38, 50]
    for b in range(2):
        for k in range(int(rng.integers(1, most + 1))):
            width, height = (int(rng.choice(sides)) for _ in range(2))
            x, y = int(rng.integers(0, SIDE - width + 1)), int(rng.integers(0, SIDE - height + 1))
            masks[b, k, y : y + height, x : x + width] = filled or rng.random((height, width)) < 0.9
            valid[b, k] = True
    found = torch.from_numpy(masks)
    instance_valid = torch.from_numpy(valid)
    return PaddedBatchedDenseSample(
        torch.from_numpy(rng.integers(0, 256, (2, 3, SIDE, SIDE), dtype=np.uint8)),
        torch.stack([tight_boxes(rows) for rows in found]),
        torch.from_numpy(rng.integers(0, 9, (2, SLOTS))) * instance_valid,
        instance_valid=instance_valid,
        instance_ids=torch.arange(1, SLOTS + 1, dtype=torch.int32).repeat(2, 1) * instance_valid,
        instance_masks=found,
        sample_seeds=torch.tensor([2 * seed, 2 * seed + 1]),
    )


def pasted(
    batch: PaddedBatchedDenseSample, preset: str, **changes: Any
) -> tuple[PaddedBatchedDenseSample, PasteReport]:
    return BatchCopyPaste(get_preset(preset).config_for(**changes))(batch, return_report=True)


def drawn_slots(report: PasteReport, target: int) -> list[int]:
    """Return the slots of the source that were pasted, in their order in the output."""
    pastes = report.slot_layer[target] >= 0
    return [int(slot) for slot in report.slot_source[target][pastes]]


def rows(masks: Any, boxes: Any, labels: Any) -> set[tuple[bytes, tuple[float, ...], int]]:
    """Return instances as a set: pixels, box and class."""
    pixels, edges, classes = (np.asarray(values) for values in (masks, boxes, labels))
    listed = zip(pixels.astype(bool), edges.astype(float).tolist(), classes.astype(int).tolist(), strict=True)
    return {(mask.tobytes(), tuple(box), label) for mask, box, label in listed}
