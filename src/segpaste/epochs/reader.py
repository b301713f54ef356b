"""Base class of samplers and loaders of epochs, with the epoch and the state of an `EpochProgress`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from segpaste.epochs._foreign import set_epoch_of
from segpaste.epochs.progress import EpochProgress
from segpaste.epochs.stateful import Stateful


class EpochReader(Stateful):
    """A sampler or loader whose epoch, place and rank are an `EpochProgress`.

    Attributes:
        progress: which epoch is read, from which place on; a loader shares that of the sampler it was given.
    """

    progress: EpochProgress
    _beside: Any = None  # what is read beside it, in the same epochs, and is not led by the progress

    @property
    def owner(self) -> str:
        """Name of the reader in errors and warnings."""
        return self.progress.owner

    @property
    def epoch(self) -> int:
        """The epoch of the pass that began last, or the next one if none did."""
        return self.progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, >= 0, of the next pass and of every pass until the next call, for all that is read.

        Setting the same epoch again changes nothing, so a loaded place survives. Persistent workers follow.

        Raises:
            ValueError: it is negative, or no integer.
        """
        self.progress.set_epoch(epoch)
        set_epoch_of(self._beside, epoch)

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return the facts that decide what an epoch consists of, values of JSON; a state with others is rejected."""

    @property
    @abstractmethod
    def num_items(self) -> int:
        """Items of an epoch on this replica; places are counted in them."""

    @property
    def items_per_batch(self) -> int:
        """Items of a batch, where a place is at the end of a batch; only the last batch may have fewer."""
        return 1

    def state_values(self, num_drawn: int | None) -> dict[str, Any]:
        """Return the place and the facts of the reader."""
        return self.progress.state(self.identity(), num_drawn)

    def expect_values(self, state: Any) -> None:
        """Reject a state of another reader, or a place that an epoch does not have."""
        self.progress.expect_state(state, self.identity(), self.num_items, self.items_per_batch, self.owner)

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Take the place."""
        self.progress.resume(state)
