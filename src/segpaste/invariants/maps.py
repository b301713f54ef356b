"""Checks of the image, of semantic maps and of panoptic maps.

A paste changes no colour outside of it. Semantic maps have one class per pixel, never mixed, and ignored pixels stay
ignored. In panoptic maps things have ids and masks, stuff has neither and does not disappear. The two checks of a
single batch, `thing_stuff_inconsistent` and `not_bijective`, are for inputs too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.augmentation.config.base import as_fraction
from segpaste.invariants.case import Case, Violation, found, invariant
from segpaste.types import Modality, PaddedBatchedDenseSample, PanopticSchema
from segpaste.types.check import not_none


@invariant(Modality.IMAGE)
def image_kept_outside_pastes(case: Case) -> list[Violation]:
    """Check that the image outside of pastes is that of the target, bit for bit (NaN stays NaN)."""
    before, after = case.before.images, case.after.images
    same = ((before == after) | ((before != before) & (after != after))).all(1)
    return found("image_kept_outside_pastes", ~case.pasted & ~same, "the target's colours", "others")


@invariant(Modality.SEMANTIC)
def semantic_single_class_per_pixel(case: Case) -> list[Violation]:
    """Check that a pixel has one class: in pastes that of the nearest source pixel, elsewhere its own, or ignore."""
    name, before, after = "semantic_single_class_per_pixel", _semantic(case.before), _semantic(case.after)
    if after.shape != before.shape or after.dtype != torch.int64:
        came = f"{list(after.shape)} {after.dtype}"
        return [Violation(name, b, "one int64 class per pixel", came) for b in range(len(before))]
    changed = ~case.pasted & (after != before) & (after != case.config.ignore_index)
    violations = found(name, changed, "the target's class {before}", "{after}", before=before, after=after)
    if case.source_batch.semantic_maps is None:
        return violations
    pasted = case.seen.nearest(_semantic(case.source_batch))
    mixed = case.pasted & (after != pasted)
    return violations + found(name, mixed, "the source's class {pasted}", "{after}", pasted=pasted, after=after)


@invariant(Modality.SEMANTIC)
def semantic_ignore_preserved(case: Case) -> list[Violation]:
    """Check that ignored pixels of the target stay, those of a source are not pasted, and only two rules make new ones.

    Both rules are panoptic: the rest of a dropped thing, and stuff with ``stuff_policy="ignore"``. With
    ``placement.cover_void`` pastes may cover ignored pixels.
    """
    name, ignore = "semantic_ignore_preserved", case.config.ignore_index
    before, after = _semantic(case.before) == ignore, _semantic(case.after) == ignore
    values = {"layer": case.report.visible_layer, "label": _semantic(case.after)}
    allowed = stuff_made_ignore(case)
    if Modality.PANOPTIC in case.modalities:
        allowed = allowed | case.orphans
    new = after & ~before & ~case.pasted & ~allowed
    kept = before & ~case.pasted if case.config.placement.cover_void else before
    return [
        *found(name, kept & case.pasted, "an ignored pixel without paste", "layer {layer}", **values),
        *found(name, kept & ~after, "an ignored pixel as before", "class {label}", **values),
        *found(
            name, after & ~before & case.pasted, "nothing ignored in a paste", "ignore from layer {layer}", **values
        ),
        *found(name, new, "a class as before", "ignore", **values),
    ]


def _semantic(batch: PaddedBatchedDenseSample) -> Tensor:
    return not_none(batch.semantic_maps)


@invariant(Modality.PANOPTIC, taxonomy=True)
def panoptic_thing_stuff_consistent(case: Case) -> list[Violation]:
    """Check that a pixel has id 0 if and only if its class is stuff, except ignored pixels.

    The remaining pixels of a dropped thing are ignored. This holds for outputs of inputs that satisfy it, see
    `batch_violations`.
    """
    labels = not_none(case.after.semantic_maps)
    wrong = case.orphans & (labels != case.config.ignore_index)
    text = "ignore, for its instance lost its row", "class {label}"
    return [
        *thing_stuff_inconsistent(case.after, not_none(case.panoptic).taxonomy),
        *found("panoptic_thing_stuff_consistent", wrong, *text, label=labels),
    ]


def thing_stuff_inconsistent(batch: PaddedBatchedDenseSample, schema: PanopticSchema) -> list[Violation]:
    """Find things with id 0, and other pixels with an id."""
    name = "panoptic_thing_stuff_consistent"
    semantic, ids = not_none(batch.semantic_maps), not_none(batch.panoptic_maps)
    things, stuff = (
        torch.isin(semantic, semantic.new_tensor([c for c, k in schema.classes.items() if k == kind]))
        for kind in ("thing", "stuff")
    )
    exempt = semantic == schema.ignore_index
    values = {"label": semantic, "id": ids}
    unknown = ~(things | stuff | exempt)
    return [
        *found(name, things & ~exempt & (ids == 0), "an id, for class {label} is a thing", "0", **values),
        *found(name, stuff & ~exempt & (ids != 0), "id 0, for class {label} is stuff", "{id}", **values),
        *found(name, unknown, "a class of the taxonomy", "{label}", **values),
    ]


@invariant(Modality.PANOPTIC, Modality.INSTANCE)
def panoptic_pixel_bijection(case: Case) -> list[Violation]:
    """Check that every pixel with an id lies in exactly one mask, that of the id, and every other pixel in none.

    This holds for outputs of inputs that satisfy it, see `batch_violations`.
    """
    return not_bijective(case.after)


def not_bijective(batch: PaddedBatchedDenseSample) -> list[Violation]:
    """Find pixels where ids and masks do not correspond one to one."""
    name, ids = "panoptic_pixel_bijection", not_none(batch.panoptic_maps)
    count, total = _masks_and_ids(batch, batch.instance_valid)
    wanted = (ids != 0).to(torch.int64)
    values = {"id": ids, "wanted": wanted, "count": count, "total": total}
    other = (count == wanted) & (total != ids)
    return [
        *found(name, count != wanted, "{wanted} mask(s), for the id is {id}", "{count}", **values),
        *found(name, other, "the mask of id {id}", "that of id {total}", **values),
    ]


@invariant(Modality.INSTANCE)
def panoptic_fresh_instance_ids(case: Case) -> list[Violation]:
    """Check that pastes have the ids ``max target id + 1, + 2, ...`` in slot order, in rows and panoptic map.

    Elsewhere the map is that of the target, with 0 for dropped instances. Without a panoptic map only the rows are
    checked.
    """
    name, before, after = "panoptic_fresh_instance_ids", case.before, case.after
    ids = not_none(after.instance_ids)
    last = torch.cat([not_none(before.instance_ids), ids.new_zeros(before.batch_size, 1)], 1).amax(1)
    want = last[:, None] + case.is_paste.cumsum(1)
    rows = found(name, case.is_paste & (ids != want), "the fresh id {want}", "id {id}", want=want, id=ids)
    if Modality.PANOPTIC not in case.modalities:
        return rows
    ids = not_none(after.panoptic_maps)
    _, fresh = _masks_and_ids(after, case.is_paste)
    kept = not_none(before.panoptic_maps).masked_fill(case.orphans, 0)
    values = {"fresh": fresh, "kept": kept, "id": ids}
    return [
        *rows,
        *found(name, case.pasted & (ids != fresh), "id {fresh} of the paste's row", "{id}", **values),
        *found(name, ~case.pasted & (ids != kept), "id {kept} as before", "{id}", **values),
    ]


def _masks_and_ids(batch: PaddedBatchedDenseSample, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of masks of counted rows [B, K] at each pixel, and the sum of their ids, [B, H, W] int64."""
    masks, ids = not_none(batch.instance_masks), not_none(batch.instance_ids).to(torch.int64)
    count = torch.zeros_like(masks[:, :1].sum(1))
    total = torch.zeros_like(count)
    for slot in range(batch.max_instances):
        mask = masks[:, slot] & counted[:, slot, None, None]
        count += mask
        total += mask * ids[:, slot, None, None]
    return count, total


