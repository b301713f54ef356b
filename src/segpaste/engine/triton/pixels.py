"""The pixels of a paste on CUDA devices, written in Triton, which never wait for the device.

Without such a device they run on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.planes import PLANES, empty_plane, present_planes
from segpaste.engine.records import Scene
from segpaste.engine.reference.plan import LayerPlan, SlotPlan, Visible
from segpaste.engine.triton import _paint
from segpaste.engine.triton.launching import launch, plain, power_of_two
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

TILE = (8, 128)
"""Rows and columns of a tile: a row of bytes fills a cache line, and each of 256 threads has 4 pixels."""

MASK_TILE = (16, 128)
"""Rows and columns of a tile of one mask: each of 128 threads has 16 bytes, the most that it can write at once."""


class PlaneArguments(NamedTuple):
    """Planes of a batch as kernel arguments, in the order of `PLANES`: bools as bytes, absent planes as None.

    The strides are those of ``images``, in any layout; all other planes are row-major. They are four integers and not a
    tuple, because Triton 3.6 loses an integer 1 inside a tuple of a tuple.
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
    """Flattened `LayerPlan` as kernel arguments, bools as bytes."""

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


def render(scene: Scene, plan: LayerPlan, visible: Visible, slots: SlotPlan) -> dict[str, Tensor]:
    """See `segpaste.engine.reference.pixels.render`."""
    target, (height, width) = scene.target, scene.target.canvas_size
    b, num_slots = slots.paste_layer.shape
    masks = torch.empty(b, num_slots, height, width, dtype=torch.bool, device=target.device)
    planes = {name: empty_plane(name, plane) for name, plane in present_planes(target).items()}
    planes["instance_masks"] = masks
    arguments = (
        _plane_arguments(target.derived(**planes, padding_mask=None)),
        _plane_arguments(target),
        _plane_arguments(scene.source),
        _plan_arguments(plan),
        SlotPlan(*(plain(t) for t in slots)),
        plain(visible.layer),
    )
    owner = plain(visible.owner) if scene.needs_owner else None
    rows, cols = MASK_TILE
    launch(
        _paint.render_masks,
        b * num_slots * _num_tiles(scene, MASK_TILE),
        *arguments,
        owner if scene.is_panoptic else None,
        ROWS=rows,
        COLS=cols,
    )
    rows, cols = TILE
    launch(
        _paint.render,
        b * _num_tiles(scene, TILE),
        *arguments,
        owner,
        slots.ignored_class.shape[1],
        scene.rules.ignore_index,
        ROWS=rows,
        COLS=cols,
        TAPS=power_of_two(plan.x.filter_idx.shape[2]),
        SLOTS=power_of_two(target.max_instances),
        num_warps=8,
    )
    return planes


def _num_tiles(scene: Scene, tile: tuple[int, int]) -> int:
    """Return the number of tiles of one image."""
    height, width = scene.target.canvas_size
    return -(-height // tile[0]) * -(-width // tile[1])


def _plan_arguments(plan: LayerPlan) -> PlanArguments:
    tensors = [plain(t) for t in (*plan[:-2], *plan.x, *plan.y)]
    return PlanArguments._make([*tensors, *plan.carried.shape[1:], plan.x.filter_idx.shape[2]])


def _plane_arguments(batch: PaddedBatchedDenseSample) -> PlaneArguments:
    """Return the planes of a batch: images in their own layout with its strides, the others in row-major order."""
    _, num_channels, height, width = batch.images.shape
    planes: list[Tensor | None] = [getattr(batch, name) for name in (*PLANES[1:], "padding_mask")]
    lined = [None if plane is None else plain(plane) for plane in planes]
    sizes = num_channels, not_none(batch.instance_masks).shape[1], height, width, height * width
    return PlaneArguments._make([batch.images, *lined, *batch.images.stride(), *sizes])
