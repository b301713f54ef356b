"""Batches to measure on: random rectangles, as many as asked for at most."""

from __future__ import annotations

import torch

from segpaste.types import PaddedBatchedDenseSample


def random_boxes(
    batch_size: int, size: int, max_instances: int, dtype: torch.dtype, seed: int = 0
) -> PaddedBatchedDenseSample:
    """Images of noise with 1 to ``max_instances`` filled rectangles, a sixteenth to a third of a side each.

    Args:
        batch_size: B.
        size: H and W, pixels.
        max_instances: K, also the most instances that an image has.
        dtype: of the images, uint8 (0..255) or float32 (0..1).
        seed: of everything random.
    """
    generator = torch.Generator().manual_seed(seed)
    masks = torch.zeros(batch_size, max_instances, size, size, dtype=torch.bool)
    boxes = torch.zeros(batch_size, max_instances, 4)
    valid = torch.zeros(batch_size, max_instances, dtype=torch.bool)
    for b in range(batch_size):
        for k in range(int(torch.randint(1, max_instances + 1, (), generator=generator))):
            width, height = torch.randint(size // 16, size // 3, (2,), generator=generator).tolist()
            x = int(torch.randint(size - width, (), generator=generator))
            y = int(torch.randint(size - height, (), generator=generator))
            masks[b, k, y : y + height, x : x + width] = True
            boxes[b, k] = torch.tensor([x, y, x + width, y + height])
            valid[b, k] = True
    images = torch.rand(batch_size, 3, size, size, generator=generator)
    return PaddedBatchedDenseSample(
        images=images if dtype == torch.float32 else (images * 255).to(dtype),
        boxes=boxes,
        labels=torch.randint(1, 80, (batch_size, max_instances), generator=generator) * valid,
        instance_valid=valid,
        instance_ids=(torch.arange(1, max_instances + 1) * valid).int(),
        instance_masks=masks,
        sample_seeds=torch.arange(batch_size),
    )
