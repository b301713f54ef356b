"""Samples in memory, in an order that covers a whole run, and batches with the crops that are pasted into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import tv_tensors

from segpaste.types import DenseSample, InstanceMask, PaddedBatchedDenseSample, tight_boxes

Paste = Callable[..., PaddedBatchedDenseSample]


class Memory(Dataset[DenseSample]):
    """Samples in memory, in an order that may repeat them; `DatasetBank` and `EpochDataLoader` read it.

    Args:
        samples: the samples.
        class_names: name of each label.
        order: index of the sample at each position; by default each once. With the order of a whole run, every
            position has a seed and so a jitter of its own.
    """

    def __init__(self, samples: list[DenseSample], class_names: Sequence[str], order: Tensor | None = None) -> None:
        self.samples, self.class_names = samples, tuple(class_names)
        self.order = range(len(samples)) if order is None else order.tolist()

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> DenseSample:
        return self.samples[self.order[index]]


def shuffled_order(num_samples: int, num: int, seed: int) -> Tensor:
    """Return ``num`` indices: all samples in a random order, then all in another one, and so on."""
    generator = torch.Generator().manual_seed(seed)
    rounds = -(-num // num_samples)
    return torch.cat([torch.randperm(num_samples, generator=generator) for _ in range(rounds)])[:num]


@dataclass
class WithCrops:
    """Batches into which crops are pasted.

    Attributes:
        pairs: begins a pass over batches and the staged crops of each.
        paste: called as ``paste(batch, staged=crops)``.
    """

    pairs: Callable[[], Iterable[tuple[PaddedBatchedDenseSample, Any]]]
    paste: Paste

    def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:
        for batch, staged in self.pairs():
            yield self.paste(batch, staged=staged)


def sample_of(image: NDArray[np.uint8], masks: NDArray[np.uint8], labels: NDArray[np.int64]) -> DenseSample:
    """Return a sample of an image [H, W, 3], masks [N, H, W] and labels [N]; later masks lie over earlier ones."""
    if len(masks) != len(labels):
        raise ValueError(f"expected a label for each mask, got {len(masks)} masks and {len(labels)} labels")
    shape = image.shape[:2]
    seen = torch.from_numpy(masks.reshape(-1, *shape) > 0)
    above = seen.flip(0).cumsum(0).flip(0) - seen.long() > 0
    seen &= ~above
    keep = seen.flatten(1).any(1)
    seen = seen[keep]
    return DenseSample(
        image=tv_tensors.Image(torch.from_numpy(image).permute(2, 0, 1).contiguous()),
        boxes=tv_tensors.BoundingBoxes(tight_boxes(seen), format="XYXY", canvas_size=shape),
        labels=torch.from_numpy(labels.astype(np.int64))[keep],
        instance_ids=torch.arange(1, len(seen) + 1, dtype=torch.int32),
        instance_masks=InstanceMask(seen),
    )
