"""A whole paste for some rows of a batch, from the plan to the pixels, compiled by Numba.

The stages are those of `segpaste.augmentation.frame`. Nothing in them looks at two rows of the target at once, so a
thread takes a row from end to end, while it is in the cache.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_layout import lay_out
from segpaste.kernels._cpu_measure import measure
from segpaste.kernels._cpu_paint import read_row
from segpaste.kernels._cpu_slots import assign, check_row, count_dropped, largest_id, too_small, wiped_out
from segpaste.kernels._cpu_surfaces import compiled
from segpaste.kernels._cpu_visibility import cut_out, read_depths, resolve
from segpaste.kernels._cpu_write import copy_row, write_row


@compiled
def paste_rows(
    first, end, out, target, source, given, plan, measures, slots, found, rules, in_place, alone, stage, lines
):
    """Paste into rows ``first`` to ``end - 1``.

    Args:
        first: the first row.
        end: one past the last.
        out: `segpaste.kernels._cpu_arrays.PlaneArrays`, written; of the target itself in place.
        target: those of the batch that is pasted into.
        source: those of the source batch.
        given: `segpaste.kernels.cpu.Given` of arrays.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`, of which boxes and tables are written, and ``carried`` keeps
            the pastes that stay.
        measures: `segpaste.kernels.operands.Measures` of arrays, room.
        slots: `segpaste.kernels.operands.SlotPlan` of arrays, written.
        found: `segpaste.kernels.cpu.Found` of arrays, written.
        rules: `segpaste.kernels.whole_operands.Rules`.
        in_place: write a row over itself, and not before nobody needs it any more.
        alone: in place, nobody but these rows reads the target, so that what is needed is known; else all that was
            read is left in the stage, and nothing is written.
        stage: `segpaste.kernels._cpu_arrays.Stage`, empty.
        lines: as `segpaste.kernels._cpu_paint.read_row` has them.

    Returns:
        The stage, with what is left to be written.
    """
    height, width = target.images.shape[2], target.images.shape[3]
    scratch = np.empty((height, width) if found.layer.shape[0] == 0 else (0, 0), np.int16)
    owner = np.empty((height, width) if rules.with_owner else (0, 0), np.int16)
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    depth, depth_ok = np.empty(0, np.float32), np.empty(0, np.uint8)
    reads, readers = _readers(first, end, plan, given, source)
    unread, waiting, num_waiting = np.ones(end, np.bool_), np.empty((end, 4), np.int64), 0
    for _ in range(first, end):
        b = _next_row(first, unread, readers, alone)
        unread[b] = False
        if not in_place:
            copy_row(b, out, target)
        layer = found.layer[b] if found.layer.shape[0] > 0 else scratch
        lay_out(
            b,
            plan,
            given.scale_num,
            given.translate,
            given.extent,
            given.source_boxes,
            given.target_rows.boxes,
            rules.scale_den,
            height,
            width,
        )
        cut = cut_out(b, plan, source, cut, starts)
        if target.depth.shape[0] > 0 and source.depth.shape[0] > 0 and len(depth) < len(cut):
            depth, depth_ok = np.empty(len(cut), np.float32), np.empty(len(cut), np.uint8)
        _settle(
            b, layer, owner, plan, target, source, given, cut, starts, depth, depth_ok, measures, slots, found, rules
        )
        last_id = largest_id(b, given.target_rows, target.panoptic, rules.largest_id)
        assign(
            b,
            plan,
            measures,
            given.target_rows,
            given.source_labels,
            given.is_thing,
            rules,
            last_id,
            slots,
            found.rows,
        )
        waiting[num_waiting, 0], waiting[num_waiting, 1:] = b, stage.used
        num_waiting += 1
        stage = read_row(
            b, stage, layer, owner, plan, target, source, slots, rules.exclusive, cut, starts, depth, depth_ok, lines
        )
        if not in_place:
            write_row(b, stage, 0, out, target, plan, slots, rules.ignore_index, False)
            stage.used[:] = 0
            num_waiting = 0
        elif alone:
            for j in range(reads.shape[1]):
                if reads[b, j] >= 0:
                    readers[reads[b, j]] -= 1
            while num_waiting > 0 and readers[waiting[num_waiting - 1, 0]] == 0:
                num_waiting -= 1
                paste = waiting[num_waiting, 1]
                _write_over(waiting[num_waiting, 0], stage, paste, target, plan, slots, rules, found, given)
                stage.used[:] = waiting[num_waiting, 1:]
    return stage


@compiled
def _readers(first, end, plan, given, source):
    """Which other row each layer reads, [B, L], -1 for none; by how many layers each row is read, [S]."""
    reads = np.full((end, plan.carried.shape[1]), -1)
    readers = np.zeros(max(end, source.images.shape[0]), np.int64)
    for b in range(first, end):
        check_row(b, plan, given.scale_num, given.target_rows, source)
        for j in range(plan.carried.shape[1]):
            if plan.carried[b, j].any() and plan.source_idx[b, j] != b:
                reads[b, j] = plan.source_idx[b, j]
                readers[reads[b, j]] += 1
    return reads, readers


@compiled
def _next_row(first, unread, readers, alone):
    """A row that has not been read: one that nobody needs, if there is one, for it can be written at once."""
    chosen = -1
    for b in range(first, len(unread)):
        if unread[b] and (chosen < 0 or (alone and readers[b] < readers[chosen])):
            chosen = b
    return chosen


@compiled
def render_rows(first, end, out, layer, owner, plan, target, source, slots, exclusive, ignore_index, stage, lines):
    """Write rows ``first`` to ``end - 1`` of what is seen; the arguments are those of `paste_rows`."""
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    for b in range(first, end):
        copy_row(b, out, target)
        cut = cut_out(b, plan, source, cut, starts)
        whose = owner[b] if owner.shape[0] > 0 else owner[0:0].reshape((0, 0))
        depth, depth_ok = read_depths(b, plan, target, source, cut, starts)
        stage = read_row(
            b, stage, layer[b], whose, plan, target, source, slots, exclusive, cut, starts, depth, depth_ok, lines
        )
        write_row(b, stage, 0, out, target, plan, slots, ignore_index, False)
        stage.used[:] = 0


@compiled
def write_rows(first, end, stage, target, plan, slots, rules, found, given):
    """Write what was staged for rows ``first`` to ``end - 1`` over the target itself."""
    paste = 0
    for b in range(first, end):
        paste = _write_over(b, stage, paste, target, plan, slots, rules, found, given)


@compiled
def _write_over(b, stage, paste, target, plan, slots, rules, found, given):
    """Write row ``b`` and its instances over the target itself."""
    after = write_row(b, stage, paste, target, target, plan, slots, rules.ignore_index, True)
    given.target_rows.boxes[b] = found.rows.boxes[b]
    given.target_rows.labels[b] = found.rows.labels[b]
    given.target_rows.instance_ids[b] = found.rows.instance_ids[b]
    given.target_rows.instance_valid[b] = found.rows.instance_valid[b]
    return after


@compiled
def _settle(b, layer, owner, plan, target, source, given, cut, starts, depth, depth_ok, measures, slots, found, rules):
    """Look until every paste that is left is seen and no stuff class is wiped out."""
    reach = _reach(b, plan)
    protected = np.zeros(slots.ignored_class.shape[1], np.bool_)
    was_carried = plan.carried[b].copy()
    whose, depths = owner if rules.exclusive else owner[0:0], (depth, depth_ok)
    resolve(b, layer, owner, plan, target, source, cut, starts, *depths, reach, protected, rules.ignore_index)
    measure(b, layer, whose, plan, target, cut, starts, reach, measures)
    free = measures.paste_area[b].copy()
    if rules.reverts_stuff and wiped_out(b, measures, given.is_stuff, rules, protected):
        resolve(b, layer, owner, plan, target, source, cut, starts, *depths, reach, protected, rules.ignore_index)
        measure(b, layer, whose, plan, target, cut, starts, reach, measures)
    count_dropped(b, was_carried, free, measures.paste_area[b], rules, found.dropped)
    if too_small(b, plan, measures, rules.min_area_px):
        resolve(b, layer, owner, plan, target, source, cut, starts, *depths, reach, protected, rules.ignore_index)
        measure(b, layer, whose, plan, target, cut, starts, reach, measures)
    slots.ignored_class[b] = False
    if not rules.reverts_stuff:
        wiped_out(b, measures, given.is_stuff, rules, slots.ignored_class[b])


@compiled
def _reach(b, plan):
    """The rectangle around all carried boxes."""
    reach = np.array([1 << 40, 1 << 40, 0, 0])
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            if plan.carried[b, j, k]:
                box = plan.paste_box[b, j, k]
                reach[0], reach[1] = min(reach[0], box[0]), min(reach[1], box[1])
                reach[2], reach[3] = max(reach[2], box[2]), max(reach[3], box[3])
    if reach[0] >= reach[2] or reach[1] >= reach[3]:
        reach[:] = 0
    return reach
