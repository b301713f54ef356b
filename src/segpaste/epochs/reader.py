"""Base class of samplers and loaders with the epoch and the state of an `EpochProgress`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from segpaste.epochs._other_loaders import set_epoch_of
from segpaste.epochs.progress import EpochProgress
from segpaste.epochs.stateful import Stateful


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
