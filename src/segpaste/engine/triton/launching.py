"""Launches of Triton kernels, and their arguments: bools as bytes, absent planes as None."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from segpaste.engine.planes import PLANES, SHORT_NAMES
from segpaste.engine.record_fields import names_of
from segpaste.engine.reference.plan import AxisTable, LayerPlan
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none


def launch(kernel: Any, num_programs: int, *arguments: Any, **options: int) -> None:
    """Run a kernel on the device of its first tensor, unless ``num_programs`` is 0.

    Every kernel of this backend is launched here, without fused multiply-adds: see
    `segpaste.engine.triton._interpolation`.

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


_PLANES = [*PLANES, "padding_mask"]

PlaneArguments = argument_tuple(
    "PlaneArguments",
    *(SHORT_NAMES.get(name, name) for name in _PLANES),
    *("batch_stride", "channel_stride", "row_stride", "col_stride"),
    *("num_channels", "num_slots", "height", "width", "size"),
)
"""Planes of a batch.

``images`` may have any layout, which the strides describe; all other planes are row-major. The strides are four
integers and not a tuple, because Triton 3.6 loses an integer 1 inside a nested tuple.
"""

PlanArguments = argument_tuple(
    "PlanArguments",
    *names_of(LayerPlan),
    *(f"{axis}_{name}" for axis in ("x", "y") for name in names_of(AxisTable)),
    *("num_layers", "num_slots", "num_taps"),
)
"""Flattened `LayerPlan`; ``num_slots`` is the number of slots of ``carried``."""


def plan_arguments(plan: LayerPlan) -> Any:
    """Return a plan as arguments."""
    tensors = [plain(t) for t in (*plan[:-2], *plan.x, *plan.y)]
    return PlanArguments._make([*tensors, *plan.carried.shape[1:], plan.x.filter_idx.shape[2]])


def plane_arguments(batch: PaddedBatchedDenseSample) -> Any:
    """Return the planes of a batch: images in their own layout with its strides, the others in row-major order."""
    _, num_channels, height, width = batch.images.shape
    planes: list[Tensor | None] = [getattr(batch, name) for name in _PLANES[1:]]
    lined = [None if plane is None else plain(plane) for plane in planes]
    sizes = num_channels, not_none(batch.instance_masks).shape[1], height, width, height * width
    return PlaneArguments._make([batch.images, *lined, *batch.images.stride(), *sizes])
