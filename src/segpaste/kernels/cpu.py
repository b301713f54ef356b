"""The pixels on the CPU, in loops that Numba compiles: several batch rows at once, no lock held.

Beside the three pixel functions there is `paste`, which does a whole paste: on the CPU arithmetic on [B, L, K] costs
more in small torch operations than the pixels do, so it is compiled along. Images in half precision are read through
float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from segpaste.kernels import _cpu_measure, _cpu_step, _cpu_visibility
from segpaste.kernels._cpu_arrays import (
    NO_CLASS,
    NO_RANKS,
    Array,
    PlanArrays,
    PlaneArrays,
    Stage,
    array,
    empty_plan_arrays,
    plan_arrays,
    plane_arrays,
)
from segpaste.kernels._cpu_layout import find_extents
from segpaste.kernels._cpu_threads import share_out
from segpaste.kernels.operands import (
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
from segpaste.kernels.whole_operands import (
    ClassKinds,
    LayerMaps,
    Outcome,
    Rows,
    Rules,
)


class Given(NamedTuple):
    """What a whole paste is given beside planes: arrays of `LayerMaps`, `ClassKinds` and rows."""

    scale_num: Array
    scale_den: Array
    translate: Array
    extent: Array
    source_boxes: Array
    source_labels: Array
    target_rows: Rows
    is_thing: Array
    is_stuff: Array
    ranks: Ranks


class Found(NamedTuple):
    """What a whole paste finds beside planes: arrays of `Outcome`."""

    layer: Array
    dropped: Array
    rows: Rows


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
    """As `segpaste.kernels.reference.resolve`; ``tile_size`` has no meaning here."""
    visible = empty_visible(target, with_owner)
    rank_arrays = Ranks(*(array(t) for t in ranks))  # type: ignore[arg-type]
    planes = plane_arrays(target), plane_arrays(source)
    arguments = plan_arrays(plan), *planes, array(protected), rank_arrays, ignore_index
    layer, owner = visible.layer.numpy(), visible.owner.numpy()
    share_out(len(layer), lambda first, end: _cpu_visibility.resolve_rows(first, end, layer, owner, *arguments))
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
    layer, owner = visible.layer.numpy(), (visible.owner if exclusive else visible.owner[:0]).numpy()
    arguments = plan_arrays(plan), plane_arrays(target), plane_arrays(source)
    out = Measures(*(m.numpy() for m in measures))  # type: ignore[arg-type]
    share_out(len(layer), lambda first, end: _cpu_measure.measure_rows(first, end, layer, owner, *arguments, out))
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
    if (half := target.images.dtype) in (torch.float16, torch.bfloat16):
        wide, wide_source = (p._replace(images=p.images.float()) for p in (target, source))
        out = render(wide, wide_source, plan, visible, slots, exclusive, ignore_index, tile_size)
        return out._replace(images=out.images.to(half))
    out = _room_for(target, slots.paste_layer.shape[1])
    to, of, origin, plan_of = plane_arrays(out), plane_arrays(target), plane_arrays(source), plan_arrays(plan)
    layer, owner = visible.layer.numpy(), visible.owner.numpy()
    slot_arrays = SlotPlan(*(array(t) for t in slots))  # type: ignore[arg-type]

    def render_rows(first: int, end: int) -> None:
        stage, lines = _empty_stage(origin), _lines(of, origin)
        arguments = plan_of, of, origin, slot_arrays, exclusive, ignore_index
        _cpu_step.render_rows(first, end, to, layer, owner, *arguments, stage, lines)

    share_out(len(layer), render_rows)
    return out


def paste(
    target: Planes,
    source: Planes,
    target_rows: Rows,
    source_rows: Rows,
    maps: LayerMaps,
    kinds: ClassKinds,
    rules: Rules,
    with_layer: bool,
    in_place: bool,
) -> Outcome:
    """A whole paste: what `segpaste.augmentation.frame.Frame` does stage by stage.

    Args:
        target: planes of the batch that is pasted into.
        source: planes of the source batch, maybe the same.
        target_rows: its instances.
        source_rows: those of the source; boxes and labels are read.
        maps: what was drawn.
        kinds: things, stuff and priorities.
        rules: see there.
        with_layer: give ``Outcome.layer``.
        in_place: write into the target's planes and rows, all of them in row-major order (images may be channels last).
    """
    if (half := target.images.dtype) in (torch.float16, torch.bfloat16):
        wide, wide_source = (p._replace(images=p.images.float()) for p in (target, source))
        outcome = paste(wide, wide_source, target_rows, source_rows, maps, kinds, rules, with_layer, in_place)
        images = outcome.planes.images.to(half)
        if in_place:
            images = target.images.copy_(images)
        return outcome._replace(planes=outcome.planes._replace(images=images))
    k_s = maps.carried.shape[2]
    if k_s != source.instance_masks.shape[1]:
        raise ValueError(f"expected a placement of {source.instance_masks.shape[1]} slots, the source's, got {k_s}")
    out = target if in_place else _room_for(target, target.instance_masks.shape[1])
    of = plane_arrays(target)
    origin = of if source is target else plane_arrays(source)
    to = of if in_place else plane_arrays(out)
    plan = _room_for_plan(target, maps, rules)
    given = Given(
        scale_num=array(maps.scale_num),
        scale_den=array(maps.scale_den),
        translate=array(maps.translate),
        extent=_extents(origin),
        source_boxes=array(source_rows.boxes),
        source_labels=array(source_rows.labels),
        target_rows=Rows(*(array(t) for t in target_rows)),  # type: ignore[arg-type]
        is_thing=_table(kinds.is_thing),
        is_stuff=_table(kinds.is_stuff),
        ranks=_ranks(kinds.rank, array(source_rows.labels)),
    )
    rows = Rows(*(torch.empty(t.shape, dtype=t.dtype) for t in target_rows))
    found = _room_for_found(of, plan, rows, with_layer)
    measures, slots = _room_for_measures(plan, given), _room_for_slots(plan, given)
    num_threads = torch.get_num_threads()  # the same parts twice
    alone = in_place and source is target and min(num_threads, len(of.images)) <= 1

    def paste_rows(first: int, end: int) -> tuple[int, Stage]:
        room = _empty_stage(origin), _empty_stage(origin), _lines(of, origin)
        arguments = to, of, origin, given, plan, measures, slots, found, rules, in_place, alone, *room
        return first, _cpu_step.paste_rows(first, end, *arguments)

    held = dict(share_out(len(of.images), paste_rows, num_threads))
    if in_place and not alone:  # not before all rows have been read

        def write_rows(first: int, end: int) -> None:
            _cpu_step.write_rows(first, end, held[first], of, plan, slots, rules, found, given)

        share_out(len(of.images), write_rows, num_threads)
    small = plan.carried, found.dropped, slots.paste_layer, slots.paste_slot, found.layer.astype(np.int16)
    return Outcome(out, target_rows if in_place else rows, *map(torch.from_numpy, small))


def _table(classes: Tensor | None) -> Array:
    return NO_CLASS if classes is None else array(classes)


def _ranks(of_class: Tensor | None, labels: Array) -> Ranks:
    """Ranks of all classes, and of sources with these labels [S, K_s]."""
    if of_class is None:
        return NO_RANKS
    table = array(of_class)
    known = (labels >= 0) & (labels < len(table))
    of_slot = np.where(known, table[labels.clip(0, len(table) - 1)], table.dtype.type(0))
    return Ranks(table, of_slot)  # type: ignore[arg-type]


def _room_for_plan(target: Planes, maps: LayerMaps, rules: Rules) -> PlanArrays:
    """What was drawn, and room for what follows from it."""
    (b, _, height, width), (_, layers, k_s) = target.images.shape, maps.carried.shape
    k_t, reads_between = target.instance_masks.shape[1], target.depth is not None or target.normals is not None
    return PlanArrays(
        source_idx=array(maps.source_idx),
        carried=array(maps.carried).copy(),
        hflip=array(maps.hflip),
        depth_scale=np.ones((b, layers), np.float32) if maps.depth_scale is None else array(maps.depth_scale),
        **empty_plan_arrays((b, layers, k_s, k_t), (height, width), rules.num_taps, reads_between),
    )


def _room_for_found(target: PlaneArrays, plan: PlanArrays, rows: Rows, with_layer: bool) -> Found:
    """Layers and slots in bytes where they are few, for a picture of them is what most room goes to in place."""
    b, layers, k_s = plan.carried.shape
    narrow = np.int8 if max(layers, k_s) <= np.iinfo(np.int8).max else np.int16
    layer = np.full((b if with_layer else 0, *target.images.shape[2:]), -1, narrow)
    return Found(layer, np.empty((b, 3), np.int64), Rows(*(t.numpy() for t in rows)))  # type: ignore[arg-type]


def _extents(source: PlaneArrays) -> Array:
    """(width, height) of the pictures, [S, 2] int64."""
    extent = np.empty((len(source.images), 2), np.int64)
    extent[:] = source.images.shape[3], source.images.shape[2]
    if len(source.padding):
        find_extents(source.padding, extent)
    return extent


def _room_for(target: Planes, num_slots: int) -> Planes:
    """Planes of the output, not filled."""
    b, _, height, width = target.images.shape
    masks = torch.empty(b, num_slots, height, width, dtype=torch.bool)
    planes = target._replace(instance_masks=masks, padding_mask=None)._asdict().items()
    return Planes(*(None if plane is None else empty_plane(name, plane) for name, plane in planes))  # type: ignore[arg-type]


def _room_for_measures(plan: PlanArrays, given: Given) -> Measures:
    (b, k_t, _), pasted, classes = plan.target_box.shape, plan.carried.shape, (len(plan.carried), len(given.is_stuff))
    shapes = (b, k_t), (b, k_t), (b, k_t, 4), pasted, (*pasted, 4), classes, classes
    return Measures(*(np.empty(shape, np.int64) for shape in shapes))  # type: ignore[arg-type]


def _room_for_slots(plan: PlanArrays, given: Given) -> SlotPlan:
    (b, k_t, _), pasted = plan.target_box.shape, plan.carried.shape
    numbers = [np.empty(shape, np.int64) for shape in ((b, k_t), (b, k_t), pasted, pasted)]
    flags = [np.empty(shape, np.bool_) for shape in ((b, k_t), (b, k_t), (b, len(given.is_stuff)))]
    return SlotPlan(*flags[:2], *numbers, flags[2])  # type: ignore[call-arg,arg-type]


def _empty_stage(source: PlaneArrays) -> Stage:
    nothing = np.empty(0, np.float32)
    return Stage(
        pastes=np.empty((0, 5), np.int64),
        strips=np.empty((0, 3), np.int32),
        shown=np.empty(0, np.uint8),
        colours=np.empty(0, source.images.dtype),
        semantic=np.empty(0, np.int64),
        depth=nothing,
        depth_ok=np.empty(0, np.uint8),
        normals=nothing,
        used=np.zeros(3, np.int64),
    )


def _lines(target: PlaneArrays, source: PlaneArrays) -> Array:
    """Room for two rows of sums."""
    kind = np.int32 if source.images.dtype == np.uint8 else np.float32
    return np.empty((2, source.images.shape[1], max(target.images.shape[3], source.images.shape[3])), kind)
