"""The three pixel functions for CUDA devices, written in Triton: a program to a tile, nothing awaited.

Without such a device they run on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from segpaste.engine import _cuda_paint, _cuda_visibility
from segpaste.engine.operands import (
    LayerPlan,
    Measures,
    Planes,
    Ranks,
    SlotPlan,
    Visible,
    empty_measures,
    empty_plane,
    empty_visible,
)

TILE = (8, 128)
"""Rows and columns of a tile: rows that fill a cache line of bytes, and 4 pixels to each of 256 threads."""

MASK_TILE = (16, 128)
"""Of masks, of which a program does one slot: 16 bytes, the most that a thread writes at once, to each of 128."""

PARTS = 16
"""Programs that share the box of a slot in `measure`: enough to keep a device busy with few slots."""

STRETCH = 2048
"""Pixels whose classes one program counts."""

BINS = 128
"""Classes that it counts at once."""

SLOT_BLOCK = 128
"""Slots whose measures one program writes."""


class PlaneArguments(NamedTuple):
    """`Planes` for the kernels: bools as bytes, what is absent None.

    The strides are those of ``images``, in any layout; all else is in row-major order. They are four integers, and not
    one tuple: Triton 3.6 loses an integer 1 inside a tuple of a tuple.
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


class RankArguments(NamedTuple):
    """`Ranks` for the kernels, None for tables that are empty."""

    of_class: Tensor | None
    of_slot: Tensor | None
    num_classes: int


class PlanArguments(NamedTuple):
    """`LayerPlan` for the kernels, its tables side by side, bools as bytes."""

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
    num_taps: int


def resolve(
    target: Planes,
    source: Planes,
    plan: LayerPlan,
    protected: Tensor,
    ranks: Ranks,
    with_owner: bool,
    ignore_index: int,
    tile_size: int,
) -> Visible:
    """As `segpaste.engine.reference.resolve`; ``tile_size`` has no meaning here."""
    visible = empty_visible(target, with_owner)
    rows, cols = TILE
    _launch(
        _cuda_visibility.resolve,
        len(visible.layer) * _num_tiles(target, TILE),
        visible.layer,
        visible.owner if with_owner else None,
        _plane_arguments(target),
        _plane_arguments(source),
        _plan_arguments(plan),
        _plain(protected),
        protected.shape[1],
        _rank_arguments(ranks),
        ignore_index,
        ROWS=rows,
        COLS=cols,
        SLOTS=_power_of_two(source.instance_masks.shape[1]),
        num_warps=8,
    )
    return visible


