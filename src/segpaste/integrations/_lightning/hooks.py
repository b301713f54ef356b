"""Parts of Lightning that a callback needs: the name of its package, and the hook that batches pass through."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from segpaste.extras import require

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
