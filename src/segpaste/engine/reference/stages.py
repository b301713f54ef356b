"""Stages of a paste after the draws: plan, settle (resolve, keep stuff and objects, measure), assign slots, render.

Survivors stay in their slots. Pastes fill the free slots in order, with fresh ids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.engine.planes import write_back
from segpaste.engine.reference import classmix, geometry, pixels
from segpaste.engine.reference.pixels import looked_up
from segpaste.engine.reference.plan import LayerPlan, Measures, SlotPlan, Visible
from segpaste.engine.schema import Outcome, PasteRules, Placement, Scene
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import MAX_FED_BACK_ID, not_none
from segpaste.types.sampling import outward_boxes, root


class Settled(NamedTuple):
    """Plan whose pastes are all visible, with its visibility buffer and measures.

    Attributes:
        plan: the layers; ``carried`` holds the pastes that stay.
        visible: the visibility buffer.
        measures: measures of that buffer.
        num_gone: [B, 3] int64, as in `segpaste.engine.schema.Outcome`.
    """

    plan: LayerPlan
    visible: Visible
    measures: Measures
    num_gone: Tensor


class Guards(NamedTuple):
    """Classes and pixels of the target that must not be hidden.

    Attributes:
        classes: [B, num_classes] bool, semantic classes.
        pixels: [B, H, W] bool, or None if no object is guarded.
    """

    classes: Tensor
    pixels: Tensor | None


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """Paste the layers of a placement into the target.

    Args:
        scene: target, source and rules.
        placement: rows of the source, and their maps.
        with_layer: return ``visible_layer``; this backend always does.
        in_place: write into the tensors of the target.
    """
    target = scene.target
    if scene.mixture is not None:
        scene, placement = classmix.unmixed(scene, scene.mixture, placement)
    settled = settle(scene, layer_plan(scene, placement))
    plan, labels = settled.plan, scene.source.labels[placement.source_idx]
    slot_plan = assign(scene, settled, labels)
    planes = pixels.render(scene, plan, settled.visible, slot_plan, in_place)
    rows = merge_rows(target, labels, slot_plan, settled.measures)
    out = target.derived(**planes, **rows)
    written = write_back(target, out) if in_place else out
    found = slot_plan.paste_layer, slot_plan.paste_slot, lost(slot_plan.dropped, settled.measures)
    return Outcome(written, plan.carried, settled.num_gone, *found, settled.visible.layer)


def layer_plan(scene: Scene, placement: Placement) -> LayerPlan:
    """Build the look-up tables, boxes and depth factors of all layers."""
    target, source, rules = scene.target, scene.source, scene.rules
    extent = geometry.valid_extent(source)[placement.source_idx]
    height, width = target.canvas_size
    with_linear = target.depth is not None or target.normals is not None
    boxes = outward_boxes(source.boxes)[placement.source_idx]
    boxes = geometry.oriented(boxes, extent, placement.orientation)
    extent = geometry.oriented_extent(extent, placement.swap_axes)
    boxes = geometry.scaled_boxes(boxes, placement.scale_num[:, :, None], placement.scale_den[:, :, None])
    boxes = boxes + placement.translate.repeat(1, 1, 2)[:, :, None]
    return LayerPlan(
        source_idx=placement.source_idx,
        carried=placement.carried,
        **placement.orientation._asdict(),
        depth_scale=depth_scale(scene, placement),
        paste_box=geometry.clipped(boxes, target.canvas_size),
        target_box=geometry.clipped(outward_boxes(target.boxes), target.canvas_size),
        x=geometry.axis_table(placement, 0, width, extent[..., 0], rules.num_taps, with_linear),
        y=geometry.axis_table(placement, 1, height, extent[..., 1], rules.num_taps, with_linear),
    )


def depth_scale(scene: Scene, placement: Placement) -> Tensor:
    """Return the factor on each layer's depth, [B, L] float32.

    It is the ratio of the focal lengths of target and source if depth is metric, else 1; with ``perspective`` it is
    divided by the scale. The focal length is the geometric mean of fx and fy, the scale that of both axes. Each root is
    rounded to float32.
    """
    target, source = scene.target, scene.source
    factor = torch.ones(placement.hflip.shape, device=placement.hflip.device, dtype=torch.float32)
    if target.depth is None or source.depth is None:
        return factor
    if target.metric_depth and target.camera_intrinsics is not None and source.camera_intrinsics is not None:
        cameras = target.camera_intrinsics, source.camera_intrinsics
        # In float32 the product of two small roots would lose bits, or all of them; in float64 it is exact.
        own, other = (root(camera[:, :2]).double().prod(1) for camera in cameras)
        factor = (own[:, None] / other[placement.source_idx]).float()
    if scene.rules.perspective:
        factor = factor * root((placement.scale_den.double().prod(-1) / placement.scale_num.double().prod(-1)).float())
    return factor


def settle(scene: Scene, plan: LayerPlan) -> Settled:
    """Resolve until every remaining paste is visible and no guarded pixel is hidden.

    Stuff that was wiped out, and objects that lost too many pixels, get their pixels back first. Then pastes with too
    few visible pixels are removed. That only enlarges the remaining ones, unless both priorities and depth are used:
    then it may uncover pixels that outrank another paste, which is then removed, too.
    """
    rules, drawn = scene.rules, plan.carried
    num_classes = 0 if scene.watched is None else len(scene.watched)
    nothing = torch.zeros(scene.target.batch_size, num_classes, dtype=torch.bool, device=scene.target.device)
    guards = Guards(nothing, None)
    visible, measures = _look(scene, plan, guards)
    area_free = measures.paste_area
    if (scene.watched is not None and rules.reverts_stuff) or rules.hidden_num < rules.hidden_den:
        guards = _guards(scene, measures, nothing)
        if _may_hold(guards.classes) or (guards.pixels is not None and _may_hold(guards.pixels)):
            visible, measures = _look(scene, plan, guards)
    area_guarded = measures.paste_area
    for _ in range(_num_removals(scene, plan)):
        carried = plan.carried & (measures.paste_area >= rules.min_area_px)
        if not _may_hold(carried != plan.carried):
            break
        plan = plan._replace(carried=carried)
        visible, measures = _look(scene, plan, guards)
    gone = drawn & ~plan.carried
    reverted = gone & (area_guarded < rules.min_area_px) & (area_free >= rules.min_area_px)
    hidden = gone & ~reverted & (area_free == 0)
    num_gone = torch.stack([why.sum((1, 2)) for why in (hidden, reverted, gone & ~reverted & ~hidden)], 1)
    return Settled(plan, visible, measures, num_gone)


def assign(scene: Scene, settled: Settled, labels: Tensor) -> SlotPlan:
    """Assign instances to output slots; ``labels`` [B, L, K_s] are those of each layer's source."""
    measures, placed = settled.measures, settled.plan.carried
    survives = survivors(scene.target.instance_valid, measures, scene.rules, settled.plan.target_box)
    ignored_class = torch.zeros_like(measures.class_before, dtype=torch.bool)
    if scene.watched is not None and not scene.rules.reverts_stuff:
        ignored_class = wiped_out(scene.watched, measures, scene.rules)
    paste_class = torch.full_like(labels, scene.rules.ignore_index)
    if scene.classes.is_thing is not None:
        paste_class = torch.where(looked_up(scene.classes.is_thing, labels), labels, paste_class)
    if scene.mixture is not None:
        placed = placed.clone()
        placed[..., -1] = False  # the fragment takes no row
    return assign_slots(scene.target, survives, placed, paste_class, ignored_class)


