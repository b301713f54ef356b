"""Hooks and DataModule of the adapter of Lightning."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from typing import Any, cast

from torch.utils.data import Dataset

from segpaste.bank import BankSampler, DatasetBank, create_bank_dataloader, zip_loaders
from segpaste.bank.read.class_draws import DrawMode
from segpaste.datasets import DatasetError, EpochDataLoader, create_coco_dataloader, find_dataset, open_dataset
from segpaste.datasets.views import Samples
from segpaste.epochs.reader import PASSED
from segpaste.extras import require
from segpaste.integrations._training import print_epoch
from segpaste.types import DenseSample

HOOK = "on_after_batch_transfer"

RESTARTED = (
    "CopyPasteCallback: expected the loader at its position in the checkpoint, got one at the start of its epoch, so "
    "the batches before that position are trained on again: Lightning made the loader before it read the checkpoint, "
    "because configure_optimizers reads trainer.estimated_stepping_batches; give the number of steps yourself, such as "
    "max_steps"
)


def find_lightning() -> Any:
    """Import Lightning under the name that is imported already, or else under one that is installed.

    Raises:
        MissingPackageError: it is installed under neither name.
    """
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if name in sys.modules:
            return sys.modules[name]
    return require("pytorch_lightning") if find_spec("lightning") is None else import_module("lightning.pytorch")


framework: Any = find_lightning()


def owner_of_hook(data: Any, model: Any) -> Any:
    """Return the object whose hook Lightning calls: the DataModule if it overrides the hook, else the model."""
    plain = getattr(framework.LightningDataModule, HOOK)
    return model if data is None or getattr(getattr(data, HOOK), "__func__", None) is plain else data


def wrap(owner: Any, before: Callable[[Any], Any]) -> Callable[[], None]:
    """Wrap the hook of an object, so that it is called with ``before(batch)``.

    Returns:
        A function that undoes it.
    """
    hook, attributes = getattr(owner, HOOK), vars(owner)
    was_there = HOOK in attributes

    @functools.wraps(hook)  # Lightning compares the wrapped function with its own to detect overridden hooks
    def wrapped(batch: Any, dataloader_idx: int) -> Any:
        return hook(before(batch), dataloader_idx)

    def unwrap() -> None:
        if attributes.get(HOOK) is wrapped:
            del attributes[HOOK]
            if was_there:
                attributes[HOOK] = hook

    attributes[HOOK] = wrapped
    return unwrap


def restarts_epoch(trainer: Any) -> bool:
    """Return whether a training resumes in the middle of an epoch whose loader has not got its state.

    Lightning gives loaders their states when it makes them. The states of loaders that it made before it read the
    checkpoint are left over.
    """
    left_over = getattr(trainer.fit_loop, "_combined_loader_states_to_load", None)
    num_done = int(trainer.fit_loop.batch_idx) + 1
    return bool(left_over) and 0 < num_done < trainer.num_training_batches


TRAINING_ONLY = ("scale_range", "hflip_prob", "min_area_px", "decode_reduced", "shuffle", "sampler", "drop_last")
"""Options of `create_coco_dataloader` that the loader for validation does not get."""


class CopyPasteDataModule(framework.LightningDataModule):
    """A DataModule of padded batches: jittered and in a new order each epoch for training, unchanged for validation.

    Both loaders are `segpaste.datasets.EpochDataLoader`s: each rank reads its part, the checkpoint holds the position
    in the epoch, and a resumed training reads the remaining samples. Images for validation are resized to fit into
    ``size``, and padded.

    Args:
        data: a map-style dataset of `DenseSample`, or the path of a YOLO dataset or of COCO folders, see
            `segpaste.datasets.open_dataset`.
        val: a dataset for validation. By default the split of ``data`` whose name begins with ``val``, if it has one.
        batch_size: B, on each rank.
        size: (H, W) of every sample, or the side of a square.
        split: the split of ``data`` for training; by default ``train``, or the only one that is not held out.
        val_split: the split of ``data`` for validation.
        test: a dataset for testing. By default the split of ``data`` whose name begins with ``test``, opened when
            testing starts.
        test_split: the split of ``data`` for testing.
        balance: draw objects from all of ``data``, with classes balanced by this mode of `segpaste.BankSampler`.
            Objects of images larger than ``size`` are shrunk with their image. Training batches are then pairs of a
            batch and of crops, for a `CopyPasteCallback` whose ``augment`` has ``source.kind="bank"``, which prints the
            expected pastes of an epoch. Without such a callback the crops of an epoch are printed, whether they are
            pasted or not.
        crops_per_target: with ``balance``, number of objects that are drawn for each image.
        options: see `segpaste.create_coco_dataloader`. Those of the jitter, ``shuffle``, ``sampler`` and ``drop_last``
            are for training only.

    Attributes:
        train_data: the dataset for training.
        val_data: the dataset for validation, or None.
        batch_size: batch size of loaders that are made from now on; ``Tuner.scale_batch_size`` sets it.

    Raises:
        DatasetError: the path holds no dataset, or no such split.
        TypeError, ValueError: a split without a path is given, or both a dataset and a split for validation or testing,
            or an option is unknown or out of its range.
        BankError: with ``balance``, the data has no objects that can be cut out.
    """

    def __init__(
        self,
        data: Dataset[DenseSample] | str | PathLike[str],
        val: Dataset[DenseSample] | None = None,
        *,
        batch_size: int,
        size: int | tuple[int, int] = 512,
        split: str | None = None,
        val_split: str | None = None,
        test: Dataset[DenseSample] | None = None,
        test_split: str | None = None,
        balance: DrawMode | None = None,
        crops_per_target: int = 1,
        **options: Any,
    ) -> None:
        super().__init__()
        if balance is None and crops_per_target != 1:
            raise ValueError(
                f"CopyPasteDataModule: expected balance with crops_per_target={crops_per_target}, got None; give a mode"
            )
        for name, dataset, name_of_split in (("val", val, val_split), ("test", test, test_split)):
            if dataset is not None and name_of_split is not None:
                raise ValueError(f"CopyPasteDataModule: expected a dataset as {name} or a {name}_split, got both")
        self._test, self._test_split, self._path = test, test_split, data if isinstance(data, str | PathLike) else None
        if isinstance(data, str | PathLike):
            val = _held_out(data, "val", val_split) if val is None else val
            data = open_dataset(data, split)
        elif (split, val_split, test_split) != (None, None, None):
            raise ValueError(
                "CopyPasteDataModule: expected split, val_split and test_split with a path only, got "
                f"{type(data).__name__}; give the dataset of the split"
            )
        self.train_data = data
        self.val_data = val
        self.batch_size = batch_size
        self._options = {"size": size, **options}
        self._balance, self._crops_per_target = balance, crops_per_target
        fit_into = (size, size) if isinstance(size, int) else size
        self._pool = None if balance is None else DatasetBank(cast(Samples, data), fit_into=fit_into)
        self._has_printed = False
        self._with_crops(self._training_loader())  # wrong options raise here

    def train_dataloader(self) -> EpochDataLoader | zip_loaders:
        """Return a new loader of jittered samples, with crops to paste if classes are balanced."""
        loader = self._with_crops(self._training_loader())
        if isinstance(loader, zip_loaders) and not self._has_printed and not self._is_pasted_by_callback():
            replica, report = loader.bank_loader.sampler.replica, loader.bank_loader.report()
            if replica.rank == 0:
                print(f"CopyPasteDataModule: crops of an epoch, on each of {replica.num_replicas} ranks\n{report}")
            self._has_printed = True
        return loader

    def print_expected(self, owner: str, per_image: float) -> None:
        """Print the expected pastes of an epoch of the trainer, if classes are balanced.

        Args:
            owner: name at the start of the line.
            per_image: expected number of pastes into an image.
        """
        loader, num_steps = self.trainer.train_dataloader, self.trainer.num_training_batches
        if self._balance is None or not isinstance(loader, zip_loaders) or not math.isfinite(num_steps):
            return
        if isinstance(loader.bank_loader.draws, BankSampler):  # a subclass may have a loader of its own
            num_images = int(num_steps) * self.batch_size
            print_epoch(owner, per_image, loader.bank_loader, self._balance, num_images)

    def _is_pasted_by_callback(self) -> bool:
        """Return whether a callback of the trainer knows the number of pastes, and prints it."""
        callbacks = [] if self.trainer is None else self.trainer.callbacks
        return any(getattr(callback, "pastes_per_image", None) is not None for callback in callbacks)

    def val_dataloader(self) -> EpochDataLoader | list[EpochDataLoader]:
        """Return a new loader of samples in the order of the dataset; an empty list without validation data."""
        return [] if self.val_data is None else self._unchanged(self.val_data)

    def test_dataloader(self) -> EpochDataLoader:
        """Return a new loader of the samples for testing, with the options of validation.

        Raises:
            DatasetError: there are none.
        """
        if self._test is None and self._path is not None:
            self._test = _held_out(self._path, "test", self._test_split)
        if self._test is None:
            raise DatasetError(
                "CopyPasteDataModule: expected a dataset as test, or a path with a split that begins with test, got "
                "neither; give test=, or test_split="
            )
        return self._unchanged(self._test)

    def _unchanged(self, data: Dataset[DenseSample]) -> EpochDataLoader:
        options = {name: value for name, value in self._options.items() if name not in TRAINING_ONLY}
        options |= {"batch_size": self.batch_size, "scale_range": (1.0, 1.0), "hflip_prob": 0.0, "shuffle": False}
        return create_coco_dataloader(dataset=data, **options)

    def _with_crops(self, loader: EpochDataLoader) -> EpochDataLoader | zip_loaders:
        if self._pool is None or self._balance is None:
            return loader
        of_workers = "num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "multiprocessing_context"
        same = *of_workers, *PASSED, "base_seed", "rank", "num_replicas"
        crops = create_bank_dataloader(
            self._pool,
            batch_size=self.batch_size,
            crops_per_target=self._crops_per_target,
            steps=len(loader),
            mode=self._balance,
            **{name: self._options[name] for name in same if name in self._options},
        )
        return zip_loaders(loader, crops)

    def _training_loader(self) -> EpochDataLoader:
        return create_coco_dataloader(dataset=self.train_data, batch_size=self.batch_size, **self._options)


def _held_out(path: str | PathLike[str], prefix: str, split: str | None) -> Dataset[DenseSample] | None:
    """Return the named split of a dataset, or the one whose name begins with ``prefix``; None if there is none."""
    if split is None:
        names = [name for name in find_dataset(path).splits if name.startswith(prefix)]
        if len(names) > 1:
            use = {"val": "validation", "test": "testing"}[prefix]
            raise DatasetError(f"{path}: expected one split for {use}, got {', '.join(names)}; give {prefix}_split=")
        split = names[0] if names else None
    return None if split is None else open_dataset(path, split)
