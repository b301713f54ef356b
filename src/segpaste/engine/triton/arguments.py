"""Records of a paste as kernel arguments: bools as bytes, absent planes as None."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from segpaste.engine.planes import PLANES, SHORT_NAMES
from segpaste.engine.record_fields import names_of
from segpaste.engine.reference.plan import AxisTable, LayerPlan
from segpaste.engine.triton.launching import argument_tuple, plain
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

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
