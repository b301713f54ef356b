"""The samples of an epoch on their way into batches: in which order, read and jittered by their keys, collated.

What a worker runs; how it started does not matter, for everything here is found by its module's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.utils.data import Dataset, Sampler
from torch.utils.data.distributed import DistributedSampler

from segpaste.datasets.jitter import SampleTransform
from segpaste.datasets.records import DatasetError
from segpaste.seeding import SampleKey, derive_seed, key_tensors, random_bits, to_int64
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample


class EpochSampler(DistributedSampler[tuple[int, int]]):
    """This replica's sample indices, each with the epoch it belongs to, so that running workers learn it.

    As with torch's sampler every replica gets the same number: the first indices are repeated, or with ``drop_last``
    the last ones left out. The order is drawn by `segpaste.seeding` from (seed, epoch).

    Args:
        dataset: anything with a length.
        num_replicas: R.
        rank: this replica, in 0..R - 1.
        shuffle: a new order each epoch; else ascending.
        seed: the run's seed, the same on all replicas.
        drop_last: leave out instead of repeating.
    """

    def order(self) -> list[int]:
        """All indices of the dataset in this epoch's order, the same on all replicas."""
        num = len(self.dataset)  # type: ignore[arg-type]
        if not self.shuffle:
            return list(range(num))
        seed = torch.tensor(to_int64(derive_seed(self.seed, self.epoch, 0, 0, 0)))
        return random_bits(seed, "epoch.order", torch.arange(num)).argsort(stable=True).tolist()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        order = self.order()
        own = range(self.rank, self.total_size, self.num_replicas)
        return iter([(self.epoch, order[position % len(order)]) for position in own])


class KeyedSampler(Sampler[tuple[int, int]]):
    """The indices of another sampler, each with the epoch it belongs to.

    Args:
        sampler: gives the indices of this replica, and may have ``set_epoch``.
    """

    def __init__(self, sampler: Sampler[int]) -> None:
        self.sampler, self._epoch = sampler, 0

    @property
    def epoch(self) -> int:
        """The other sampler's, where it has one."""
        return int(getattr(self.sampler, "epoch", self._epoch))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, of the other sampler too."""
        self._epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.epoch  # as it is when the epoch begins
        return ((epoch, index) for index in self.sampler)


class Loaded(NamedTuple):
    """One sample, or the message of why there is none; with its key."""

    sample: DenseSample | None
    key: SampleKey
    error: str = ""


class Fetched(NamedTuple):
    """What a worker sends for one batch: the batch, messages of broken samples, instance counts beyond the limit."""

    batch: PaddedBatchedDenseSample | None
    broken: list[str]
    overflows: list[int]


@dataclass(frozen=True)
class SeededSamples(Dataset[Loaded]):
    """The dataset seen through (epoch, index) keys. Its errors are values, so that they cross processes unwrapped."""

    dataset: Dataset[DenseSample]
    jitter: SampleTransform | None
    base_seed: int
    rank: int

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, place: tuple[int, int]) -> Loaded:
        epoch, sample_idx = place
        return self.load(SampleKey(self.base_seed, epoch, self.rank, 0, sample_idx))

    def load(self, key: SampleKey) -> Loaded:
        """The sample that a key names, jittered."""
        index = key.sample_idx
        try:
            sample = self.dataset[index]
        except DatasetError as error:
            return Loaded(None, key, str(error))
        if not isinstance(sample, DenseSample):
            raise TypeError(
                f"dataset[{index}]: expected a DenseSample, got {type(sample).__name__}; convert it in the dataset"
            )
        return Loaded(self.jitter(sample, key.seed) if self.jitter else sample, key)


@dataclass(frozen=True)
class Collate:
    """Loaded samples as one padded batch, each with at most ``max_instances`` of its instances, the largest."""

    max_instances: int

    def __call__(self, loaded: Sequence[Loaded]) -> Fetched:
        broken = [one.error for one in loaded if one.sample is None]
        samples = [one.sample for one in loaded if one.sample is not None]
        keys = [one.key for one in loaded if one.sample is not None]
        overflows = [s.num_instances for s in samples if s.num_instances > self.max_instances]
        if not samples:
            return Fetched(None, broken, overflows)
        batch = BatchedDenseSample.from_samples(samples).to_padded(
            self.max_instances,
            overflow="largest",
            **key_tensors(keys),
        )
        return Fetched(batch, broken, overflows)
