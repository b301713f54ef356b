"""Checks of depth and normals.

The nearer surface is visible, validity is correct, and the scale is that of the target camera. Normals have unit
length, in the camera frame right-down-forward, and are flipped with their layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.invariants._layers import RELATIVE_TOLERANCE, WEIGHT_STEP, LayerMap, Surface, finite_depth, seen
from segpaste.invariants.case import Case, Violation, found, invariant
from segpaste.types import Modality, PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.sampling import norm3

TOLERANCE = 1e-4
"""Tolerance of the length of a normal, and of its components without interpolation."""

_MIN_NORM = 0.05
"""Minimum length of mixed normals; shorter ones nearly cancel, so that rounded weights decide their direction."""


@invariant(Modality.DEPTH)
def depth_monotonicity(case: Case) -> list[Violation]:
    """Check that the nearest surface is visible: pastes lie in front of the target, and no nearer paste is hidden.

    ``d_out(p) = min(d_src(p), d_tgt(p))`` over everything that covers p. Outside of pastes depth is that of the target,
    bit for bit, and 0 where that is not finite. An invalid target depth hides nothing; depth inside a paste is finite.
    The check for nearer surfaces excludes pixels of a stuff class that no paste touches, since they may have been given
    back to it; pixels of an object that no paste touches, if ``max_hidden_frac`` limits the hidden part; and layers of
    lower contact priority than the visible one. With ``depth_order="value"`` all depths that are finite and above 0
    are ordered; a paste whose depth is invalid is 0 in the output, so its depth is computed from the source.
    """
    name, after, ordered = "depth_monotonicity", _depth(case.after), finite_depth(case.before, case.orders_by_value)
    target = _depth(case.before)
    values = {"target": target, "depth": after, "layer": case.report.visible_layer}
    same = after == torch.where(target.isfinite(), target, 0.0)
    front, is_known = _visible_depth(case)
    farther = case.pasted & ordered & ~(is_known & (front < target))
    violations = [
        *found(name, ~case.pasted & ~same, "the target's depth {target}", "{depth}", **values),
        *found(name, case.pasted & ~after.isfinite(), "a finite depth in a paste", "{depth}", **values),
        *found(name, farther, "a paste nearer than the target's {target}", "layer {layer} at {depth}", **values),
    ]
    if case.source_batch.depth is None or case.source_batch.instance_masks is None:
        return violations
    closed, outranked = _closed(case), _outranked(case)
    for idx, (layer, surface) in enumerate(zip(case.layers, case.ordering_surfaces, strict=True)):
        open_to = _covers(case, idx, layer) & ~closed
        if outranked is not None:
            open_to &= ~outranked[idx]
        nearer = ordered & surface.valid & (surface.high * (1 + RELATIVE_TOLERANCE) < front)
        unseen = ~ordered & ~case.pasted
        expected = f"layer {idx} at {{source}}, which is nearer"
        violations += found(name, open_to & nearer, expected, "{depth}", source=surface.high, depth=after)
        expected = f"layer {idx}, for the target has no depth"
        violations += found(name, open_to & unseen, expected, "no paste")
    return violations


@invariant(Modality.DEPTH)
def depth_validity_join(case: Case) -> list[Violation]:
    """Check that validity is V_src and V_tgt inside a paste, and that of the target outside.

    Depth that is not finite is invalid. A source depth read between pixels is valid if all these pixels are.
    """
    name = "depth_validity_join"
    before, after = (not_none(batch.depth_valid)[:, 0] for batch in (case.before, case.after))
    before = before & _depth(case.before).isfinite()
    values = {"before": before, "after": after, "layer": case.report.visible_layer}
    outside = found(name, ~case.pasted & (before != after), "the target's validity {before}", "{after}", **values)
    if case.source_batch.depth is None:
        return outside
    surface = case.seen_surface
    claimed = case.pasted & after & ~(surface.maybe_valid & before)
    denied = case.pasted & ~after & surface.valid & before
    return [
        *outside,
        *found(name, claimed, "invalid depth, for layer {layer} or the target is", "valid", **values),
        *found(name, denied, "valid depth, for layer {layer} and the target are", "invalid", **values),
    ]


@invariant(Modality.DEPTH)
def depth_metric_intrinsics_rescale(case: Case) -> list[Violation]:
    """Check that pasted depth is that of the source, times ``sqrt(fx_t fy_t) / sqrt(fx_s fy_s)`` if it is metric.

    With ``perspective_depth`` it is divided by the scale of the layer. The camera and the flag of the output are those
    of the target. Depth read between pixels of one surface lies within their range; at a depth edge it is that of the
    nearest pixel.
    """
    name, before, after = "depth_metric_intrinsics_rescale", case.before, case.after
    violations = []
    for flag, old, new in (
        ("metric_depth", before.metric_depth, after.metric_depth),
        ("a camera", before.camera_intrinsics is not None, after.camera_intrinsics is not None),
    ):
        if old != new:
            violations += [Violation(name, b, f"{flag}: {old}", str(new)) for b in range(after.batch_size)]
    if before.camera_intrinsics is not None and after.camera_intrinsics is not None:
        cameras = {"before": before.camera_intrinsics, "after": after.camera_intrinsics}
        both_nan = before.camera_intrinsics.isnan() & after.camera_intrinsics.isnan()
        moved = ((before.camera_intrinsics != after.camera_intrinsics) & ~both_nan).any(1)
        violations += found(name, moved, "the target's camera {before}", "{after}", **cameras)
    if case.source_batch.depth is None:
        return violations
    low, high, valid, _ = case.seen_surface
    depth = _depth(after)
    slack = RELATIVE_TOLERANCE * torch.maximum(low.abs(), high.abs())
    outside = ~((depth >= low - slack) & (depth <= high + slack))
    text = "the source's depth on this camera's scale, {low} to {high}", "{depth}"
    return violations + found(name, case.pasted & valid & outside, *text, low=low, high=high, depth=depth)


def _visible_depth(case: Case) -> tuple[Tensor, Tensor]:
    """Return the smallest depth that the visible surface may have, float64, and where it has one, [B, H, W]."""
    after, everywhere = _depth(case.after).double(), torch.ones_like(case.pasted)
    if not case.orders_by_value or case.source_batch.depth is None:
        return after, everywhere
    surface = Surface(*(seen(case.report.visible_layer, part) for part in zip(*case.ordering_surfaces, strict=True)))
    is_written = ~case.pasted | (after > 0)
    return torch.where(is_written, after, surface.low * (1 - RELATIVE_TOLERANCE)), is_written | surface.maybe_valid


def _covers(case: Case, idx: int, layer: LayerMap) -> Tensor:
    """Return where a carried mask of the layer has an image pixel that is not ignored, [B, H, W] bool."""
    source = case.source_batch
    offered = layer.nearest_of_own(_carried_masks(case, idx, layer).any(1))
    if source.padding_mask is not None:
        offered &= ~layer.nearest(source.padding_mask[:, 0])
    if source.semantic_maps is not None:
        offered &= layer.nearest(source.semantic_maps) != case.config.ignore_index
    return offered & layer.y.inside & layer.x.inside


def _carried_masks(case: Case, idx: int, layer: LayerMap) -> Tensor:
    """Return the carried masks of the layer's source row, [B, K_s, H_s, W_s] bool."""
    source = case.source_batch
    carried = case.report.placement.carried[:, idx, : source.max_instances, None, None]  # slots beyond are empty
    rows = layer.row[:, 0, 0]
    masks = not_none(source.instance_masks)[rows] & carried
    if case.config.emit_classmix and source.semantic_maps is not None:  # its class is certainly among the chosen ones
        masks &= source.labels[rows][:, :, None, None] == source.semantic_maps[rows][:, None]
    return masks


