"""The three pixel functions for CUDA devices, written in Triton, which never wait for the device.

Without such a device they run on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.planes import PLANES, empty_plane, present_planes
from segpaste.engine.records import Scene
from segpaste.engine.reference.pixels import slot_ranks
from segpaste.engine.reference.plan import LayerPlan, Measures, SlotPlan, Visible, empty_measures, empty_visible
from segpaste.engine.triton import _paint, _visibility
from segpaste.engine.triton.launching import launch, plain, power_of_two
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

TILE = (8, 128)
"""Rows and columns of a tile: a row of bytes fills a cache line, and each of 256 threads has 4 pixels."""

MASK_TILE = (16, 128)
"""Rows and columns of a tile of one mask: each of 128 threads has 16 bytes, the most that it can write at once."""

PARTS = 16
"""Number of programs that share the box of a slot in `measure`: enough to keep a device busy with few slots."""

STRETCH = 2048
"""Number of pixels whose classes one program counts."""

BINS = 128
"""Number of classes that it counts at once."""

SLOT_BLOCK = 128
"""Number of slots whose measures one program writes."""


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


class RankArguments(NamedTuple):
    """Priorities of the target's classes and of the source's instances as kernel arguments; None if all are equal."""

    of_class: Tensor | None
    of_slot: Tensor | None
    num_classes: int


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
    num_taps: int


def resolve(scene: Scene, plan: LayerPlan, protected: Tensor) -> Visible:
    """See `segpaste.engine.reference.pixels.resolve`."""
    visible, source = empty_visible(scene), scene.source
    rows, cols = TILE
    launch(
        _visibility.resolve,
        len(visible.layer) * _num_tiles(scene, TILE),
        visible.layer,
        visible.owner if scene.needs_owner else None,
        _plane_arguments(scene.target),
        _plane_arguments(source),
        _plan_arguments(plan),
        plain(protected),
        protected.shape[1],
        _rank_arguments(scene),
        scene.rules.ignore_index,
        ROWS=rows,
        COLS=cols,
        SLOTS=power_of_two(source.max_instances),
        num_warps=8,
    )
    return visible


def measure(scene: Scene, plan: LayerPlan, visible: Visible) -> Measures:
    """See `segpaste.engine.reference.pixels.measure`."""
    measures, target = empty_measures(scene, plan), scene.target
    num_kept, num_pasted = measures.area.numel(), measures.paste_area.numel()
    found = torch.zeros(num_kept + num_pasted, 6, dtype=torch.int32, device=target.device)
    layer, owner = plain(visible.layer), plain(visible.owner) if scene.is_panoptic else None
    rows, cols = TILE
    launch(
        _visibility.measure,
        len(found) * PARTS,
        found,
        layer,
        owner,
        _plane_arguments(target),
        _plane_arguments(scene.source),
        _plan_arguments(plan),
        len(layer),
        PARTS=PARTS,
        ROWS=rows,
        COLS=cols,
        num_warps=8,
    )
    height, width = target.canvas_size
    num_blocks = -(-len(found) // SLOT_BLOCK)
    launch(
        _visibility.write_measures, num_blocks, found, measures, num_kept, num_pasted, width, height, SLOTS=SLOT_BLOCK
    )
    _count_classes(scene, measures, layer)
    return measures


def _count_classes(scene: Scene, measures: Measures, layer: Tensor) -> None:
    target, num_classes = scene.target, measures.class_before.shape[1]
    measures.class_before.zero_()
    measures.class_after.zero_()
    if not num_classes or target.semantic_maps is None:
        return
    height, width = target.canvas_size
    launch(
        _visibility.count_classes,
        len(layer) * -(-height * width // STRETCH),
        measures.class_before,
        measures.class_after,
        plain(target.semantic_maps),
        layer,
        height * width,
        num_classes,
        PIXELS=STRETCH,
        BINS=BINS,
    )


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
    return PlanArguments._make([*tensors, plan.carried.shape[1], plan.x.filter_idx.shape[2]])


def _rank_arguments(scene: Scene) -> RankArguments:
    of_slot = slot_ranks(scene)
    if scene.rank is None or of_slot is None:
        return RankArguments(None, None, 0)
    return RankArguments(plain(scene.rank.to(of_slot.device)), plain(of_slot), len(scene.rank))


def _plane_arguments(batch: PaddedBatchedDenseSample) -> PlaneArguments:
    """Return the planes of a batch: images in their own layout with its strides, the others in row-major order."""
    _, num_channels, height, width = batch.images.shape
    planes: list[Tensor | None] = [getattr(batch, name) for name in (*PLANES[1:], "padding_mask")]
    lined = [None if plane is None else plain(plane) for plane in planes]
    sizes = num_channels, not_none(batch.instance_masks).shape[1], height, width, height * width
    return PlaneArguments._make([batch.images, *lined, *batch.images.stride(), *sizes])
