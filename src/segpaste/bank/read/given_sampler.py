"""A sampler that the user gives to a bank's loader, in place of options of how to draw."""

from __future__ import annotations

from segpaste.bank.format.protocol import InstanceBank
from segpaste.bank.read.nxm_draws import NxMDraws
from segpaste.bank.read.sampler import BankSampler
from segpaste.epochs import ReplicaFinder
from segpaste.samplers import NxMSampler


def given_draws(
    bank: InstanceBank, sampler: BankSampler | NxMSampler, num_crops: int, replicas: ReplicaFinder
) -> BankSampler | NxMDraws:
    """Return what a loader draws from, if the sampler fits the bank, the step and the process.

    Args:
        bank: the bank of the loader.
        sampler: a sampler of that bank.
        num_crops: crops of a step, B K.
        replicas: the rank that the loader was given, if any.

    Raises:
        TypeError: another kind of sampler.
        ValueError: a sampler of another bank, of another rank, or whose epoch does not fill a step.
    """
    if isinstance(sampler, NxMSampler):
        if sampler.batch_size != num_crops:
            raise ValueError(
                f"sampler: expected N * M = batch_size * crops_per_target = {num_crops}, got {sampler.batch_size}"
            )
        sampler.progress.replicas.expect_same(replicas)
        return NxMDraws(bank, sampler)
    if not isinstance(sampler, BankSampler):
        raise TypeError(
            f"sampler: expected a BankSampler or an NxMSampler of the bank, got {type(sampler).__name__}; give "
            "BankSampler(bank), or leave sampler out"
        )
    if (of_bank := sampler.identity()["bank"]) != bank.version:
        raise ValueError(
            f"sampler: expected one of the bank of version {bank.version[:12]}, got one of version {of_bank[:12]}; "
            "make it of this bank"
        )
    sampler.progress.replicas.expect_same(replicas)
    if len(sampler) < num_crops:
        raise ValueError(
            f"sampler: expected at least batch_size * crops_per_target = {num_crops} draws in an epoch, got "
            f"{len(sampler)}; give BankSampler(bank, num_samples), num_samples = steps * {num_crops}"
        )
    return sampler
