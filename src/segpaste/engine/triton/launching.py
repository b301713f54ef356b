"""Launches of Triton kernels, and the conversion of tensors to kernel arguments."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor


def launch(kernel: Any, num_programs: int, *arguments: Any, **options: int) -> None:
    """Run a kernel on the device of its first tensor, unless ``num_programs`` is 0.

    Every kernel of this backend is launched here, without fused multiply-adds: see `segpaste.engine.triton._surfaces`.

    Raises:
        RuntimeError: the tensors are on another device, and the kernel is compiled.
    """
    if num_programs == 0:
        return
    device = _device_of(arguments)
    _check_device(device, isinstance(kernel, triton.JITFunction))
    guard: AbstractContextManager[Any] = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with guard:
        kernel[(num_programs,)](*arguments, **options, enable_fp_fusion=False)


def argument_tuple(name: str, *fields: str) -> Any:
    """Return a class of named tuples, in which a kernel reads arguments by name."""
    return namedtuple(name, fields)


def power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << max(0, size - 1).bit_length()


def plain(tensor: Tensor) -> Tensor:
    """Return the values in row-major order, bools as bytes; a copy if they are in another order."""
    tensor = tensor.contiguous()
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _check_device(device: torch.device, is_compiled: bool) -> None:
    if device.type != "cuda" and is_compiled:
        raise RuntimeError(
            f"segpaste's triton backend: expected tensors on a CUDA device, got {device}; move the batch to one, or "
            "use another backend, or set TRITON_INTERPRET=1 before triton is imported (slow, for tests)"
        )


def _device_of(arguments: tuple[Any, ...]) -> torch.device:
    return next(_tensors(arguments)).device


def _tensors(arguments: tuple[Any, ...]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _tensors(argument)
        elif isinstance(argument, Tensor):
            yield argument