@invariant(Modality.PANOPTIC, Modality.INSTANCE, taxonomy=True)
def panoptic_contact_priority(case: Case) -> list[Violation]:
    """Check that no paste is visible over a class of higher ``contact_priority``, nor over a paste of such a class.

    Depth may hide the paste of higher priority, so if both sides have depth only the target is checked.
    """
    if not case.has_priorities:
        return []
    name = "panoptic_contact_priority"
    masks = not_none(case.after.instance_masks) & case.is_paste[..., None, None]
    own = (masks * case.priority(case.after.labels)[..., None, None]).sum(1)
    target = case.priority(not_none(case.before.semantic_maps))
    text = "the target's class of priority {other} in front", "a paste of priority {own}"
    over_target = found(name, masks.any(1) & (target > own), *text, own=own, other=target)
    if Modality.DEPTH in case.modalities:
        return over_target
    highest = _highest_priority(case)
    text = "the paste of priority {other} that lies here in front", "one of priority {own}"
    return [*over_target, *found(name, masks.any(1) & (highest > own), *text, own=own, other=highest)]


def _highest_priority(case: Case) -> Tensor:
    """Return the highest priority of the pastes that may be visible at a pixel, [B, H, W] int16, or its minimum."""
    source, report = case.source_batch, case.report
    lowest = torch.iinfo(torch.int16).min
    highest = torch.full_like(report.visible_layer, lowest, dtype=torch.int16)
    if source.instance_masks is None or not case.has_slots:
        return highest
    shows = torch.ones_like(source.instance_masks[:, 0])
    if source.semantic_maps is not None:
        shows &= source.semantic_maps != case.config.ignore_index
    if source.padding_mask is not None:
        shows &= ~source.padding_mask[:, 0]
    for idx, layer in enumerate(case.layers):
        shown = layer.y.inside & layer.x.inside & layer.nearest(shows)
        rows = layer.row[:, 0, 0]
        for slot in range(case.after.max_instances):
            own = report.slot_source[:, slot].clamp(min=0)
            covers = layer.nearest_of_own(source.instance_masks[rows, own]) & shown
            covers &= (report.slot_layer[:, slot] == idx)[:, None, None]
            priority = case.priority(case.after.labels[:, slot])[:, None, None]
            highest = torch.where(covers, torch.maximum(highest, priority), highest)
    return highest


