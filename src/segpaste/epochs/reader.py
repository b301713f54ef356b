"""Base classes of samplers and loaders that read in epochs, with the state of an `EpochProgress`."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from segpaste._reprs import counted, described, inner
from segpaste.epochs._other_loaders import set_epoch_of
from segpaste.epochs.progress import EpochPass, EpochProgress
from segpaste.epochs.replicas import Replica
from segpaste.epochs.stateful import Stateful

T_co = TypeVar("T_co", covariant=True)

ACCELERATE_SHARDS = ("BatchSamplerShard", "DataLoaderDispatcher")
"""Classes of Accelerate that give each process a part of the data."""

PASSED = "worker_init_fn", "timeout", "generator", "pin_memory_device"
"""Options of torch's DataLoader that are passed on as they are; they do not change the batches."""

_REFUSED = {
    "in_order": "batches are counted in their order, so that an epoch can be resumed",
    "batch_sampler": "give a sampler of indices as sampler=; for N x M batches sampler=sampler and "
    "batch_size=sampler.batch_size with an NxMSampler, not with its batch_sampler()",
    "collate_fn": "it makes the batches itself; convert those that it yields",
    "shuffle": "a sampler decides the order",
    "drop_last": "every step is full",
}


class EpochReader(Stateful):
    """Sampler or loader with an `EpochProgress` for its epoch, place and rank.

    Attributes:
        progress: current epoch and the place in it; a loader shares the progress of its sampler.
    """

    progress: EpochProgress
    _beside: Any = None  # another loader read in the same epochs, which the progress does not lead

    @property
    def owner(self) -> str:
        """Name of the reader in errors and warnings."""
        return self.progress.owner

    @property
    def epoch(self) -> int:
        """Epoch of the last pass, or of the next pass if there was none."""
        return self.progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, >= 0, of the next pass and of every pass until the next call.

        Setting the same epoch again changes nothing, so a loaded place survives. Persistent workers use it too.

        Raises:
            ValueError: the epoch is not an integer in [0, 2**64).
        """
        self.progress.set_epoch(epoch)
        set_epoch_of(self._beside, epoch)

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return the facts that determine the content of an epoch, as JSON values; a state with others is rejected."""

    @property
    @abstractmethod
    def num_items(self) -> int:
        """Number of items of an epoch on this replica."""

    @property
    def items_per_batch(self) -> int:
        """Number of items in a batch, if places must be at the end of a batch; only the last batch may have fewer."""
        return 1

    def state_values(self, num_drawn: int | None) -> dict[str, Any]:
        """Return the place and the facts of the reader."""
        return self.progress.state(self.identity(), num_drawn)

    def expect_values(self, state: Any) -> None:
        """Reject a state of another reader, or with a place out of range."""
        self.progress.expect_state(state, self.identity(), self.num_items, self.items_per_batch, self.owner)

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Load the place."""
        self.progress.resume(state)


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


class EpochLoader(EpochReader, DataLoader[Any]):
    """DataLoader with an `EpochSampler`: it resumes in the middle of an epoch and shards its data itself.

    Place and state count the items of yielded batches, not those that workers have read ahead.

    Args:
        dataset: the dataset that the workers read.
        num_workers: worker processes; 0 reads in this process, and the following options have no effect.
        multiprocessing_context: start method of the workers, or a context.
        persistent_workers: keep the workers between epochs.
        prefetch_factor: batches that each worker reads ahead.
        options: options of torch's DataLoader; those of `PASSED` are passed on.
        fixed: other arguments of torch's DataLoader.

    Raises:
        TypeError: ``options`` has another option.
    """

    _is_accelerate_prepared = True  # else Accelerate would shard the data again
    use_stateful_dataloader = True  # Accelerate saves and loads the state if this is set

    sampler: EpochSampler[Any]

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        num_workers: int,
        multiprocessing_context: str | BaseContext | None,
        persistent_workers: bool,
        prefetch_factor: int | None,
        options: Mapping[str, Any],
        **fixed: Any,
    ) -> None:
        passed = _passed(type(self).__name__, options)
        if num_workers:
            passed |= {"multiprocessing_context": multiprocessing_context, "prefetch_factor": prefetch_factor}
        else:
            passed.pop("timeout", None)  # torch rejects it
        persistent = persistent_workers and num_workers > 0
        super().__init__(dataset, num_workers=num_workers, persistent_workers=persistent, **passed, **fixed)

    def __repr__(self) -> str:
        return described(
            self,
            lambda: f"{counted(len(self), 'batch', 'batches')} of {self.items_per_batch}",
            lambda: inner(self._data),
            lambda: counted(self.num_workers, "worker") if self.num_workers else None,
            lambda: self.progress.facts(),
        )

    @property
    def _data(self) -> Any:
        """Return the dataset that the `repr` names."""
        return self.dataset

    @property
    def progress(self) -> EpochProgress:  # type: ignore[override]
        """Current epoch and the place in it."""
        return self.sampler.progress

    @property
    def num_items(self) -> int:
        """Number of items of an epoch on this replica."""
        return self.sampler.num_items

    @property
    def items_per_batch(self) -> int:
        """Number of items in a batch; only the last batch may have fewer."""
        return (self.batch_size or 1) * self.sampler.items_per_batch

    def fetched(self) -> Iterator[Any]:
        """Yield the batches that the workers fetch in a pass; a batch counts as done when it is yielded."""
        this = None
        for num_batches, batch in enumerate(super().__iter__(), start=1):
            this = this or self.sampler.this  # the first draw begins the pass
            assert this is not None
            this.done(min(this.start + num_batches * self.items_per_batch, self.num_items))
            yield batch
        if (this := this or self.sampler.this) is not None:
            this.finish()


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


def _passed(owner: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of torch's DataLoader that a loader passes on.

    Raises:
        TypeError: there is an option that it does not take.
    """
    for name, value in options.items():
        if name not in PASSED and not (name == "in_order" and value is True):
            why = _REFUSED.get(name, f"options of torch's DataLoader that it takes are {', '.join(PASSED)}")
            raise TypeError(f"{owner}: expected no option {name!r}, got {value!r:.80}; {why}")
    return {name: value for name, value in options.items() if name in PASSED}
