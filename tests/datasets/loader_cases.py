"""A dataset whose samples say which they are, and what batches hold."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset

from samples import assert_same, make_sample
from segpaste.datasets import DatasetError
from segpaste.types import DenseSample, Modality, PaddedBatchedDenseSample

SIZE = (29, 31)


class Numbered(Dataset[DenseSample]):
    """Samples that say which they are; those in ``broken`` cannot be read."""

    def __init__(self, num: int, broken: tuple[int, ...] = (), num_instances: int = 1) -> None:
        self.num, self.broken, self.num_instances = num, broken, num_instances

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, index: int) -> DenseSample:
        if index in self.broken:
            raise DatasetError(f"{index}.png: expected an image, found no such file; check the path")
        sample = make_sample((7, 5), self.num_instances, [Modality.INSTANCE], image_dtype=torch.uint8)
        sample.image.fill_(index)
        return sample


def indices(batch: PaddedBatchedDenseSample) -> list[int]:
    return batch.images[:, 0, 0, 0].tolist()


def seeds_of(batch: PaddedBatchedDenseSample) -> list[int]:
    return [seed % 2**64 for seed in batch.sample_seeds.tolist()]


def assert_same_batches(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert_same(a, b)