def measure(
    target: Planes,
    source: Planes,
    plan: LayerPlan,
    visible: Visible,
    exclusive: bool,
    num_classes: int,
    tile_size: int,
) -> Measures:
    """As `segpaste.engine.reference.measure`; ``tile_size`` has no meaning here."""
    measures = empty_measures(target, plan, num_classes)
    num_kept, num_pasted = measures.area.numel(), measures.paste_area.numel()
    found = torch.zeros(num_kept + num_pasted, 6, dtype=torch.int32, device=target.images.device)
    layer, owner = _plain(visible.layer), _plain(visible.owner) if exclusive else None
    rows, cols = TILE
    _launch(
        _cuda_visibility.measure,
        len(found) * PARTS,
        found,
        layer,
        owner,
        _plane_arguments(target),
        _plane_arguments(source),
        _plan_arguments(plan),
        len(layer),
        PARTS=PARTS,
        ROWS=rows,
        COLS=cols,
        num_warps=8,
    )
    height, width = layer.shape[1:]
    num_blocks = -(-len(found) // SLOT_BLOCK)
    _launch(
        _cuda_visibility.write_measures,
        num_blocks,
        found,
        measures,
        num_kept,
        num_pasted,
        width,
        height,
        SLOTS=SLOT_BLOCK,
    )
    if num_classes:
        measures.class_before.zero_()
        measures.class_after.zero_()
    if num_classes and target.semantic_maps is not None:
        _launch(
            _cuda_visibility.count_classes,
            len(layer) * -(-height * width // STRETCH),
            measures.class_before,
            measures.class_after,
            _plain(target.semantic_maps),
            layer,
            height * width,
            num_classes,
            PIXELS=STRETCH,
            BINS=BINS,
        )
    return measures


def render(
    target: Planes,
    source: Planes,
    plan: LayerPlan,
    visible: Visible,
    slots: SlotPlan,
    exclusive: bool,
    ignore_index: int,
    tile_size: int,
) -> Planes:
    """As `segpaste.engine.reference.render`; ``tile_size`` has no meaning here."""
    b, _, height, width = target.images.shape
    masks = torch.empty(b, slots.paste_layer.shape[1], height, width, dtype=torch.bool, device=target.images.device)
    kept = target._replace(instance_masks=masks, padding_mask=None)
    planes = kept._asdict().items()
    out = Planes(*(None if plane is None else empty_plane(name, plane) for name, plane in planes))  # type: ignore[arg-type]
    arguments = (
        _plane_arguments(out),
        _plane_arguments(target),
        _plane_arguments(source),
        _plan_arguments(plan),
        SlotPlan(*(_plain(t) for t in slots)),
        _plain(visible.layer),
    )
    owner = _plain(visible.owner) if len(visible.owner) else None
    rows, cols = MASK_TILE
    _launch(
        _cuda_paint.render_masks,
        b * masks.shape[1] * _num_tiles(target, MASK_TILE),
        *arguments,
        owner if exclusive else None,
        ROWS=rows,
        COLS=cols,
    )
    rows, cols = TILE
    _launch(
        _cuda_paint.render,
        b * _num_tiles(target, TILE),
        *arguments,
        owner,
        slots.ignored_class.shape[1],
        ignore_index,
        ROWS=rows,
        COLS=cols,
        TAPS=_power_of_two(plan.x.filter_idx.shape[2]),
        SLOTS=_power_of_two(target.instance_masks.shape[1]),
        num_warps=8,
    )
    return out


def _launch(kernel: Any, num_programs: int, *arguments: Any, **options: int) -> None:
    """Run a kernel, if there is anything to do, on the device of its first tensor."""
    if num_programs == 0:
        return
    device = _device_of(arguments)
    _check_device(device, isinstance(kernel, triton.JITFunction))
    guard: AbstractContextManager[Any] = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with guard:
        kernel[(num_programs,)](*arguments, **options, enable_fp_fusion=False)


def _check_device(device: torch.device, is_compiled: bool) -> None:
    if device.type != "cuda" and is_compiled:
        raise RuntimeError(
            f"segpaste's cuda kernels: expected tensors on a CUDA device, got {device}; move the batch to one, or use "
            "the cpu or reference kernels, or set TRITON_INTERPRET=1 before triton is imported (slow, for tests)"
        )


def _device_of(arguments: tuple[Any, ...]) -> torch.device:
    first = arguments[0]
    while isinstance(first, tuple):
        first = first[0]
    device: torch.device = first.device
    return device


def _num_tiles(target: Planes, tile: tuple[int, int]) -> int:
    """Tiles of one image."""
    height, width = target.images.shape[2:]
    return -(-height // tile[0]) * -(-width // tile[1])


def _power_of_two(size: int) -> int:
    """The lowest that is at least ``size``."""
    return 1 << max(0, size - 1).bit_length()


def _plain(tensor: Tensor) -> Tensor:
    """The values in row-major order, bools as bytes; a copy where they are not in that order."""
    tensor = tensor.contiguous()
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _plan_arguments(plan: LayerPlan) -> PlanArguments:
    tensors = [_plain(t) for t in (*plan[:-2], *plan.x, *plan.y)]
    return PlanArguments._make([*tensors, plan.carried.shape[1], plan.x.filter_idx.shape[2]])


def _rank_arguments(ranks: Ranks) -> RankArguments:
    num_classes = len(ranks.of_class)
    return RankArguments._make([*(_plain(t) if num_classes else None for t in ranks), num_classes])


def _plane_arguments(planes: Planes) -> PlaneArguments:
    """Images in their own layout, whose strides the kernels take; the rest in row-major order."""
    _, num_channels, height, width = planes.images.shape
    rest = [None if plane is None else _plain(plane) for plane in planes[1:]]
    sizes = num_channels, planes.instance_masks.shape[1], height, width, height * width
    return PlaneArguments._make([planes.images, *rest, *planes.images.stride(), *sizes])
