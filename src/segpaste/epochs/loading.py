"""Base class of loaders that read in epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from segpaste._reprs import counted, described, inner
from segpaste.epochs.progress import EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.sampling import EpochSampler


class EpochLoader(EpochReader, DataLoader[Any]):
    """DataLoader with an `EpochSampler`: it resumes in the middle of an epoch and shards its data itself.

    Place and state count the items of yielded batches, not those that workers have read ahead.
    """

    _is_accelerate_prepared = True  # else Accelerate would shard the data again
    use_stateful_dataloader = True  # Accelerate saves and loads the state if this is set

    sampler: EpochSampler[Any]

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
        """What the loader reads, for its `repr`."""
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
