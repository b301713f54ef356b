"""The schedule of an augmentation under a trainer, which knows the progress of training."""

from __future__ import annotations

from typing import Any

from torch import nn

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.schedule import Schedule


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