def _outranked(case: Case) -> list[Tensor] | None:
    """Return for each layer where a higher contact priority is visible, [B, H, W] bool; None without priorities.

    The visible class has the highest priority that was ever visible at its pixel, so no other class can hide a layer of
    at least that priority.
    """
    if not case.has_priorities or not case.has_slots:
        return None
    fronts = [_front(case, idx, layer) for idx, layer in enumerate(case.layers)]
    of_target = case.priority(not_none(case.before.semantic_maps))
    highest = torch.where(case.pasted, seen(case.report.visible_layer, fronts), of_target)
    return [front < highest for front in fronts]


def _front(case: Case, idx: int, layer: LayerMap) -> Tensor:
    """Return the highest contact priority of the carried masks of a layer at each pixel, [B, H, W] int16."""
    masks, priority = _carried_masks(case, idx, layer), case.priority(case.source_batch.labels)[layer.row[:, 0, 0]]
    lowest = torch.iinfo(priority.dtype).min
    return layer.nearest_of_own(torch.where(masks, priority[:, :, None, None], lowest).amax(1))


def _closed(case: Case) -> Tensor:
    """Return the pixels of the target that pastes must skip, or may have had to, [B, H, W] bool."""
    closed = torch.zeros_like(case.pasted)
    if case.config.max_hidden_frac < 1 and case.before.instance_masks is not None:
        masks = case.before.instance_masks
        untouched = ~(masks & case.pasted[:, None]).flatten(2).any(2)
        closed |= (masks & untouched[:, :, None, None]).any(1)
    if case.before.padding_mask is not None:
        closed |= case.before.padding_mask[:, 0]
    semantic = case.before.semantic_maps
    if semantic is None:
        return closed
    if not case.config.placement.cover_void:
        closed |= semantic == case.config.ignore_index
    if case.panoptic is not None and case.panoptic.stuff_policy == "revert":
        for label in [c for c, kind in case.panoptic.taxonomy.classes.items() if kind == "stuff"]:
            here = semantic == label
            closed |= here & ~(here & case.pasted).flatten(1).any(1)[:, None, None]
    return closed


