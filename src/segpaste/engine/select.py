"""The choice of the backend: that of the device, or one that was asked for.

``SEGPASTE_KERNELS`` in the environment, or `use_kernels`, names one: ``reference`` runs anywhere.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

import torch

NAMES = ("reference", "cpu", "cuda")
"""The backends."""

_asked_for: str | None = os.environ.get("SEGPASTE_KERNELS") or None


def kernels_for(device: torch.device) -> ModuleType:
    """Return the module whose `resolve`, `measure` and `render` work on tensors of this device.

    Raises:
        ValueError: the environment names no backend.
    """
    if _asked_for is not None:
        return _named(_asked_for)
    return _for_cuda() if device.type == "cuda" else _named("reference")


def pastes_whole(device: torch.device) -> bool:
    """Tell whether the backend of this device does a whole paste at once: `paste` and `draw` of `segpaste.engine`."""
    if _asked_for is not None:
        return _asked_for == "cpu"
    return device.type == "cpu" and _cpu_is_there()


@contextmanager
def use_kernels(name: str | None) -> Iterator[None]:
    """Run one backend inside the ``with`` block, whatever the device; with None that of the device.

    That holds for the whole process, its other threads too.

    Raises:
        ValueError: there is none of this name.
    """
    global _asked_for
    if name is not None:
        _named(name)
    before, _asked_for = _asked_for, name
    try:
        yield
    finally:
        _asked_for = before


def _named(name: str) -> ModuleType:
    if name not in NAMES:
        raise ValueError(f"SEGPASTE_KERNELS: expected one of {', '.join(NAMES)}, got {name!r}")
    if name == "cpu":  # a whole paste is native, and nothing asks for its parts
        from segpaste.engine.native.library import load

        load()
        name = "reference"
    return import_module(f"segpaste.engine.{name}")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _cpu_is_there() -> bool:
    return _can_load()


@cache
def _can_load() -> bool:
    try:
        _named("cpu")
    except ImportError as error:
        warnings.warn(
            f"segpaste runs its slow reference kernels, for its native library cannot be used: {error}", stacklevel=2
        )
        return False
    return True


@cache
def _for_cuda() -> ModuleType:
    try:
        return _named("cuda")
    except ImportError as error:
        warnings.warn(
            f"segpaste runs its slow reference kernels, for Triton cannot be imported ({error}); install triton to be "
            "many times faster",
            stacklevel=2,
        )
        return _named("reference")
