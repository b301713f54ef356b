"""What samplers of epochs share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from torch.utils.data.distributed import DistributedSampler

from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.replicas import Replica

T_co = TypeVar("T_co", covariant=True)

ACCELERATE_SHARDS = ("BatchSamplerShard", "DataLoaderDispatcher")
"""Classes of Accelerate that give each process a part of what they read."""


class EpochSampler(EpochReader, DistributedSampler[T_co]):  # type: ignore[override]
    """A sampler whose epoch, place and rank are an `EpochProgress`.

    It is a DistributedSampler because Lightning puts one of its own around samplers of other classes, so each rank
    would read a part of its part. The constructor of the base is not called: the rank may not be known yet.

    Args:
        progress: which epoch is read, from which place on; shared by a loader and the sampler that it was given.

    Attributes:
        progress: as given.
        this: the pass that began last; None before the first.
    """

    def __init__(self, progress: EpochProgress) -> None:
        self.progress = progress
        self.this: EpochPass | None = None

    @property
    def replica(self) -> Replica:
        """This process, as given or as it is now."""
        return self.progress.replicas.now()

    @property
    def rank(self) -> int:  # type: ignore[override]
        """This process's number."""
        return self.replica.rank

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """How many processes there are."""
        return self.replica.num_replicas

    @property
    def num_items(self) -> int:
        """Items of an epoch on this replica."""
        return len(self)

    def pass_indices(self, this: EpochPass) -> Iterable[T_co]:
        """What a pass gives, that before its start left out: decided by its epoch and replica."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[T_co]:
        this = self.begin()
        yield from this.counted(self.pass_indices(this), self.items_per_batch)

    def begin(self) -> EpochPass:
        """Start a pass; see `EpochProgress.begin`.

        Raises:
            RuntimeError: Accelerate reads the sampler and would shard it a second time.
        """
        if self.num_replicas > 1 and _is_read_by_accelerate():
            owner = self.progress.owner
            raise RuntimeError(
                f"{owner}: expected to be read by one process, for it gives each process its part, got a DataLoader "
                "that Accelerate prepared, which shards it once more and leaves most of the data out; leave that "
                "DataLoader out of accelerator.prepare, or give the sampler to segpaste's EpochDataLoader or "
                "create_bank_dataloader, which prepare leaves as they are"
            )
        self.this = self.progress.begin()
        return self.this


def _is_read_by_accelerate() -> bool:
    """Return whether a class of Accelerate that shards is among the callers.

    ``prepare`` puts its own sampler around the batch sampler, whose author is not asked; only the call stack tells.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            reader = type(frame.f_locals.get("self"))
            if any(base.__name__ in ACCELERATE_SHARDS for base in reader.__mro__):
                return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
