"""Order in which a replica reads the samples of an epoch."""

from __future__ import annotations

import hashlib
import warnings
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from segpaste.epochs import EpochPass, EpochProgress, EpochSampler, sampler_facts
from segpaste.seeding import derive_seed, random_bits_numpy


def shuffled_order(num: int, base_seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the indices of a dataset in the order of an epoch, [num] int64, the same on all replicas."""
    seed = derive_seed(base_seed, epoch, 0, 0, 0)
    return random_bits_numpy(seed, "epoch.order", np.arange(num)).view(np.int64).argsort(kind="stable")


class SamplePlace(NamedTuple):
    """Epoch, rank and index of a sample. They also give its seed: a running worker knows no epoch and no rank."""

    epoch: int
    rank: int
    sample_idx: int


class DatasetOrder(EpochSampler[int]):
    """All samples of a dataset, divided among the replicas.

    Every replica gets the same number of samples, as with torch's `DistributedSampler`: the first indices are repeated,
    or with ``drop_last`` the last ones are left out. With ``shuffle``, `segpaste.seeding` draws the order from
    (seed, epoch); without, it is ascending.
    """

    def __init__(self, num: int, base_seed: int, shuffle: bool, drop_last: bool, progress: EpochProgress) -> None:
        super().__init__(progress)
        self.num, self.base_seed, self.shuffle, self.drop_last = num, base_seed, shuffle, drop_last

    def __len__(self) -> int:
        return self.replica.share(self.num, self.drop_last)

    def pass_indices(self, this: EpochPass) -> list[int]:
        """Return the indices of a pass: every R-th index of the epoch's order, starting at the rank."""
        order = shuffled_order(self.num, self.base_seed, this.epoch) if self.shuffle else np.arange(self.num)
        turns = this.replica.turns(this.start, this.replica.share(self.num, self.drop_last) - this.start)
        indices: list[int] = order[turns % max(self.num, 1)].tolist()
        return indices

    def identity(self) -> dict[str, Any]:
        """Return the settings that determine the indices of an epoch."""
        return {"shuffle": bool(self.shuffle), "num_replicas": int(self.num_replicas)}


class SamplerOrder(EpochSampler[int]):
    """Indices that a sampler other than `segpaste.samplers.NxMSampler` gives to this replica.

    A resumed pass draws the indices of the interrupted pass again and skips them. It warns if they differ.
    """

    def __init__(self, sampler: Sampler[int], progress: EpochProgress) -> None:
        super().__init__(progress)
        self.sampler = sampler
        self._drawn = array("q")
        self._expected: tuple[int, str | None] = 0, None

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def pass_indices(self, this: EpochPass) -> Iterator[int]:
        """Yield the indices of a pass; those before its start are drawn and skipped."""
        indices = map(int, self.sampler)
        self._drawn = drawn = array("q", islice(indices, this.start))
        if this.start > 0:
            self._check(this)
        for index in indices:
            drawn.append(index)
            yield index

    def _check(self, this: EpochPass) -> None:
        expected, self._expected = self._expected, (0, None)
        if expected not in ((0, None), (this.start, None), (this.start, self.digest(this.start))):
            warnings.warn(
                f"{self.progress.owner}: expected the sampler to give the same {this.start} indices of epoch "
                f"{this.epoch} as before the interruption, got others; samples may be repeated or left out in this "
                "epoch: give a sampler that depends on its seed and epoch only",
                stacklevel=2,
            )

    def digest(self, num: int) -> str:
        """Return a digest of the first ``num`` indices of the pass, or of the interrupted pass before it resumes."""
        expected_num, expected = self._expected
        if expected is not None and num == expected_num:
            return expected
        return hashlib.sha256(self._drawn[:num].tobytes()).hexdigest()[:16]

    def expect(self, num: int, digest: str | None) -> None:
        """Set the digest with which the next pass compares the first ``num`` indices, which it skips."""
        self._expected = num, digest

    def identity(self) -> dict[str, Any]:
        """Return the known settings of the sampler."""
        return {**sampler_facts(self.sampler), "num_indices": len(self), "num_replicas": int(self.num_replicas)}


class PassSampler(EpochSampler[SamplePlace]):
    """Sampler of the `SamplePlace` of every sample, pass after pass."""

    def __init__(self, order: EpochSampler[int]) -> None:
        super().__init__(order.progress)
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def identity(self) -> dict[str, Any]:
        """Return the settings that determine the indices of an epoch."""
        return self.order.identity()

    def __iter__(self) -> Iterator[SamplePlace]:
        this = self.begin()
        for index in self.order.pass_indices(this):
            yield SamplePlace(this.epoch, this.replica.rank, index)
