"""Checks of instances: kept rows, their remaining pixels, and new rows; and of their keypoints, and of crowds.

Each check computes its expectation only from the input, the visible layer of the report, and the config. Keypoints move
with their object; those that are pasted over, and crowds, are not visible.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config.base import as_fraction
from segpaste.augmentation.prepare import with_masks
from segpaste.invariants._layers import valid_extent
from segpaste.invariants.case import Case, Violation, found, invariant
from segpaste.types import Modality, PaddedBatchedDenseSample, tight_boxes
from segpaste.types.check import not_none
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE
from segpaste.types.sampling import box_masks, common_boxes

_ROUNDING = 1e-3
"""Maximum rounding error of a float32 coordinate, pixels."""


@invariant(Modality.INSTANCE)
def instance_identity_preserved(case: Case) -> list[Violation]:
    """Check that a target instance with enough pixels left keeps slot, label and id, and a paste its source label."""
    name, before, after = "instance_identity_preserved", case.before, case.after
    want = _source_labels(case)
    wrong, text = case.is_paste & (after.labels != want), ("the label of its source, {want},", "label {label}")
    pasted = found(name, wrong, *text, want=want, label=after.labels)
    slots = slice(before.max_instances)
    survives, stays = case.survives, case.kept
    values = {"label": before.labels, "id": not_none(before.instance_ids), "new_label": after.labels[:, slots]}
    values["new_id"] = not_none(after.instance_ids)[:, slots]
    label, number = values["label"] != values["new_label"], values["id"] != values["new_id"]
    return [
        *found(name, survives & ~stays, "instance {id} to keep its slot", "another or none", **values),
        *found(name, survives & stays & label, "label {label}", "label {new_label}", **values),
        *found(name, survives & stays & number, "id {id}", "id {new_id}", **values),
        *pasted,
    ]


@invariant(Modality.INSTANCE)
def instance_target_masks_subtract_paste_union(case: Case) -> list[Violation]:
    """Check that a survivor's mask is its old one without the union of all pastes, and pasted masks are that union.

    Each pasted mask is the nearest read of its source mask where its layer is visible. With a panoptic map a pixel
    belongs to one of the slots that cover it: the lowest of those with the highest contact priority. With ClassMix
    pastes also have pixels without an instance.
    """
    name = "instance_target_masks_subtract_paste_union"
    masks, slots = not_none(case.after.instance_masks), slice(case.before.max_instances)
    differs = (masks[:, slots] != case.left).flatten(2).any(2)
    text = "the old mask minus all pastes, {want} px", "another mask, {area} px,"
    wrong = found(name, case.kept & differs, *text, want=case.area_left, area=case.area_after[:, slots])
    union = (masks & case.is_paste[:, :, None, None]).any(1)
    layer = case.report.visible_layer
    bare, hidden = case.pasted & ~union, union & ~case.pasted
    if case.config.emit_classmix:  # stuff, above all
        bare = torch.zeros_like(bare)
    return [
        *wrong,
        *found(name, bare, "a pasted mask, for layer {layer} is seen", "none", layer=layer),
        *found(name, hidden, "no pasted mask, for the target is seen", "one", layer=layer),
        *found(name, _strays(case), "the source's mask where its layer is seen", "another mask"),
    ]


@invariant(Modality.INSTANCE)
def instance_bbox_recomputed_from_mask(case: Case) -> list[Violation]:
    """Check that every box of the output is exactly the box of its mask.

    Boxes of batches without masks are those that were given, see `instance_given_bbox_kept`.
    """
    want = mask_boxes(not_none(case.after.instance_masks))
    wrong = case.after.instance_valid & (case.after.boxes != want).any(-1)
    text = "the box of the mask, {want}", "box {box}"
    return found("instance_bbox_recomputed_from_mask", wrong, *text, want=want, box=case.after.boxes)


@invariant(boxes_only=True)
def instance_given_bbox_kept(case: Case) -> list[Violation]:
    """Check that boxes whose masks were made from them keep every bit, or are cut to the pixels that remain.

    A box of which no pixel, rounded outwards, was pasted over is unchanged. A box that was cut is the part of the
    original within the box of the pixels that remain. A paste of such an object has the box of its source, moved with
    its layer, within the box of its visible pixels; the latter alone if nothing of the former is in it.
    """
    name, before, after = "instance_given_bbox_kept", case.before, case.after
    slots = slice(before.max_instances)
    left = not_none(with_masks(before, case.config).instance_masks) & ~case.pasted[:, None]
    is_cut = (box_masks(before.boxes, before.canvas_size) & case.pasted[:, None]).flatten(2).any(2)
    part = common_boxes(before.boxes, mask_boxes(left))
    want = torch.where(is_cut[..., None], part, before.boxes)
    wrong = case.kept & _differ(after.boxes[:, slots], want)
    text = "the box {want}, {before} before the paste,", "box {box}"
    moved = _pasted_boxes(case)
    of_pastes = "the box of its source, moved and cut to its visible pixels, {want},", "box {box}"
    return [
        *found(name, wrong, *text, want=want, before=before.boxes, box=after.boxes[:, slots]),
        *found(name, case.is_paste & _differ(after.boxes, moved), *of_pastes, want=moved, box=after.boxes),
        *found(name, ~after.instance_valid & _differ(after.boxes, moved * 0), "zeros in an empty slot", "other values"),
    ]


@invariant(Modality.INSTANCE)
def instance_small_area_dropped(case: Case) -> list[Violation]:
    """Check that no row has fewer than ``min_area_px`` pixels and no fragment of a survivor is smaller than allowed."""
    name, config = "instance_small_area_dropped", case.config
    small = case.after.instance_valid & (case.area_after < config.min_area_px)
    values = {"before": case.area_before, "left": case.area_left}
    wanted = f"at least {config.min_residual_area_frac:g} of {{before}} px and {config.min_area_px} px, or no row"
    return [
        *found(name, small, f"at least {config.min_area_px} px", "{area} px", area=case.area_after),
        *found(name, case.kept & ~case.survives, wanted, "a row with {left} px left", **values),
    ]


@invariant(Modality.INSTANCE)
def instance_hidden_area_limited(case: Case) -> list[Violation]:
    """Check that pastes hide at most ``max_hidden_frac`` of an instance of the target."""
    most, hidden = as_fraction(case.config.max_hidden_frac), case.area_before - case.area_left
    too_much = case.before.instance_valid & (hidden * most.denominator > case.area_before * most.numerator)
    text = f"at most {case.config.max_hidden_frac:g} of {{area}} px to be hidden", "{hidden} px"
    return found("instance_hidden_area_limited", too_much, *text, area=case.area_before, hidden=hidden)


@invariant(Modality.INSTANCE)
def instance_no_same_class_overlap(case: Case) -> list[Violation]:
    """Check that no pixel belongs to two instances of one class, if this holds for the target and for its sources."""
    if case.after.max_instances == 0:
        return []
    clean_target = ~_overlaps(case.before).flatten(1).any(1)
    clean_source = clean_target if case.source is None else ~_overlaps(case.source).flatten(1).any(1)
    placement = case.report.placement
    clean = clean_target & (clean_source[placement.source_idx] | ~placement.layer_valid).all(1)
    overlaps = _overlaps(case.after)
    first = overlaps.any(2)
    values = {"other": overlaps.to(torch.uint8).argmax(2), "label": case.after.labels}
    expected = "pixels of its own among the instances of class {label}"
    return found(
        "instance_no_same_class_overlap", clean[:, None] & first, expected, "pixels shared with slot {other}", **values
    )


def _source_labels(case: Case) -> Tensor:
    """Return the source label of the paste in each output slot, [B, K] int64, undefined for other slots."""
    if not case.has_slots:
        return torch.zeros_like(case.after.labels)
    rows = case.report.placement.source_idx.gather(1, case.report.slot_layer.clamp(min=0))
    return case.source_batch.labels[rows, case.report.slot_source.clamp(min=0)]


def _strays(case: Case) -> Tensor:
    """Return the pastes whose mask differs from the visible part of the source mask in their layer, [B, K] bool."""
    source = case.source_batch
    if source.instance_masks is None or not case.has_slots:
        return torch.zeros_like(case.is_paste)
    wanted = shown_masks(case, source.instance_masks)
    return case.is_paste & (wanted != not_none(case.after.instance_masks)).flatten(2).any(2)


def shown_masks(case: Case, source_masks: Tensor) -> Tensor:
    """Return the visible part of the mask of the paste in each output slot, [B, K, H, W] bool; empty in other slots.

    Args:
        case: the forward.
        source_masks: [S, K_s, H_s, W_s] bool, masks of the source.
    """
    source, report = case.source_batch, case.report
    out = torch.zeros(*case.is_paste.shape, *case.before.canvas_size, dtype=torch.bool, device=case.before.device)
    for idx, layer in enumerate(case.layers):
        carried = report.placement.carried[:, idx, None, None, : source.max_instances]
        masks = source_masks[layer.row[:, 0, 0]].permute(0, 2, 3, 1)
        shown = layer.nearest_of_own(masks) & carried & (report.visible_layer == idx)[..., None]
        if Modality.PANOPTIC in case.modalities:
            if case.has_priorities:
                priority = case.priority(source.labels)[layer.row[:, 0, 0], None, None]
                highest = torch.where(shown, priority, torch.iinfo(priority.dtype).min).amax(-1, keepdim=True)
                shown &= priority == highest
            shown &= shown.cumsum(-1) == 1
        slot = report.slot_source.clamp(min=0)[:, None, None].expand(*shown.shape[:3], -1)
        out |= (report.slot_layer == idx)[..., None, None] & shown.gather(-1, slot).permute(0, 3, 1, 2)
    return out


def _pasted_boxes(case: Case) -> Tensor:
    """Return the box of the paste in each output slot, [B, K, 4] float32; undefined in others."""
    if not case.has_slots:
        return torch.zeros_like(case.after.boxes)
    source = case.source_batch
    masked = with_masks(source, case.config)
    visible = mask_boxes(shown_masks(case, not_none(masked.instance_masks)))
    if source.instance_masks is not None:
        return visible
    part = common_boxes(_moved(case, source), visible)
    return torch.where((part[..., 2:] > part[..., :2]).all(-1, keepdim=True), part, visible)


def _moved(case: Case, source: PaddedBatchedDenseSample) -> Tensor:
    """Return the given box of each output slot's source at its place, computed in float64."""
    placement, layer = case.report.placement, case.report.slot_layer.clamp(min=0)
    row = placement.source_idx.gather(1, layer)
    slot = case.report.slot_source.clamp(0, source.max_instances - 1)
    x1, y1, x2, y2 = source.boxes[row, slot].double().unbind(-1)
    width, height = valid_extent(source)[row].unbind(-1)
    hflip, vflip, swaps = (flags.gather(1, layer) for flags in placement.orientation)
    x1, y1, x2, y2 = (torch.where(swaps, *pair) for pair in ((y1, x1), (x1, y1), (y2, x2), (x2, y2)))
    width, height = torch.where(swaps, height, width), torch.where(swaps, width, height)
    x1, x2 = torch.where(hflip, width - x2, x1), torch.where(hflip, width - x1, x2)
    y1, y2 = torch.where(vflip, height - y2, y1), torch.where(vflip, height - y1, y2)
    index = layer[..., None].expand(-1, -1, 2)
    num, den, shift = (
        getattr(placement, name).gather(1, index).double() for name in ("scale_num", "scale_den", "translate")
    )
    corners = (torch.stack(pair, -1) * num / den + shift for pair in ((x1, y1), (x2, y2)))
    return torch.cat(tuple(corners), -1).float()