def _depth(batch: PaddedBatchedDenseSample) -> Tensor:
    return not_none(batch.depth)[:, 0]


@invariant(Modality.NORMALS)
def normals_unit_norm_on_valid(case: Case) -> list[Violation]:
    """Check that normals have length 1 where the visible surface has a normal, and are 0 elsewhere.

    This holds for outputs of inputs that satisfy it, see `batch_violations`.
    """
    name = "normals_unit_norm_on_valid"
    violations = not_unit(name, case.after)
    if case.source_batch.normals is None:
        return violations
    nearest = case.seen.nearest(_vectors(case.source_batch))
    lost = case.pasted & (nearest != 0).any(-1) & (_vectors(case.after) == 0).all(-1)
    return violations + found(name, lost, "a normal, for the source has one", "none")


def not_unit(name: str, batch: PaddedBatchedDenseSample) -> list[Violation]:
    """Find normals that are neither of unit length nor 0."""
    length = norm3(not_none(batch.normals).movedim(1, 0))
    wrong = ~(((length - 1).abs() <= TOLERANCE) | (length == 0))
    return found(name, wrong, "a normal of length 1, or 0 where there is none", "length {length}", length=length)


@invariant(Modality.NORMALS)
def normals_camera_frame_convention(case: Case) -> list[Violation]:
    """Check that normals stay in the target's camera frame, right-down-forward: only a flipped layer negates n_x.

    Inside a paste they have the direction of the mixed source normals, up to the rounding of weights; outside they are
    those of the target, bit for bit.
    """
    name, before, after = "normals_camera_frame_convention", _vectors(case.before), _vectors(case.after)
    changed = ~case.pasted & (before != after).any(-1)
    violations = found(name, changed, "the target's normal {before}", "{after}", before=before, after=after)
    if case.source_batch.normals is None:
        return violations
    normals = _vectors(case.source_batch)
    mixed = _mixed(case.seen, normals)
    nearest = case.seen.nearest(normals)
    length = norm3(mixed.movedim(-1, 0))
    certain = case.pasted & (length > _MIN_NORM) & (nearest != 0).any(-1)
    want = mixed / length.clamp(min=_MIN_NORM)[..., None]
    apart = norm3((after - want).movedim(-1, 0))
    wrong = certain & ~(apart <= TOLERANCE + 4 * WEIGHT_STEP / length)
    return violations + found(name, wrong, "the normal {want} of the source", "{after}", want=want, after=after)


def _mixed(layer: LayerMap, normals: Tensor) -> Tensor:
    """Return source normals [S, H_s, W_s, 3] mixed linearly and flipped with the layer, [B, H, W, 3], unnormalised."""
    pairs = zip(layer.taps(normals), layer.weights(), strict=True)
    x, y, z = torch.stack([value * weight[..., None] for value, weight in pairs]).sum(0).unbind(-1)
    x, y = torch.where(layer.swap_axes, y, x), torch.where(layer.swap_axes, x, y)
    return torch.stack([torch.where(layer.hflip, -x, x), torch.where(layer.vflip, -y, y), z], -1)


def _vectors(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return normals with their components last, [B, H, W, 3]."""
    return not_none(batch.normals).movedim(1, -1).contiguous()
