"""Which pastes and instances live, and which slot each takes, row by row, compiled by Numba.

The integers of `segpaste.augmentation.frame` and `segpaste.augmentation.slots`.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled


@compiled
def check_row(b, plan, given, source):
    """What a source strategy placed can be pasted: loops do not look where they write.

    Raises:
        ValueError: a layer's source or scale is out of range, or more is carried than the target has room for.
    """
    num_carried, num_free = 0, 0
    for j in range(plan.carried.shape[1]):
        if not 0 <= plan.source_idx[b, j] < source.images.shape[0]:
            raise ValueError("BatchCopyPaste: expected source_idx to be rows of the source batch; mend the strategy")
        if min(given.scale_num[b, j].min(), given.scale_den[b, j].min()) <= 0:
            raise ValueError("BatchCopyPaste: expected scales above 0 in every layer; mend the source strategy")
        for k in range(plan.carried.shape[2]):
            num_carried += plan.carried[b, j, k]
    valid = given.target_rows.instance_valid
    for k in range(valid.shape[1]):
        num_free += not valid[b, k]
    if num_carried > num_free:
        raise ValueError(
            "BatchCopyPaste: expected at most as many carried slots as the target has free ones (num_free of the "
            "request); mend the source strategy"
        )


@compiled
def too_small(b, plan, measures, min_area_px):
    """Take pastes of too few visible pixels out of the plan; how many there were."""
    num_gone = 0
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            if plan.carried[b, j, k] and measures.paste_area[b, j, k] < min_area_px:
                plan.carried[b, j, k] = False
                num_gone += 1
    return num_gone


@compiled
def wiped_out(b, measures, is_stuff, rules, marked):
    """Mark stuff classes that lost pixels and fell below a threshold; whether there are any."""
    found = False
    for label in range(len(is_stuff)):
        before, after = measures.class_before[b, label], measures.class_after[b, label]
        too_little = after * rules.stuff_den < before * rules.stuff_num or after < rules.stuff_px
        marked[label] = is_stuff[label] and after < before and too_little
        found |= marked[label]
    return found


@compiled
def count_dropped(b, was_carried, free, protected, rules, dropped):
    """Why carried pastes are gone: hidden, reverted, too small.

    Args:
        b: the row.
        was_carried: [L, K_s] bool, before any was taken out.
        free: [L, K_s] int64, their visible pixels at first.
        protected: [L, K_s] int64, after stuff was given pixels back.
        rules: `segpaste.kernels.whole_operands.Rules`.
        dropped: [B, 3] int64, written.
    """
    dropped[b] = 0
    for j in range(was_carried.shape[0]):
        for k in range(was_carried.shape[1]):
            if not was_carried[j, k] or protected[j, k] >= rules.min_area_px:
                continue
            if free[j, k] >= rules.min_area_px:
                dropped[b, 1] += 1
            elif free[j, k] == 0:
                dropped[b, 0] += 1
            else:
                dropped[b, 2] += 1


@compiled
def assign(b, plan, measures, target_rows, source_labels, is_thing, rules, last_id, slots, out):
    """Survivors stay, pastes fill the slots of the others in order; ids are fresh.

    Args:
        b: the row.
        plan: ``carried`` holds the pastes that are seen.
        measures: of what is seen at last.
        target_rows: `segpaste.kernels.whole_operands.Rows` of arrays.
        source_labels: [S, K_s] int64.
        is_thing: [num_classes] bool.
        rules: `segpaste.kernels.whole_operands.Rules`.
        last_id: the largest id so far.
        slots: `segpaste.kernels.operands.SlotPlan` of arrays, written but for ``ignored_class``.
        out: `segpaste.kernels.whole_operands.Rows` of arrays, written.
    """
    num_slots = plan.carried.shape[2]
    for k in range(slots.survives.shape[1]):
        area, before = measures.area[b, k], measures.area_before[b, k]
        enough = area >= rules.min_area_px and area * rules.residual_den >= before * rules.residual_num
        valid = target_rows.instance_valid[b, k]
        slots.survives[b, k], slots.dropped[b, k] = valid and enough, valid and not enough
    rank, k_out = 0, np.int64(0)
    for j in range(plan.carried.shape[1]):
        for k in range(num_slots):
            slots.fresh_id[b, j, k] = 0
            if len(is_thing) > 0:
                label = source_labels[plan.source_idx[b, j], k]
                known = 0 <= label < len(is_thing) and is_thing[label]
                slots.paste_class[b, j, k] = label if known else rules.ignore_index
            else:
                slots.paste_class[b, j, k] = rules.ignore_index
            if not plan.carried[b, j, k]:
                continue
            rank += 1
            slots.fresh_id[b, j, k] = last_id + rank
            while slots.survives[b, k_out]:
                _stay(b, k_out, measures, target_rows, slots, out)
                k_out += 1
            slots.paste_layer[b, k_out], slots.paste_slot[b, k_out] = j, k
            for i in range(4):
                out.boxes[b, k_out, i] = measures.paste_box[b, j, k, i]
            out.labels[b, k_out] = source_labels[plan.source_idx[b, j], k]
            out.instance_ids[b, k_out] = last_id + rank
            out.instance_valid[b, k_out] = True
            k_out += 1
    while k_out < slots.survives.shape[1]:
        _stay(b, k_out, measures, target_rows, slots, out)
        k_out += 1


@compiled
def _stay(b, k, measures, target_rows, slots, out):
    """A slot without a paste: the target's instance if it survives, else nothing."""
    slots.paste_layer[b, k], slots.paste_slot[b, k] = -1, -1
    survives = slots.survives[b, k]
    for i in range(4):
        out.boxes[b, k, i] = measures.box[b, k, i] if survives else 0
    out.labels[b, k] = target_rows.labels[b, k] if survives else 0
    out.instance_ids[b, k] = target_rows.instance_ids[b, k] if survives else 0
    out.instance_valid[b, k] = survives


@compiled
def largest_id(b, target_rows, panoptic, limit):
    """The largest id of a row, also among ids that have pixels and no instance."""
    largest = 0
    for k in range(target_rows.instance_ids.shape[1]):
        if target_rows.instance_valid[b, k]:
            largest = max(largest, target_rows.instance_ids[b, k])
    if panoptic.shape[0] > 0:
        plane = panoptic[b].reshape(panoptic[b].size)
        for i in range(plane.size):
            largest = max(largest, plane[i])
    return min(largest, limit)
