"""Crops of the trainer's own dataset for consecutive batches, for ``balance=`` of the adapters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segpaste.bank import BankDataLoader, DatasetBank, InstanceBank, create_bank_dataloader
from segpaste.bank.building.dataset_bank import objects_to_paste
from segpaste.bank.read.class_draws import DrawMode
from segpaste.bank.read.sampler import BankSampler, report_draws
from segpaste.datasets.views import Samples
from segpaste.integrations._first_batch import is_first_process
from segpaste.types import StagedCrops

MOST_WORKERS = 2
"""Largest number of processes that an adapter starts to cut crops, in addition to those of the trainer."""


class DatasetCrops:
    """Objects of a whole dataset, drawn with balanced classes and cut out by workers, ahead of the training steps.

    The draws depend on the seed, the epoch, the rank and the number of the step. The first process prints the expected
    pastes of an epoch.

    Args:
        owner: name for errors and printed lines.
        augment: the augmentation, with ``config.source.kind="bank"``, which sets the number of crops for an image.
        dataset: samples of the dataset, or a bank.
        balance: how classes are drawn, see `segpaste.BankSampler`.
        batch_size: largest number of images of a batch.
        num_steps: number of batches of an epoch.
        seed: seed of all draws.
        num_workers: processes that cut crops; 0 cuts them in this one.

    Raises:
        ValueError: ``augment`` does not paste crops of a bank, or ``balance`` is not a mode.
        BankError: the dataset has no objects that can be cut out.
    """

    def __init__(
        self,
        owner: str,
        augment: Any,
        dataset: Samples | InstanceBank,
        balance: DrawMode,
        *,
        batch_size: int,
        num_steps: int,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        source = expect_crops(owner, augment, balance)
        selection = objects_to_paste(whole_only=source.whole_only)
        bank = dataset if isinstance(dataset, InstanceBank) else DatasetBank(dataset, selection=selection)
        self.bank = bank
        self.owner, self.balance, self.augment = owner, balance, augment
        self.num_images = max(num_steps, 1) * batch_size
        self.loader = create_bank_dataloader(
            bank,
            batch_size=batch_size,
            crops_per_target=source.crops_per_target,
            steps=max(num_steps, 1),
            mode=balance,
            base_seed=seed,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
        )
        self._epoch = self._round = -1
        self._steps: Iterator[StagedCrops] = iter(())
        self._has_printed = False

    def take(self, num_targets: int, epoch: int) -> StagedCrops:
        """Return the crops of the next batch of an epoch.

        Raises:
            BankError: a crop cannot be cut out.
        """
        self._print_expected()
        if epoch != self._epoch:
            self._epoch, self._round, self._steps = epoch, -1, iter(())
        staged = next(self._steps, None)
        if staged is None:  # a new epoch, or more steps than expected: draws that no epoch has
            self._round += 1
            self.loader.set_epoch(epoch + (self._round << 32))
            self._steps = iter(self.loader)
            staged = next(self._steps)
        return staged.first(num_targets)

    def _print_expected(self) -> None:
        if not self._has_printed:
            print_epoch(self.owner, self.augment.pastes_per_image, self.loader, self.balance, self.num_images)
        self._has_printed = True


def print_epoch(owner: str, per_image: float, loader: BankDataLoader, balance: str, num_images: int) -> None:
    """Print, on the first rank only, the expected pastes of each class in an epoch of all ranks.

    Args:
        owner: name at the start of the line.
        per_image: expected number of pastes into an image.
        loader: loader of the crops, with a `BankSampler`.
        balance: mode of the draws of classes.
        num_images: number of images of an epoch on each rank.
    """
    replica, sampler = loader.sampler.replica, loader.draws
    if replica.rank:
        return
    assert isinstance(sampler, BankSampler)
    num = round(num_images * replica.num_replicas * per_image)
    report = report_draws(sampler.report().class_names, sampler.crops.counts, sampler.probabilities, num)
    print(f"{owner}: pastes expected in an epoch, balance={balance!r}\n{report}", flush=True)


def print_expected(owner: str, augment: Any) -> None:
    """Print the expected pastes into 1000 images, if an augmentation has a pool and ``balance`` was given."""
    crops = getattr(augment, "crops", None)
    if crops is not None and crops.balance is not None and is_first_process():
        print(f"{owner}: pastes expected in 1000 images\n{augment.expected_pastes(1000)}", flush=True)


def expect_crops(owner: str, augment: Any, balance: str) -> Any:
    """Return the ``config.source`` of an augmentation that pastes staged crops.

    Raises:
        ValueError: it pastes other objects.
    """
    source = getattr(getattr(augment, "config", None), "source", None)
    if source is None or source.kind != "bank" or getattr(augment, "crops", None) is not None:
        came = f"a {type(augment).__name__} without a config" if source is None else f"kind={source.kind!r}"
        if getattr(augment, "crops", None) is not None:
            came = "one with its own source_pool, which has its own balance"
        raise ValueError(
            f"{owner}: expected an augmentation with source.kind='bank' because balance={balance!r} is given, got "
            f"{came}; give BatchCopyPaste(BatchCopyPasteConfig(source=SourceConfig(kind='bank', crops_per_target=4)))"
        )
    return source
