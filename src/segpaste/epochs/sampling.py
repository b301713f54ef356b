"""Base class of samplers that read in epochs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from torch.utils.data.distributed import DistributedSampler

from segpaste._reprs import counted, described
from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.replicas import Replica

T_co = TypeVar("T_co", covariant=True)

ACCELERATE_SHARDS = ("BatchSamplerShard", "DataLoaderDispatcher")
"""Classes of Accelerate that give each process a part of the data."""


class EpochSampler(EpochReader, DistributedSampler[T_co]):  # type: ignore[override]
    """Sampler with an `EpochProgress` for its epoch, place and rank.

    It is a DistributedSampler because Lightning wraps samplers of other classes in a DistributedSampler, which would
    shard the data again. The constructor of the base class is not called: the rank may not be known yet.

    Args:
        progress: current epoch and the place in it; a loader shares it with its sampler.

    Attributes:
        progress: as given.
        this: last pass; None before the first.
    """

    def __init__(self, progress: EpochProgress) -> None:
        self.progress = progress
        self.this: EpochPass | None = None

    def __repr__(self) -> str:
        return described(self, self._facts_in_words)

    def _facts_in_words(self) -> Iterator[Callable[[], str | None]]:
        """Yield functions that return the parts of `repr`."""
        yield lambda: counted(len(self), "index", "indices")
        yield from self.progress.facts(getattr(self, "base_seed", 0))

    @property
    def replica(self) -> Replica:
        """Rank as given, or as it is known now."""
        return self.progress.replicas.now()

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of this process."""
        return self.replica.rank

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """Number of processes."""
        return self.replica.num_replicas

    @property
    def num_items(self) -> int:
        """Number of items of an epoch on this replica."""
        return len(self)

    def pass_indices(self, this: EpochPass) -> Iterable[T_co]:
        """Return the items of a pass, from its start on, as a function of its epoch and replica."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[T_co]:
        this = self.begin()
        yield from this.counted(self.pass_indices(this), self.items_per_batch)

    def begin(self) -> EpochPass:
        """Start a pass; see `EpochProgress.begin`.

        Raises:
            RuntimeError: Accelerate reads the sampler and would shard the data again.
        """
        if self.num_replicas > 1 and _is_read_by_accelerate():
            owner = self.progress.owner
            raise RuntimeError(
                f"{owner}: expected a DataLoader that accelerator.prepare has not changed, because this sampler "
                "already gives each process its share, got a prepared one, which splits that share again and loses "
                "data; do not pass this DataLoader to prepare, or give the sampler to segpaste's EpochDataLoader or "
                "create_bank_dataloader, which prepare leaves unchanged"
            )
        self.this = self.progress.begin()
        return self.this


def _is_read_by_accelerate() -> bool:
    """Return whether a class of Accelerate that shards is among the callers.

    ``prepare`` wraps the batch sampler without notice, so the call stack is the only way to detect it.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            reader = type(frame.f_locals.get("self"))
            if any(base.__name__ in ACCELERATE_SHARDS for base in reader.__mro__):
                return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
