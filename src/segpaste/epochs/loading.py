"""What loaders of epochs share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from segpaste.epochs.progress import EpochProgress
from segpaste.epochs.sampling import EpochSampler


class EpochLoader(DataLoader[Any]):
    """A DataLoader with an `EpochSampler`: it resumes in the middle of an epoch and shards by itself.

    Place and state count the items of the batches that were yielded, however far the workers have read ahead.
    """

    _is_accelerate_prepared = True  # Accelerate shards every other DataLoader once more
    use_stateful_dataloader = True  # and saves and loads the state of one that says so

    @property
    def progress(self) -> EpochProgress:
        """Which epoch is read, from which place on."""
        assert isinstance(self.sampler, EpochSampler)
        return self.sampler.progress

    @property
    def epoch(self) -> int:
        """The epoch of the pass that began last, or the next one if none did."""
        return self.progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, >= 0, and of every pass until the next call. Persistent workers follow.

        To set the epoch that is set already changes nothing, so a loaded place survives.

        Raises:
            ValueError: it is negative, or no integer.
        """
        self.progress.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The place after the batch that was yielded last, and whose it is.

        It is the same on every rank, and of values that JSON has.
        """
        return self.progress.state(self.identity())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume there: the next pass gives the batches that are left, though `len` stays that of a whole epoch.

        Raises:
            ValueError: the state is of a loader with other arguments or other data; the message says which.
        """
        self.progress.load_state(state, self.identity(), self.num_items, self.items_per_batch)

    def expect_state(self, state: Any) -> None:
        """Check what `load_state_dict` would load, and change nothing.

        Raises:
            ValueError: as `load_state_dict` does.
        """
        self.progress.expect_state(state, self.identity(), self.num_items, self.items_per_batch)

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The facts that decide what an epoch consists of; a state with others is refused."""

    @property
    @abstractmethod
    def num_items(self) -> int:
        """Items of an epoch on this replica."""

    @property
    @abstractmethod
    def items_per_batch(self) -> int:
        """Items of a batch; only the last may have fewer."""

    def fetched(self) -> Iterator[Any]:
        """What the workers fetch in a pass, each batch counted as done when it is handed out."""
        assert isinstance(self.sampler, EpochSampler)
        this = None
        for num_batches, batch in enumerate(super().__iter__(), start=1):
            this = this or self.sampler.this  # the first draw has begun it
            assert this is not None
            this.done(min(this.start + num_batches * self.items_per_batch, self.num_items))
            yield batch
        if (this := this or self.sampler.this) is not None:
            this.finish()