def _differ(boxes: Tensor, others: Tensor) -> Tensor:
    """Return whether two boxes differ in any bit, [B, K] bool."""
    return (boxes.contiguous().view(torch.int32) != others.contiguous().view(torch.int32)).any(-1)


def mask_boxes(masks: Tensor) -> Tensor:
    """Return the xyxy pixel edges of masks [B, K, H, W], float32 [B, K, 4]; zeros for an empty mask."""
    return tight_boxes(masks.flatten(0, 1)).view(*masks.shape[:2], 4)


def _overlaps(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the pairs of different slots of one class that share a pixel, [B, K, K] bool."""
    masks = not_none(batch.instance_masks)
    same = (batch.labels[:, :, None] == batch.labels[:, None]) & batch.instance_valid[:, :, None]
    same &= ~torch.eye(batch.max_instances, dtype=torch.bool, device=batch.device)
    shared = torch.zeros_like(same)
    for image_idx, rows in enumerate(masks.flatten(2)):
        pixels = rows.float()
        shared[image_idx] = pixels @ pixels.T > 0
    return same & same.mT & shared


@invariant(fields=("keypoints", "instance_masks"))
def keypoints_visible_only_on_own_pixels(case: Case) -> list[Violation]:
    """Check that a visible point of a paste lies on a pixel of its own, one of a survivor on a pixel without paste.

    Survivors keep everything else of their points. The points of a paste are at their place in the layer, swapped if
    the layer is mirrored, and unlabelled outside of the image.
    """
    name, after = "keypoints_visible_only_on_own_pixels", case.after
    points = not_none(after.keypoints)
    owned = _at(points, not_none(after.instance_masks), case)
    is_paste = case.is_paste[..., None]
    wrong = (points[..., 2] == VISIBLE) & torch.where(is_paste, ~owned, _is_covered(points, case))
    text = "visible points on pixels of their own", "another at one of {points}"
    violations = found(name, wrong.any(2), *text, points=points)
    expected = _survivors(case)
    moved = case.kept[..., None] & (points[:, : expected.shape[1]] != expected).any(3)
    text = "the points of a survivor, {want}", "{points}"
    violations += found(name, moved.any(2), *text, want=expected, points=points[:, : expected.shape[1]])
    expected = _pastes(case)
    far = (points[..., :2] - expected[..., :2]).abs().amax(3) > _ROUNDING
    far |= (points[..., 2] == UNLABELLED) != (expected[..., 2] == UNLABELLED)
    far |= (points[..., 2] == VISIBLE) != ((expected[..., 2] == VISIBLE) & owned)
    text = "the points of a paste, {want}", "{points}"
    return violations + found(name, (far & is_paste).any(2), *text, want=expected, points=points)


@invariant(fields=("crowd_mask",))
def crowd_never_under_paste(case: Case) -> list[Violation]:
    """Check that a pixel is crowd if and only if it was crowd before and no paste covers it."""
    name = "crowd_never_under_paste"
    before, after = (not_none(batch.crowd_mask)[:, 0] for batch in (case.before, case.after))
    return [
        *found(name, after & case.pasted, "no crowd under a paste", "some"),
        *found(name, (after != before) & ~case.pasted, "crowd as before", "another"),
    ]


def _survivors(case: Case) -> Tensor:
    """Return the points of the target, hidden where a paste covers them, [B, K_t, P, 3]."""
    points = not_none(case.before.keypoints).clone()
    points[..., 2][(points[..., 2] == VISIBLE) & _is_covered(points, case)] = HIDDEN
    return points


def _pastes(case: Case) -> Tensor:
    """Compute the points of pastes by definition, one by one, [B, K, P, 3] float64; v is that of the source."""
    source, report = case.source_batch, case.report
    out = torch.zeros(not_none(case.after.keypoints).shape, dtype=torch.float64, device="cpu")
    if source.keypoints is None or source.keypoint_schema is None:
        return out
    rooms, extents = valid_extent(case.before).tolist(), valid_extent(source).tolist()
    swap = dict(source.keypoint_schema.flip_pairs) | {b: a for a, b in source.keypoint_schema.flip_pairs}
    for b, k in case.is_paste.nonzero().tolist():
        layer = int(report.slot_layer[b, k])
        row, room = int(report.placement.source_idx[b, layer]), rooms[b]
        *flips, swaps = (bool(flags[b, layer]) for flags in report.placement.orientation)
        own = source.keypoints[row, int(report.slot_source[b, k])].tolist()
        for point in range(len(own)):
            *moved, v = own[swap.get(point, point) if (flips[0] + flips[1] + swaps) % 2 else point]
            size = extents[row]
            if swaps:
                moved, size = moved[::-1], size[::-1]
            moved = [end - at if flip else at for at, end, flip in zip(moved, size, flips, strict=True)]
            for axis in range(2):
                num, den = (
                    int(scale[b, layer, axis]) for scale in (report.placement.scale_num, report.placement.scale_den)
                )
                moved[axis] = moved[axis] * num / den + int(report.placement.translate[b, layer, axis])
            if v != UNLABELLED and 0 <= moved[0] <= room[0] and 0 <= moved[1] <= room[1]:
                out[b, k, point] = torch.tensor([*moved, v], dtype=torch.float64, device="cpu")
    return out


def _is_covered(points: Tensor, case: Case) -> Tensor:
    """Return whether each point is in the image, edges included, and on a pasted pixel, [B, K, P] bool."""
    inside = (points[..., :2] >= 0) & (points[..., :2] <= valid_extent(case.before)[:, None, None])
    return inside.all(-1) & _at(points, case.pasted[:, None], case)


def _at(points: Tensor, masks: Tensor, case: Case) -> Tensor:
    """Return the value of masks [B, K or 1, H, W] at the pixel of each point, [B, K, P] bool.

    On the far edges it is that of the last pixel, and outside of the image that of the nearest one.
    """
    last = valid_extent(case.before)[:, None, None] - 1
    x, y = points[..., :2].floor().long().minimum(last).clamp(min=0).unbind(-1)
    return masks.flatten(2).expand(-1, points.shape[1], -1).gather(2, y * masks.shape[-1] + x)
