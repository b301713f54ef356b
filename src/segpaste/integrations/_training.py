"""Parts that the adapters of trainers share: the schedule, the picture of the first batch, and crops of the dataset.

A trainer knows the progress of training, which a schedule needs. Crops of its own dataset, for consecutive batches, are
those of ``balance=`` of the adapters.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import get_worker_info

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.schedule import Schedule
from segpaste.bank import BankDataLoader, DatasetBank, InstanceBank, create_bank_dataloader
from segpaste.bank.building.dataset_bank import objects_to_paste
from segpaste.bank.read.class_draws import DrawMode, report_draws
from segpaste.bank.read.sampler import BankSampler
from segpaste.datasets.views import Samples
from segpaste.epochs.replicas import this_process
from segpaste.types import StagedCrops
from segpaste.types.check import check_count
from segpaste.viz import show


def module_of(augment: Any) -> nn.Module | None:
    """Return the module of an augmentation, also of a compiled one; None if it is another callable."""
    module = getattr(augment, "_orig_mod", augment)
    return module if isinstance(module, nn.Module) else None


def expect_augmentation(owner: str, augment: Any) -> None:
    """Reject what an adapter cannot call, such as a config, before training.

    Raises:
        TypeError: it is not an augmentation.
    """
    if isinstance(augment, type) or not callable(augment):
        is_config = isinstance(augment, BatchCopyPasteConfig)
        is_preset = isinstance(getattr(augment, "config", None), BatchCopyPasteConfig)
        advice = "give BatchCopyPaste(config)" if is_config else "try BatchCopyPaste()"
        if is_preset:
            advice = "give BatchCopyPaste(preset.config)"
        raise TypeError(f"{owner}: expected an augmentation, got {augment!r:.80}; {advice}")


def expect_pasting(owner: str, augment: Any, max_instances: int, balance: str | None) -> None:
    """Reject arguments of ``with_copy_paste`` that no trainer can use, before training.

    Raises:
        TypeError: ``augment`` is not an augmentation.
        ValueError: ``max_instances`` is negative, or ``augment`` does not paste what ``balance`` draws.
    """
    expect_augmentation(owner, augment)
    check_count("max_instances", max_instances)
    if balance is not None:
        expect_crops(owner, augment, balance)


def schedule_of(augment: Any) -> Schedule | None:
    """Return the schedule of an augmentation, if it has one."""
    schedule = getattr(module_of(augment), "schedule", None)
    return schedule if isinstance(schedule, Schedule) else None


def fades(augment: Any) -> bool:
    """Return whether an augmentation pastes less at the end of training."""
    config = getattr(module_of(augment), "config", None)
    return schedule_of(augment) is not None and config is not None and config.placement.fade_last > 0


def follow(augment: Any, progress: float) -> None:
    """Set the progress of the schedule of an augmentation, if it has one, from 0 to 1."""
    schedule = schedule_of(augment)
    if schedule is not None:
        schedule.at(min(progress, 1.0))


def has_limit(trainer: Any) -> bool:
    """Return whether a trainer of Lightning has a last epoch or a last step."""
    return trainer.max_epochs not in (None, -1) or trainer.max_steps != -1


def num_batches_done(trainer: Any) -> int:
    """Return the number of batches of the epoch before the one that Lightning moves to the device."""
    return int(trainer.fit_loop.batch_idx) + 1


def progress_of(trainer: Any) -> float:
    """Return the progress of a training by Lightning, 0 to 1, towards the limit that is reached first."""
    done = 0.0
    if trainer.max_epochs not in (None, -1):
        of_epoch = num_batches_done(trainer) / trainer.num_training_batches
        done = (trainer.current_epoch + of_epoch) / trainer.max_epochs
    if trainer.max_steps != -1:
        done = max(done, trainer.global_step / trainer.max_steps)
    return min(done, 1.0)


PICTURE = "copy_paste_batch.jpg"
"""Name of the file in the trainer's own folder."""


class FirstBatch:
    """Function object that draws a picture of the first batch that it is given, and ignores later ones.

    Only the first process saves: rank 0, and in its loader worker 0. Make it in the process that starts the workers.
    Their copies share its memory, so workers of the next epoch do not save a picture again.
    """

    def __init__(self) -> None:
        self._saved = torch.zeros((), dtype=torch.bool, device="cpu").share_memory_()  # type: ignore[no-untyped-call]

    def draw(self, batch: object, path: str | os.PathLike[str] | None, **options: Any) -> None:
        """Save a picture of the batch if it is the first.

        Failure to draw or write the picture is a warning only, since training does not depend on it.

        Args:
            batch: batch in any structure that `segpaste.viz.show` draws.
            path: the file, ``.png`` or ``.jpg``; None saves nothing.
            options: options of `segpaste.viz.show`, such as ``class_names``, ``mean`` and ``std``.
        """
        if path is None or self._saved or not is_first_process():
            return
        self._saved.fill_(True)
        try:
            show(batch, path=path, **options)
        except Exception as error:
            warnings.warn(
                f"{os.fspath(path)}: the picture of the first batch could not be saved; training continues. "
                f"{type(error).__name__}: {error}",
                stacklevel=2,
            )


def is_first_process() -> bool:
    """Return whether this is rank 0, and in its loader worker 0 or no worker."""
    worker = get_worker_info()
    return (worker is None or worker.id == 0) and this_process().rank == 0


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
