"""Base class of the loaders of epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from segpaste.epochs.progress import EpochProgress
from segpaste.epochs.reader import EpochReader
from segpaste.epochs.sampling import EpochSampler


class EpochLoader(EpochReader, DataLoader[Any]):
    """A DataLoader with an `EpochSampler`: it resumes in the middle of an epoch and shards by itself.

    Place and state count the items of the batches that were yielded, however far the workers have read ahead.
    """

    _is_accelerate_prepared = True  # Accelerate shards every other DataLoader once more
    use_stateful_dataloader = True  # and saves and loads the state of one that says so

    sampler: EpochSampler[Any]

    @property
    def progress(self) -> EpochProgress:  # type: ignore[override]
        """Progress of the epochs: the one that is read, and the place in it."""
        return self.sampler.progress

    @property
    def num_items(self) -> int:
        """Items of an epoch on this replica."""
        return self.sampler.num_items

    @property
    def items_per_batch(self) -> int:
        """Items of a batch; only the last may have fewer."""
        return (self.batch_size or 1) * self.sampler.items_per_batch

    def fetched(self) -> Iterator[Any]:
        """Yield the batches that the workers fetch in a pass; each counts as done when it is handed out."""
        this = None
        for num_batches, batch in enumerate(super().__iter__(), start=1):
            this = this or self.sampler.this  # the first draw has begun it
            assert this is not None
            this.done(min(this.start + num_batches * self.items_per_batch, self.num_items))
            yield batch
        if (this := this or self.sampler.this) is not None:
            this.finish()
