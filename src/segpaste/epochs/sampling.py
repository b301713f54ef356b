"""What samplers of epochs share."""

from __future__ import annotations

from typing import TypeVar

from torch.utils.data.distributed import DistributedSampler

from segpaste.epochs.progress import EpochPass, EpochProgress

T_co = TypeVar("T_co", covariant=True)


class EpochSampler(DistributedSampler[T_co]):
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
    def epoch(self) -> int:  # type: ignore[override]
        """The epoch of the pass that began last, or the next one if none did."""
        return self.progress.epoch

    @property
    def rank(self) -> int:  # type: ignore[override]
        """This process's number, as given or as it is now."""
        return self.progress.replicas.now().rank

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """How many processes there are, as given or as it is now."""
        return self.progress.replicas.now().num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, >= 0, and of every pass until the next call.

        To set the epoch that is set already changes nothing, so a loaded place survives.

        Raises:
            ValueError: it is negative, or no integer.
        """
        self.progress.set_epoch(epoch)

    def begin(self) -> EpochPass:
        """Start a pass; see `EpochProgress.begin`."""
        self.this = self.progress.begin()
        return self.this
