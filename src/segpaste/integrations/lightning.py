"""Adapter for Lightning: a callback that pastes into every training batch, and a DataModule of images that can resume.

    from segpaste import BatchCopyPaste
    from segpaste.integrations.lightning import CopyPasteCallback, CopyPasteDataModule

    data = CopyPasteDataModule("data.yaml", batch_size=8, size=640)
    Trainer(max_epochs=50, callbacks=[CopyPasteCallback(BatchCopyPaste())]).fit(model, datamodule=data)

The batch is pasted on the trainer's device, after the transfer, and before ``on_after_batch_transfer`` of the model or
of the DataModule, where colours are often normalised. Validation does not change. Not for a ``training_step`` that
takes ``dataloader_iter``: Lightning does not move its batches.

The classes are based on the package that is in use, ``lightning.pytorch`` or ``pytorch_lightning``. If both are
installed, import yours before this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from segpaste.augmentation.loading import AugmentedLoader
from segpaste.augmentation.modes import pasting
from segpaste.integrations._lightning import (
    HOOK,
    RESTARTED,
    CopyPasteDataModule,
    framework,
    owner_of_hook,
    restarts_epoch,
    wrap,
)
from segpaste.integrations._training import (
    PICTURE,
    FirstBatch,
    expect_augmentation,
    fades,
    follow,
    has_limit,
    module_of,
    num_batches_done,
    progress_of,
)
from segpaste.seeding import derive_seed, to_int64
from segpaste.types import PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import check_class

__all__ = ["CopyPasteCallback", "CopyPasteDataModule"]


class CopyPasteCallback(framework.Callback):
    """A callback that pastes into every training batch, once it is on the device.

    A batch is a `segpaste.PaddedBatchedDenseSample`, or a pair of one and of staged crops, as
    `segpaste.bank.zip_loaders` yields it; the training step gets the padded batch. Batches without ``sample_seeds`` get
    seeds made from torch's initial seed on the first rank, the epoch, the rank and the position in the epoch.

    With balanced classes of a `CopyPasteDataModule`, the first process prints the expected pastes of each class in an
    epoch.

    Checkpoints hold the schedule of the augmentation and the initial seed. Lightning adds the positions of the loaders.

    Args:
        augment: the augmentation, such as `segpaste.BatchCopyPaste`, compiled or not; a module is moved to the device.
        progress: set the progress of the schedule before each batch, see
            `segpaste.augmentation.schedule.Schedule.at`; False leaves the schedule to its owner.
        first_batch: save a picture of the first pasted batch as ``copy_paste_batch.jpg`` in the folder of the logger,
            if it has one. Float images are drawn in 0..``source.value_range`` of the config, else in 0..255 if
            any value is above 2, else in 0..1.

    Raises:
        TypeError: ``augment`` is not callable, or ``progress`` or ``first_batch`` is not a bool.
    """

    def __init__(
        self,
        augment: Callable[..., PaddedBatchedDenseSample] | nn.Module,
        progress: bool = True,
        first_batch: bool = True,
    ) -> None:
        super().__init__()
        expect_augmentation("CopyPasteCallback", augment)
        check_class("progress", progress, bool)
        check_class("first_batch", first_batch, bool)
        self.augment = augment
        self.progress = progress
        self.first_batch = FirstBatch() if first_batch else None
        self._base_seed: int | None = None
        self._is_training = self._has_run = self._has_begun = False
        self._unwrap: Callable[[], None] | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Wrap the hook of batches, so that they pass through the augmentation until `teardown`."""
        self._end()
        self._base_seed = None  # another training may be seeded differently
        if stage == "fit":
            owner = owner_of_hook(trainer.datamodule, pl_module)
            self._unwrap = wrap(owner, partial(self._after_transfer, trainer))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Restore the hook that `setup` wrapped."""
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Restore the hook, because Lightning does not call `teardown` after an exception."""
        self._end()

    def _end(self) -> None:
        if self._unwrap is not None:
            self._unwrap()
        self._unwrap = None
        self._is_training = False

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Move the augmentation to the device of the model."""
        if isinstance(self.augment, nn.Module):
            self.augment.to(pl_module.device)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check that the progress is known and the position of a checkpoint was loaded, and agree on a seed."""
        if self.progress and fades(self.augment) and not has_limit(trainer):
            raise ValueError(
                "CopyPasteCallback: expected max_epochs or max_steps in the Trainer, since the augmentation fades out "
                "at the end of training, got neither; give one, or progress=False and call augment.schedule.at"
            )
        if isinstance(trainer.train_dataloader, AugmentedLoader):
            raise ValueError(
                "CopyPasteCallback: expected a loader of batches without pastes, got one of from_dataloader, which "
                "pastes already; give the loader inside it"
            )
        if restarts_epoch(trainer):
            warnings.warn(RESTARTED, stacklevel=2)
        self._agree_on_seed(trainer)
        self._is_training, self._has_run, self._has_begun = True, False, False

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop pasting."""
        self._is_training = False

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Check that the batch was pasted.

        Raises:
            RuntimeError: Lightning did not call the hook with it.
        """
        if not self._has_run:
            raise RuntimeError(
                f"CopyPasteCallback: expected Lightning to call {HOOK} with every training batch, got a batch without "
                "a call; a training_step that takes dataloader_iter must paste by itself"
            )
        self._has_run = False

    @property
    def pastes_per_image(self) -> float | None:
        """Expected number of objects drawn for an image; None if the augmentation does not have it."""
        return getattr(module_of(self.augment), "pastes_per_image", None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the augmentation, that is of its schedule, and the seed."""
        module = module_of(self.augment)
        return {"augment": None if module is None else dict(module.state_dict()), "base_seed": self._base_seed}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state from a checkpoint."""
        module = module_of(self.augment)
        if module is not None and state_dict["augment"] is not None:
            module.load_state_dict(state_dict["augment"])
        self._base_seed = state_dict["base_seed"]

    def _after_transfer(self, trainer: Any, batch: Any) -> Any:
        """Return a batch that was moved to the device, with pastes if it is a training batch."""
        if not trainer.training or not (self._is_training or _can_be_pasted(batch)):
            return batch
        self._has_run = True
        target, staged = _parts_of(batch)
        if not self._is_training:  # a tuner such as Tuner.lr_find trains without callbacks
            self._agree_on_seed(trainer)
            self.on_fit_start(trainer, trainer.lightning_module)
        elif self.progress:
            follow(self.augment, progress_of(trainer))
        options = {} if staged is None else {"staged": staged}
        if options and getattr(module_of(self.augment), "crops", None) is not None:
            raise ValueError(
                "CopyPasteCallback: expected an augmentation without source_pool, since the batch has crops to paste, "
                "got one with source_pool; leave it out, or balance= of the CopyPasteDataModule"
            )
        with torch.no_grad(), pasting(self.augment):
            pasted = self.augment(self._seeded(target, trainer), **options)
        if self._is_training and not self._has_begun:
            self._has_begun = True
            self._tell(trainer, pasted, staged)
        return pasted

    def _agree_on_seed(self, trainer: Any) -> None:
        if self._base_seed is None:
            self._base_seed = int(trainer.strategy.broadcast(torch.initial_seed() % (1 << 64)))

    def _tell(self, trainer: Any, pasted: PaddedBatchedDenseSample, staged: StagedCrops | None) -> None:
        """Print the expected pastes of an epoch, and draw its first batch."""
        data, source = trainer.datamodule, getattr(getattr(module_of(self.augment), "config", None), "source", None)
        data = data if isinstance(data, CopyPasteDataModule) else None
        if staged is not None and trainer.is_global_zero:
            if source is not None and source.crops_per_target < staged.num_crops:
                _warn_of_crops(staged.num_crops, source.crops_per_target)
            if data is not None and self.pastes_per_image is not None:
                data.print_expected("CopyPasteCallback", self.pastes_per_image)
        if self.first_batch is not None and trainer.loggers:
            names = None if data is None else getattr(data.train_data, "class_names", None)
            white = _white_of(pasted.images, getattr(source, "value_range", None))
            folder = trainer.log_dir  # None for fast_dev_run, and for loggers without local files
            path = None if folder is None else Path(folder) / PICTURE
            self.first_batch.draw(pasted, path, class_names=names, value_range=(0.0, white))

    def _seeded(self, batch: PaddedBatchedDenseSample, trainer: Any) -> PaddedBatchedDenseSample:
        if batch.sample_seeds is not None:
            return batch
        assert self._base_seed is not None
        first = num_batches_done(trainer) << 32
        keys = self._base_seed, trainer.current_epoch, trainer.global_rank, 0
        seeds = [to_int64(derive_seed(*keys, first + row)) for row in range(batch.batch_size)]
        return batch.derived(sample_seeds=torch.tensor(seeds, dtype=torch.int64, device=batch.device))


def _warn_of_crops(num_crops: int, num_pasted: int) -> None:
    warnings.warn(
        f"CopyPasteCallback: expected {num_pasted} crops for each image, since the augmentation pastes no more, got "
        f"{num_crops}; set crops_per_target={num_pasted} in the CopyPasteDataModule or the loader of the crops, or "
        f"crops_per_target={num_crops} in the SourceConfig",
        stacklevel=2,
    )


def _white_of(images: Tensor, white: float | None) -> float:
    """Return the value of white: as given, or 255 for floats that `segpaste.viz.show` does not treat as 0..1."""
    if white is not None:
        return white
    return 255.0 if images.is_floating_point() and bool((images > 2).any()) else 1.0


def _can_be_pasted(batch: Any) -> bool:
    """Return whether `_parts_of` takes a batch; it does not take the example input of a model."""
    is_pair = isinstance(batch, tuple | list) and len(batch) == 2 and isinstance(batch[1], StagedCrops)
    return isinstance(batch[0] if is_pair else batch, PaddedBatchedDenseSample)


def _parts_of(batch: Any) -> tuple[PaddedBatchedDenseSample, StagedCrops | None]:
    """Return the targets of a batch, and the crops to paste if it has any."""
    target, staged = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
    if not isinstance(target, PaddedBatchedDenseSample) or not isinstance(staged, StagedCrops | None):
        raise TypeError(
            "CopyPasteCallback: expected PaddedBatchedDenseSample, or a pair of it and StagedCrops, got "
            f"{type(batch).__name__}; use CopyPasteDataModule or EpochDataLoader, or convert it in "
            "on_before_batch_transfer"
        )
    return target, staged