def _guards(scene: Scene, measures: Measures, nothing: Tensor) -> Guards:
    """Find the classes and pixels that must not be hidden, from measures taken without guards."""
    classes, closed, rules = nothing, None, scene.rules
    if scene.watched is not None and rules.reverts_stuff:
        classes = wiped_out(scene.watched, measures, rules)
    if rules.hidden_num < rules.hidden_den:
        hides_too_much = over_hidden(scene.target.instance_valid, measures, rules)
        closed = geometry.covered(scene.target, hides_too_much)
    return Guards(classes, closed)


def _num_removals(scene: Scene, plan: LayerPlan) -> int:
    """Return the largest number of rounds of removal until all remaining pastes are visible.

    A removed paste uncovers one of a later layer, which hides one of a still later layer: a round for every two layers.
    """
    has_depth = scene.target.depth is not None and scene.source.depth is not None
    return (plan.carried.shape[1] + 1) // 2 if has_depth and scene.rank is not None else 1


def _look(scene: Scene, plan: LayerPlan, guards: Guards) -> tuple[Visible, Measures]:
    """Resolve a plan with guards, and measure it."""
    shown = scene
    if guards.pixels is not None:  # as padding they are not pasted over
        padding, closed = scene.target.padding_mask, guards.pixels[:, None]
        padding = closed if padding is None else closed | padding
        shown = replace(scene, target=scene.target.derived(padding_mask=padding))
    visible = pixels.resolve(shown, plan, guards.classes)
    return visible, pixels.measure(scene, plan, visible)


def _may_hold(conditions: Tensor) -> bool:
    """Return whether a condition holds anywhere; on devices that would have to be awaited, return True unread.

    Another resolution without a change gives the same result, so the answer affects time only.
    """
    return conditions.device.type != "cpu" or bool(conditions.any())


