"""Modules that eval mode switches off, and a context in which adapters that train paste whatever the mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn


class SwitchedModule(nn.Module):
    """A module that eval mode switches off, as dropout.

    Attributes:
        always: it stays on in eval mode.
    """

    always: bool = False

    @property
    def is_on(self) -> bool:
        """True in training mode, or with ``always``."""
        return self.training or self.always


@contextmanager
def pasting(augment: Any) -> Iterator[None]:
    """Paste within the context whatever the mode of an augmentation, since some trainers leave models in eval mode.

    Args:
        augment: a `BatchCopyPaste`, compiled or not, a module that has one, or a method or `functools.partial` of it;
            other functions stay as they are.
    """
    while not isinstance(augment, nn.Module) and (inner := _inner(augment)) is not None:
        augment = inner
    modules = augment.modules() if isinstance(augment, nn.Module) else ()
    switched = [module for module in modules if isinstance(module, SwitchedModule) and not module.training]
    for module in switched:
        module.training = True
    try:
        yield
    finally:
        for module in switched:
            module.training = False


def _inner(function: Any) -> Any:
    """Return what a partial function or a bound method is made of, else None."""
    return function.func if isinstance(function, partial) else getattr(function, "__self__", None)
