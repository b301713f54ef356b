"""The three pixel functions for the CPU, compiled by Numba: several batch rows at once.

Rows are shared out among as many threads as torch would use; the loops hold no lock. Images in half precision are read
and written through float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.kernels import _cpu_paint, _cpu_visibility
from segpaste.kernels.operands import (
    LayerPlan,
    Measures,
    Planes,
    SlotPlan,
    Visible,
    empty_measures,
    empty_plane,
    empty_visible,
)

Array = NDArray[Any]


class PlaneArrays(NamedTuple):
    """`Planes` for the loops: without single channels, masks as bytes, what is absent of length 0.

    ``colours`` is ``images`` once more, [B, C * H * W] in the order of the memory, whatever that is.
    """

    images: Array
    colours: Array
    masks: Array
    semantic: Array
    panoptic: Array
    depth: Array
    depth_valid: Array
    normals: Array
    padding: Array


class PlanArrays(NamedTuple):
    """`LayerPlan` for the loops, its tables side by side.

    Indices of taps have no sign, so that the loops need not look for negative ones.
    """

    source_idx: Array
    carried: Array
    hflip: Array
    depth_scale: Array
    paste_box: Array
    target_box: Array
    x_nearest: Array
    x_linear_idx: Array
    x_linear_weight: Array
    x_filter_idx: Array
    x_filter_weight: Array
    y_nearest: Array
    y_linear_idx: Array
    y_linear_weight: Array
    y_filter_idx: Array
    y_filter_weight: Array


def resolve(
    target: Planes,
    source: Planes,
    plan: LayerPlan,
    protected: Tensor,
    with_owner: bool,
    ignore_index: int,
    tile_size: int,
) -> Visible:
    """As `segpaste.kernels.reference.resolve`; ``tile_size`` has no meaning here."""
    visible = empty_visible(target, with_owner)
    arguments = _plan_arrays(plan), _plane_arrays(target), _plane_arrays(source), _array(protected), ignore_index
    layer, owner = visible.layer.numpy(), visible.owner.numpy()
    _share_out(len(layer), lambda first, end: _cpu_visibility.resolve_rows(first, end, layer, owner, *arguments))
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
    """As `segpaste.kernels.reference.measure`; ``tile_size`` has no meaning here."""
    measures = empty_measures(target, plan, num_classes)
    layer, owner = _visible_arrays(visible, exclusive)
    arguments = _plan_arrays(plan), _plane_arrays(target), _plane_arrays(source)
    out = Measures(*(m.numpy() for m in measures))  # type: ignore[arg-type]
    _share_out(len(layer), lambda first, end: _cpu_visibility.measure_rows(first, end, layer, owner, *arguments, out))
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
    """As `segpaste.kernels.reference.render`; ``tile_size`` has no meaning here."""
    if target.images.dtype in (torch.float16, torch.bfloat16):
        wide, wide_source = (p._replace(images=p.images.float()) for p in (target, source))
        out = render(wide, wide_source, plan, visible, slots, exclusive, ignore_index, tile_size)
        return out._replace(images=out.images.to(target.images.dtype))
    b, _, height, width = target.images.shape
    masks = torch.empty(b, slots.paste_layer.shape[1], height, width, dtype=torch.bool)
    kept = target._replace(instance_masks=masks, padding_mask=None)
    planes = kept._asdict().items()
    out = Planes(*(None if plane is None else empty_plane(name, plane) for name, plane in planes))  # type: ignore[arg-type]
    is_integer = target.images.dtype == torch.uint8
    to, of, origin = _plane_arrays(out), _plane_arrays(target), _plane_arrays(source)
    layer, owner = visible.layer.numpy(), visible.owner.numpy()
    plan_arrays = _plan_arrays(plan)
    slot_arrays = SlotPlan(*(_array(t) for t in slots))  # type: ignore[arg-type]

    arguments = layer, owner, plan_arrays, of, origin, slot_arrays, exclusive, ignore_index

    def render_rows(first: int, end: int) -> None:
        lines = np.empty((2, max(origin.images.shape[3], width)), np.int32 if is_integer else np.float32)
        _cpu_paint.render_rows(first, end, to, *arguments, lines)

    _share_out(len(layer), render_rows)
    return out


def _array(tensor: Tensor) -> Array:
    """The values, in row-major order; a copy where they are not, so never for what is written."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


def _plan_arrays(plan: LayerPlan) -> PlanArrays:
    tables = []
    for table in (plan.x, plan.y):
        nearest, linear_idx, linear_weight, filter_idx, filter_weight = (_array(t) for t in table)
        tables += [nearest, linear_idx.view(np.uint32), linear_weight, filter_idx.view(np.uint32), filter_weight]
    return PlanArrays(*(_array(t) for t in plan[:-2]), *tables)


def _plane_arrays(planes: Planes) -> PlaneArrays:
    def flat(plane: Tensor | None, dtype: torch.dtype, ndim: int = 3) -> Array:
        if plane is None:
            return np.empty((0,) * ndim, torch.empty(0, dtype=dtype).numpy().dtype)
        return _array(plane[:, 0] if plane.ndim > ndim else plane)

    images = planes.images.detach()
    if images.dtype in (torch.float16, torch.bfloat16):
        images = images.view(torch.int16)  # only their shape is read; `render` has float32 here
    in_memory = images
    if not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last):
        in_memory = images.permute(0, 2, 3, 1)
    elif not images.is_contiguous():
        images = in_memory = images.contiguous()
    return PlaneArrays(
        images=images.numpy(),
        colours=in_memory.reshape(len(images), in_memory.shape[1:].numel()).numpy(),
        masks=_array(planes.instance_masks.view(torch.uint8)),
        semantic=flat(planes.semantic_maps, torch.int64),
        panoptic=flat(planes.panoptic_maps, torch.int64),
        depth=flat(planes.depth, torch.float32),
        depth_valid=flat(planes.depth_valid, torch.bool),
        normals=flat(planes.normals, torch.float32, ndim=4),
        padding=flat(planes.padding_mask, torch.bool),
    )


def _visible_arrays(visible: Visible, exclusive: bool) -> tuple[Array, Array]:
    owner = visible.owner if exclusive else visible.owner[:0]
    return visible.layer.numpy(), owner.numpy()


# One pool for each process: a forked child has no threads of its parent's.
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def _share_out(num_rows: int, work: Callable[[int, int], None], num_threads: int | None = None) -> None:
    """Do ``work(first, end)`` for all rows, in equal parts on as many threads as torch uses, the caller's too."""
    num_parts = max(1, min(num_threads or torch.get_num_threads(), num_rows))
    parts = [(num_rows * i // num_parts, num_rows * (i + 1) // num_parts) for i in range(num_parts)]
    helpers: list[Future[None]] = []
    if num_parts > 1:
        pool = _thread_pool(num_parts - 1)
        helpers = [pool.submit(work, *part) for part in parts[1:]]
    work(*parts[0])
    for helper in helpers:
        helper.result()


def _thread_pool(num_threads: int) -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] < num_threads:
        _pool = os.getpid(), num_threads, ThreadPoolExecutor(num_threads, thread_name_prefix="segpaste")
    return _pool[2]
