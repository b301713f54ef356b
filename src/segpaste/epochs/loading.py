"""Base class of loaders that read in epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from multiprocessing.context import BaseContext
from typing import Any

from torch.utils.data import DataLoader, Dataset

from segpaste._reprs import counted, described, inner
from segpaste.epochs.progress import EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.sampling import EpochSampler

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
