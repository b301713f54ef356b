"""Crops in class-structured batches, as draws that a `segpaste.bank.loader.BankDataLoader` can stage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.protocol import InstanceBank
from segpaste.bank.sampler import Draws
from segpaste.samplers import NxMReport, NxMSampler
from segpaste.samplers.classes import SamplesOfClasses
from segpaste.seeding import derive_seed


class NxMDraws:
    """What an `NxMSampler` over the crops of a bank gives this replica, from any place on.

    Args:
        bank: whose crops they are.
        sampler: of that bank. Its labels may be others than the bank's classes; N and M are of those labels then.

    Attributes:
        crops: of each class.

    Raises:
        ValueError: the sampler is of another number of samples than the bank has crops, or goes on in the middle of an
            epoch; `draws` raises that too.
    """

    def __init__(self, bank: InstanceBank, sampler: NxMSampler) -> None:
        if sampler.num_samples != len(bank):
            raise ValueError(
                f"sampler: expected one of the bank's {len(bank)} crops, got one of {sampler.num_samples} samples; "
                "make it of this bank"
            )
        _check_at_start(sampler)
        self.sampler, self._class_ids = sampler, bank.crop_class_ids()
        self.crops = SamplesOfClasses(self._class_ids, len(bank.class_names))
        self._of_epoch: tuple[int, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.sampler)

    @property
    def epoch(self) -> int:
        """The epoch that is drawn."""
        return self.sampler.epoch

    def draws(self, first: int, num: int) -> Draws:
        """What this replica draws in this epoch from a place on."""
        _check_at_start(self.sampler)
        if self._of_epoch is None or self._of_epoch[0] != self.epoch:
            size = -1, self.sampler.N_classes_per_batch, self.sampler.M_samples_per_class
            by_class = self.sampler.replica_batches().reshape(size)
            self._of_epoch = self.epoch, by_class.transpose(0, 2, 1).ravel()  # neighbours are of several classes
        crops = self._of_epoch[1][first : first + num]
        seed = derive_seed(self.sampler.base_seed, self.epoch, self.sampler.rank, 0, 0)
        return Draws(seed, np.arange(first, first + len(crops), dtype=np.int64), self._class_ids[crops], crops)

    def set_epoch(self, epoch: int) -> None:
        """See `NxMSampler.set_epoch`."""
        self.sampler.set_epoch(epoch)

    def state_dict(self, num_drawn: int) -> dict[str, Any]:
        """See `NxMSampler.state_dict`."""
        return self.sampler.state_dict(num_drawn)

    def report(self) -> NxMReport:
        """See `NxMSampler.report`."""
        return self.sampler.report()


def _check_at_start(sampler: NxMSampler) -> None:
    """Refuse a sampler that goes on in the middle of an epoch: here the loader says from which place on."""
    if sampler.start:
        raise ValueError(
            "sampler: expected one at the beginning of an epoch, got one that goes on after "
            f"{sampler.start} indices of epoch {sampler.epoch}; load its state into the loader, by "
            "loader.load_state_dict"
        )
