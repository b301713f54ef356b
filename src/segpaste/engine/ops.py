"""The three pixel functions as custom operators, so that eager and compiled code run the very same bits.

The operators take lists of tensors (the fields of the tuples in `segpaste.engine.operands`, in their order),
because that is what an operator schema can say. Call `resolve`, `measure` and `render` below instead.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from segpaste.engine.operands import (
    AxisTable,
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
from segpaste.engine.select import kernels_for

_NUM_AXIS = len(AxisTable._fields)


def focal_ratio(target_camera: Tensor, source_camera: Tensor, source_idx: Tensor) -> Tensor:
    """The factor that metric depth takes from one camera to another, the ratio of their focal lengths.

    An operator of its own, because a compiler that fuses the roots and the division rounds them otherwise, and the
    last bit of a depth decides who is seen.

    Args:
        target_camera: [B, 4] float32 (fx, fy, cx, cy), pixels.
        source_camera: [S, 4] float32, likewise.
        source_idx: [B, L] int64, the row of the source.

    Returns:
        [B, L] float32; the focal length of a camera is the geometric mean of fx and fy.
    """
    ratio: Tensor = _focal_ratio(target_camera, source_camera, source_idx)
    return ratio


def inverse_scale(scale_num: Tensor, scale_den: Tensor) -> Tensor:
    """One over the scale of each layer, the geometric mean of both axes; an operator for the reason of `focal_ratio`.

    Args:
        scale_num: [B, L, 2] int64.
        scale_den: [B, L, 2] int64.

    Returns:
        [B, L] float32.
    """
    inverse: Tensor = _inverse_scale(scale_num, scale_den)
    return inverse


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
    """See `segpaste.engine.reference.resolve`."""
    return Visible(
        *_resolve(list(target), list(source), _flat(plan), protected, list(ranks), with_owner, ignore_index, tile_size)
    )


def measure(
    target: Planes,
    source: Planes,
    plan: LayerPlan,
    visible: Visible,
    exclusive: bool,
    num_classes: int,
    tile_size: int,
) -> Measures:
    """See `segpaste.engine.reference.measure`."""
    return Measures(
        *_measure(list(target), list(source), _flat(plan), list(visible), exclusive, num_classes, tile_size)
    )


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
    """See `segpaste.engine.reference.render`."""
    written = iter(
        _render(list(target), list(source), _flat(plan), list(visible), list(slots), exclusive, ignore_index, tile_size)
    )
    planes: list[Any] = [next(written) if _is_written(f, p) else None for f, p in target._asdict().items()]
    return Planes(*planes)


def _is_written(name: str, plane: Tensor | None) -> bool:
    return plane is not None and name != "padding_mask"


def _flat(plan: LayerPlan) -> list[Tensor]:
    return [*plan[:-2], *plan.x, *plan.y]


def _unflat(tensors: list[Tensor]) -> LayerPlan:
    num_own = len(LayerPlan._fields) - 2
    x, y = tensors[num_own : num_own + _NUM_AXIS], tensors[num_own + _NUM_AXIS :]
    return LayerPlan(*tensors[:num_own], AxisTable(*x), AxisTable(*y))  # type: ignore[arg-type,call-arg]


@torch.library.custom_op("segpaste::focal_ratio", mutates_args=())
def _focal_ratio(target_camera: Tensor, source_camera: Tensor, source_idx: Tensor) -> Tensor:
    # In float32 the product of two small roots would lose bits, or all of them.
    target, source = (c[:, :2].double().sqrt().prod(1) for c in (target_camera, source_camera))
    return (target[:, None] / source[source_idx]).float()


@torch.library.custom_op("segpaste::inverse_scale", mutates_args=())
def _inverse_scale(scale_num: Tensor, scale_den: Tensor) -> Tensor:
    return (scale_den.double().prod(-1) / scale_num.double().prod(-1)).sqrt().float()


@_inverse_scale.register_fake
def _(scale_num: Tensor, scale_den: Tensor) -> Tensor:
    return scale_num.new_empty(scale_num.shape[:-1], dtype=torch.float32)


@_focal_ratio.register_fake
def _(target_camera: Tensor, source_camera: Tensor, source_idx: Tensor) -> Tensor:
    return target_camera.new_empty(source_idx.shape)


@torch.library.custom_op("segpaste::resolve", mutates_args=())
def _resolve(
    target: list[Tensor | None],
    source: list[Tensor | None],
    plan: list[Tensor],
    protected: Tensor,
    ranks: list[Tensor],
    with_owner: bool,
    ignore_index: int,
    tile_size: int,
) -> list[Tensor]:
    planes = Planes(*target), Planes(*source)  # type: ignore[arg-type]
    kernels = kernels_for(protected.device)
    return list(kernels.resolve(*planes, _unflat(plan), protected, Ranks(*ranks), with_owner, ignore_index, tile_size))


@_resolve.register_fake
def _(
    target: list[Tensor | None],
    source: list[Tensor | None],
    plan: list[Tensor],
    protected: Tensor,
    ranks: list[Tensor],
    with_owner: bool,
    ignore_index: int,
    tile_size: int,
) -> list[Tensor]:
    return list(empty_visible(Planes(*target), with_owner))  # type: ignore[arg-type]


@torch.library.custom_op("segpaste::measure", mutates_args=())
def _measure(
    target: list[Tensor | None],
    source: list[Tensor | None],
    plan: list[Tensor],
    visible: list[Tensor],
    exclusive: bool,
    num_classes: int,
    tile_size: int,
) -> list[Tensor]:
    return list(
        kernels_for(visible[0].device).measure(
            Planes(*target),  # type: ignore[arg-type]
            Planes(*source),  # type: ignore[arg-type]
            _unflat(plan),
            Visible(*visible),
            exclusive,
            num_classes,
            tile_size,
        )
    )


@_measure.register_fake
def _(
    target: list[Tensor | None],
    source: list[Tensor | None],
    plan: list[Tensor],
    visible: list[Tensor],
    exclusive: bool,
    num_classes: int,
    tile_size: int,
) -> list[Tensor]:
    return list(empty_measures(Planes(*target), _unflat(plan), num_classes))  # type: ignore[arg-type]


@torch.library.custom_op("segpaste::render", mutates_args=())
def _render(
    target: list[Tensor | None],
    source: list[Tensor | None],
    plan: list[Tensor],
    visible: list[Tensor],
    slots: list[Tensor],
    exclusive: bool,
    ignore_index: int,
    tile_size: int,
) -> list[Tensor]:
    planes = kernels_for(visible[0].device).render(
        Planes(*target),  # type: ignore[arg-type]
        Planes(*source),  # type: ignore[arg-type]
        _unflat(plan),
        Visible(*visible),
        SlotPlan(*slots),
        exclusive,
        ignore_index,
        tile_size,
    )
    return [plane for plane in planes if plane is not None]


@_render.register_fake
def _(
    target: list[Tensor | None],
    source: list[Tensor | None],
    plan: list[Tensor],
    visible: list[Tensor],
    slots: list[Tensor],
    exclusive: bool,
    ignore_index: int,
    tile_size: int,
) -> list[Tensor]:
    out = []
    for name, plane in zip(Planes._fields, target, strict=True):
        if name == "instance_masks" and plane is not None:
            b, _, height, width = plane.shape
            out.append(plane.new_empty(b, slots[2].shape[1], height, width))
        elif plane is not None and name != "padding_mask":
            out.append(empty_plane(name, plane))
    return out
