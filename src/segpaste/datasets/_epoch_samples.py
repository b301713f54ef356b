"""Loading of the samples of an epoch: they are read and jittered by key, then collated into batches.

Workers run this code. It works with every start method, because everything here can be pickled by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch.utils.data import Dataset

from segpaste.datasets._orders import SamplePlace
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.jitter import LargeScaleJitter, SampleTransform
from segpaste.seeding import SampleKey, key_tensors
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample


class Loaded(NamedTuple):
    """One sample with its key, or the error message if it could not be read."""

    sample: DenseSample | None
    key: SampleKey
    error: str = ""


class FetchedSamples(NamedTuple):
    """Result of a worker for one batch: the batch, messages of broken samples, instance counts above the limit."""

    batch: PaddedBatchedDenseSample | None
    broken: list[str]
    overflows: list[int]


@dataclass(frozen=True)
class SeededSamples(Dataset[Loaded]):
    """Dataset indexed by `SamplePlace`. It returns dataset errors as messages, because workers wrap exceptions."""

    dataset: Dataset[DenseSample]
    jitter: SampleTransform | None
    base_seed: int

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, place: SamplePlace) -> Loaded:
        return self.load(SampleKey(self.base_seed, place.epoch, place.rank, 0, place.sample_idx))

    def load(self, key: SampleKey) -> Loaded:
        """Load and jitter the sample of a key."""
        index, jitter = key.sample_idx, self.jitter
        try:
            if isinstance(jitter, LargeScaleJitter) and hasattr(self.dataset, "read_jittered"):
                return Loaded(self.dataset.read_jittered(index, jitter, key.seed), key)
            sample = self.dataset[index]
        except DatasetError as error:
            return Loaded(None, key, str(error))
        if not isinstance(sample, DenseSample):
            raise TypeError(
                f"dataset[{index}]: expected a DenseSample, got {type(sample).__name__}; convert it in the dataset"
            )
        return Loaded(jitter(sample, key.seed) if jitter else sample, key)


@dataclass(frozen=True)
class Collate:
    """Collate function of loaded samples into a padded batch; each keeps its ``max_instances`` largest instances."""

    max_instances: int

    def __call__(self, loaded: Sequence[Loaded]) -> FetchedSamples:
        broken = [one.error for one in loaded if one.sample is None]
        samples = [one.sample for one in loaded if one.sample is not None]
        keys = [one.key for one in loaded if one.sample is not None]
        overflows = [s.num_instances for s in samples if s.num_instances > self.max_instances]
        if not samples:
            return FetchedSamples(None, broken, overflows)
        batch = BatchedDenseSample.from_samples(samples)
        padded = batch.to_padded(self.max_instances, overflow="largest", **key_tensors(keys))
        return FetchedSamples(padded, broken, overflows)