def survivors(instance_valid: Tensor, measures: Measures, rules: PasteRules, box_before: Tensor) -> Tensor:
    """Return the instances of the target that keep their row, [B, K_t] bool; ``box_before`` is [B, K_t, 4] int64."""
    enough = measures.area * rules.residual_den >= measures.area_before * rules.residual_num
    enough = enough & ((measures.area >= rules.residual_px) | (measures.area == measures.area_before))
    if rules.box_shift_px >= 0:
        enough = enough | ((measures.box - box_before).abs() <= rules.box_shift_px).all(-1)
    return instance_valid & enough & (measures.area >= rules.min_area_px)


def lost(dropped: Tensor, measures: Measures) -> Tensor:
    """Return why instances of the target lose their row, as `segpaste.engine.schema.Outcome.slot_lost`."""
    was_there = dropped & (measures.area_before > 0)
    return was_there.long() + (was_there & (measures.area > 0))


def over_hidden(instance_valid: Tensor, measures: Measures, rules: PasteRules) -> Tensor:
    """Return the instances of the target that would lose more than a fraction of their pixels, [B, K_t] bool."""
    hidden = measures.area_before - measures.area
    return instance_valid & (hidden * rules.hidden_den > measures.area_before * rules.hidden_num)


def wiped_out(is_stuff: Tensor, measures: Measures, rules: PasteRules) -> Tensor:
    """Return the stuff classes that lost pixels and fell below a threshold, [B, num_classes] bool."""
    before, after = measures.class_before, measures.class_after
    too_little = (after * rules.stuff_den < before * rules.stuff_num) | (after < rules.stuff_px)
    return is_stuff.to(before.device) & (after < before) & too_little


def assign_slots(
    target: PaddedBatchedDenseSample, survives: Tensor, placed: Tensor, paste_class: Tensor, ignored_class: Tensor
) -> SlotPlan:
    """Give every placed paste a slot and an id.

    Args:
        target: the batch that is pasted into, K slots.
        survives: [B, K] bool.
        placed: [B, L, K_s] bool, visible pastes, at most as many as the target has slots without a survivor.
        paste_class: [B, L, K_s] int64, passed on.
        ignored_class: [B, num_classes] bool, passed on.
    """
    flat = placed.flatten(1)
    order = (~flat).to(torch.int8).argsort(dim=1, stable=True)
    free_rank = (~survives).cumsum(1) - 1
    takes = ~survives & (free_rank < flat.sum(1, keepdim=True))
    chosen = order.gather(1, free_rank.clamp(0, flat.shape[1] - 1))
    num_slots = placed.shape[2]
    rank = flat.cumsum(1).view_as(placed)
    ids = (not_none(target.instance_ids) * target.instance_valid).to(torch.int64)
    last_id = F.pad(ids, [0, 1]).amax(1)  # also without slots
    if target.panoptic_maps is not None:  # also above an id that has pixels and no row
        last_id = torch.maximum(last_id, target.panoptic_maps.flatten(1).amax(1))
    last_id = last_id.clamp(max=MAX_FED_BACK_ID)  # ids that were not checked must still fit int32
    return SlotPlan(
        survives=survives,
        dropped=target.instance_valid & ~survives,
        paste_layer=torch.where(takes, torch.div(chosen, num_slots, rounding_mode="floor"), -1),
        paste_slot=torch.where(takes, chosen % num_slots, -1),
        fresh_id=torch.where(placed, last_id[:, None, None] + rank, 0),
        paste_class=paste_class,
        ignored_class=ignored_class,
    )


def merge_rows(
    target: PaddedBatchedDenseSample, source_labels: Tensor, slots: SlotPlan, measures: Measures
) -> dict[str, Tensor]:
    """Return the instance fields of the output by name, from the slots and the measures.

    Args:
        target: the batch that is pasted into.
        source_labels: [B, L, K_s] int64, labels of each layer's source row.
        slots: from `assign_slots`.
        measures: of the final visibility buffer.
    """
    is_paste = slots.paste_layer >= 0
    index = (slots.paste_layer * source_labels.shape[2] + slots.paste_slot).clamp(min=0)

    def merged(kept: Tensor, pasted: Tensor) -> Tensor:
        """Merge values of survivors [B, K, ...] and of pastes [B, L * K_s, ...], zero in empty slots."""
        trailing = [1] * (kept.ndim - 2)
        at = index.view(*index.shape, *trailing).expand(-1, -1, *kept.shape[2:])
        zero = torch.zeros((), dtype=kept.dtype, device=kept.device)
        value = torch.where(is_paste.view(*index.shape, *trailing), pasted.gather(1, at), zero)
        return torch.where(slots.survives.view(*index.shape, *trailing), kept, value)

    return {
        "boxes": merged(measures.box.float(), measures.paste_box.flatten(1, 2).float()),
        "labels": merged(target.labels, source_labels.flatten(1)),
        "instance_ids": merged(not_none(target.instance_ids), slots.fresh_id.flatten(1).int()),
        "instance_valid": slots.survives | is_paste,
    }
