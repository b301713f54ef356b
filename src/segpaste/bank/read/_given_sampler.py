"""Sampler that the user gives to the loader of a bank, instead of draw options."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.protocol import InstanceBank
from segpaste.bank.read.sampler import BankSampler, Draws
from segpaste.epochs import Replica, ReplicaFinder
from segpaste.samplers import NxMBatches, NxMReport, NxMSampler
from segpaste.samplers.classes import SamplesOfClasses
from segpaste.seeding import derive_seed


def given_draws(
    bank: InstanceBank, sampler: BankSampler | NxMSampler, num_crops: int, replicas: ReplicaFinder
) -> BankSampler | NxMDraws:
    """Return the draws of a loader, after a check that the sampler fits the bank, B K crops per step, and the process.

    Raises:
        TypeError: the sampler is of another kind.
        ValueError: the sampler is of another bank or rank, or its epoch does not fill a step.
    """
    if not isinstance(sampler, BankSampler | NxMSampler):
        advice = "the NxMSampler itself" if isinstance(sampler, NxMBatches) else "BankSampler(bank)"
        raise TypeError(
            f"sampler: expected a BankSampler or an NxMSampler of the bank, got {type(sampler).__name__}; give "
            f"{advice}, or leave sampler out"
        )
    sampler.progress.replicas.expect_same(replicas)
    if isinstance(sampler, NxMSampler):
        if sampler.batch_size != num_crops:
            raise ValueError(
                f"sampler: expected N * M = batch_size * crops_per_target = {num_crops}, got {sampler.batch_size}; "
                "give batch_size and crops_per_target whose product is sampler.batch_size"
            )
        return NxMDraws(bank, sampler)
    if (of_bank := sampler.identity()["bank"]) != bank.version:
        raise ValueError(
            f"sampler: expected a sampler of the bank of version {bank.version[:12]}, got one of version "
            f"{of_bank[:12]}; make it from this bank"
        )
    if len(sampler) < num_crops:
        raise ValueError(
            f"sampler: expected at least batch_size * crops_per_target = {num_crops} draws in an epoch, got "
            f"{len(sampler)}; give BankSampler(bank, num_samples), num_samples = steps * {num_crops}"
        )
    return sampler


class NxMDraws:
    """Draws of an `NxMSampler` over the crops of a bank for this replica, in the form that a loader stages.

    Args:
        bank: bank of the crops.
        sampler: sampler of that bank. Its labels may differ from the classes of the bank; N and M refer to the labels.

    Attributes:
        crops: crops of each class.

    Raises:
        ValueError: the number of samples of the sampler is not the number of crops of the bank.
    """

    def __init__(self, bank: InstanceBank, sampler: NxMSampler) -> None:
        if sampler.num_samples != len(bank):
            raise ValueError(
                f"sampler: expected a sampler of the bank's {len(bank)} crops, got one of {sampler.num_samples} "
                "samples; make it from this bank"
            )
        self.sampler, self._class_ids = sampler, bank.crop_class_ids()
        self.crops = SamplesOfClasses(self._class_ids, len(bank.class_names))
        self.progress, self._bank_version = sampler.progress, bank.version
        self._of_pass: tuple[int, Replica, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.sampler)

    def draws(self, first: int, num: int, *, epoch: int, replica: Replica) -> Draws:
        """Return ``num`` draws of a replica in an epoch, from ``first`` on."""
        if self._of_pass is None or self._of_pass[:2] != (epoch, replica):
            size = -1, self.sampler.N_classes_per_batch, self.sampler.M_samples_per_class
            by_class = self.sampler.replica_batches(epoch, replica).reshape(size)
            self._of_pass = epoch, replica, by_class.transpose(0, 2, 1).ravel()  # neighbours are of several classes
        crops = self._of_pass[2][first : first + num]
        seed = derive_seed(self.sampler.base_seed, epoch, replica.rank, 0, 0)
        return Draws(seed, np.arange(first, first + len(crops), dtype=np.int64), self._class_ids[crops], crops)

    def identity(self) -> dict[str, Any]:
        """Return the facts of `NxMSampler.identity` and the version of the bank."""
        return {"bank": self._bank_version, **self.sampler.identity()}

    def report(self) -> NxMReport:
        """Return `NxMSampler.report`."""
        return self.sampler.report()
