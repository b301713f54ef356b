"""Assignment of instances to output slots: survivors stay, pastes fill the free slots in order, with fresh ids."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.engine.reference.plan import Measures, SlotPlan
from segpaste.engine.schema import PasteRules
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import MAX_FED_BACK_ID, not_none


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