class _StuffAreas(NamedTuple):
    """Pixels of each class, [B, num_classes]; ``short`` marks stuff that pastes reduced below a threshold."""

    before: Tensor
    left: Tensor
    short: Tensor


def _stuff_areas(case: Case) -> _StuffAreas:
    panoptic, semantic = not_none(case.panoptic), not_none(case.before.semantic_maps)
    num_classes = max(panoptic.taxonomy.classes) + 1
    known = (semantic >= 0) & (semantic < num_classes)
    shift = torch.arange(len(semantic), device=semantic.device)[:, None, None] * num_classes

    def count(pixels: Tensor) -> Tensor:
        flat = torch.bincount((semantic + shift)[pixels & known], minlength=len(semantic) * num_classes)
        return flat.view(-1, num_classes)

    before, left = count(torch.ones_like(known)), count(~case.pasted)
    frac = as_fraction(panoptic.tau_stuff_frac)
    kinds = [panoptic.taxonomy.classes.get(c) for c in range(num_classes)]
    is_stuff = torch.tensor([kind == "stuff" for kind in kinds], dtype=torch.bool, device=before.device)
    too_little = (left * frac.denominator < before * frac.numerator) | (left < panoptic.tau_stuff_px)
    return _StuffAreas(before, left, is_stuff & (left < before) & too_little)


def stuff_made_ignore(case: Case) -> Tensor:
    """Return the pixels of stuff below a threshold that the policy ``ignore`` makes ignored, [B, H, W] bool."""
    if case.panoptic is None or case.panoptic.stuff_policy != "ignore" or case.before.semantic_maps is None:
        return torch.zeros_like(case.pasted)
    short = _stuff_areas(case).short
    semantic = case.before.semantic_maps
    known = (semantic >= 0) & (semantic < short.shape[1])
    index = semantic.clamp(0, short.shape[1] - 1).flatten(1)
    return short.gather(1, index).view_as(semantic) & known & ~case.pasted


@invariant(Modality.PANOPTIC, Modality.SEMANTIC, taxonomy=True)
def panoptic_stuff_area_threshold(case: Case) -> list[Violation]:
    """Check that a stuff class below ``tau_stuff_frac`` of its area or ``tau_stuff_px`` is given back, or ignored.

    Returns:
        One violation for each image and class that lost too many pixels.
    """
    name, panoptic = "panoptic_stuff_area_threshold", not_none(case.panoptic)
    if panoptic.stuff_policy == "ignore":
        labels = not_none(case.after.semantic_maps)
        left_over = stuff_made_ignore(case) & (labels != case.config.ignore_index)
        return found(name, left_over, "ignore, for too little is left of its class", "class {label}", label=labels)
    areas = _stuff_areas(case)
    wanted = f"at least {panoptic.tau_stuff_frac:g} of its area and {panoptic.tau_stuff_px} px, or all of it"
    return [
        Violation(name, b, f"stuff class {c} to keep {wanted}", f"{areas.left[b, c]} of {areas.before[b, c]} px")
        for b, c in areas.short.nonzero().tolist()
    ]
