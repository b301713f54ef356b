"""Records of a paste as kernel arguments: bools as bytes, absent planes as None."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from segpaste.engine.planes import PLANES
from segpaste.engine.reference.plan import LayerPlan
from segpaste.engine.triton.launching import plain
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none


class PlaneArguments(NamedTuple):
    """Planes of a batch, in the order of `PLANES`.

    ``images`` may have any layout, which the strides describe; all other planes are row-major. The strides are four
    integers and not a tuple, because Triton 3.6 loses an integer 1 inside a nested tuple.
    """

    images: Tensor
    masks: Tensor
    semantic: Tensor | None
    panoptic: Tensor | None
    depth: Tensor | None
    depth_valid: Tensor | None
    normals: Tensor | None
    padding: Tensor | None
    batch_stride: int
    channel_stride: int
    row_stride: int
    col_stride: int
    num_channels: int
    num_slots: int
    height: int
    width: int
    size: int


class PlanArguments(NamedTuple):
    """Flattened `LayerPlan`; ``num_slots`` is the number of slots of ``carried``."""

    source_idx: Tensor
    carried: Tensor
    hflip: Tensor
    depth_scale: Tensor
    paste_box: Tensor
    target_box: Tensor
    x_nearest: Tensor
    x_linear_idx: Tensor
    x_linear_weight: Tensor
    x_filter_idx: Tensor
    x_filter_weight: Tensor
    y_nearest: Tensor
    y_linear_idx: Tensor
    y_linear_weight: Tensor
    y_filter_idx: Tensor
    y_filter_weight: Tensor
    num_layers: int
    num_slots: int
    num_taps: int


def plan_arguments(plan: LayerPlan) -> PlanArguments:
    """Return a plan as arguments."""
    tensors = [plain(t) for t in (*plan[:-2], *plan.x, *plan.y)]
    return PlanArguments._make([*tensors, *plan.carried.shape[1:], plan.x.filter_idx.shape[2]])


def plane_arguments(batch: PaddedBatchedDenseSample) -> PlaneArguments:
    """Return the planes of a batch: images in their own layout with its strides, the others in row-major order."""
    _, num_channels, height, width = batch.images.shape
    planes: list[Tensor | None] = [getattr(batch, name) for name in (*PLANES[1:], "padding_mask")]
    lined = [None if plane is None else plain(plane) for plane in planes]
    sizes = num_channels, not_none(batch.instance_masks).shape[1], height, width, height * width
    return PlaneArguments._make([batch.images, *lined, *batch.images.stride(), *sizes])
