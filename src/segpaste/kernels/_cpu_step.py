"""A whole paste for some rows of a batch, from the plan to the pixels, compiled by Numba.

The stages are those of `segpaste.augmentation.frame`. Nothing in them looks at two rows of the target at once, so a
thread takes a row from end to end, while it is in the cache.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_arrays import Seen
from segpaste.kernels._cpu_compile import compiled, entry
from segpaste.kernels._cpu_layout import lay_out
from segpaste.kernels._cpu_measure import measure
from segpaste.kernels._cpu_paint import outline, read_paste, read_row, with_pixels
from segpaste.kernels._cpu_slots import assign, check_row, count_dropped, largest_id, too_small, wiped_out
from segpaste.kernels._cpu_visibility import cut_out, own, read_depths, resolve
from segpaste.kernels._cpu_write import copy_row, write_losses, write_paste


@entry
def paste_rows(
    first, end, out, target, source, given, plan, measures, slots, found, rules, in_place, alone, passing, held, lines
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
        alone: in place, nobody but these rows reads the target, so that what is needed is known; else nothing is
            written.
        passing: `segpaste.kernels._cpu_arrays.Stage`, empty, for what is read and written at once.
        held: likewise, for what is read before it may be written.
        lines: as `segpaste.kernels._cpu_paint.read_paste` has them.

    Returns:
        ``held``, with what is left to be written.
    """
    height, width = target.images.shape[2], target.images.shape[3]
    narrow = found.layer.dtype
    scratch = np.empty((height, width) if found.layer.shape[0] == 0 else (0, 0), narrow)
    owner = np.empty((height, width) if rules.with_owner else (0, 0), narrow)
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    depth, depth_ok = np.empty(0, np.float32), np.empty(0, np.uint8)
    for b in range(first, end):
        _lay_out(b, plan, given, target, source)
    reads, readers = _readers(first, end, plan, source)
    unread, waiting, num_waiting = np.ones(end, np.bool_), np.empty((end, 4), np.int64), 0
    for _ in range(first, end):
        b = _next_row(first, unread, readers, alone, plan)
        unread[b] = False
        if not in_place:
            copy_row(b, out, target)
        cut = cut_out(b, plan, source, cut, starts)
        if target.depth.shape[0] > 0 and source.depth.shape[0] > 0 and len(depth) < len(cut):
            depth, depth_ok = np.empty(len(cut), np.float32), np.empty(len(cut), np.uint8)
        layer = found.layer[b] if found.layer.shape[0] > 0 else scratch
        seen = Seen(layer, owner, cut, starts, depth, depth_ok)
        _settle(b, seen, plan, target, source, given, measures, slots, found, rules)
        last_id = largest_id(b, given.target_rows, target.panoptic, rules.largest_id)
        labels = given.source_labels
        assign(b, plan, measures, given.target_rows, labels, given.is_thing, rules, last_id, slots, found.rows)
        if in_place and not (alone and readers[b] == 0):
            waiting[num_waiting, 0] = b
            for i in range(3):
                waiting[num_waiting, 1 + i] = held.used[i]
            num_waiting += 1
            held = read_row(b, held, seen, plan, target, source, slots, rules.exclusive, lines)
        else:
            how = rules.exclusive, rules.ignore_index, in_place
            passing = _pass_row(b, passing, out, seen, plan, target, source, slots, how, lines)
            if in_place:
                _write_instances(b, given, found)
        if alone:
            for j in range(reads.shape[1]):
                if reads[b, j] >= 0:
                    readers[reads[b, j]] -= 1
            while num_waiting > 0 and readers[waiting[num_waiting - 1, 0]] == 0:
                num_waiting -= 1
                _write_over(waiting[num_waiting, 0], held, waiting[num_waiting, 1], target, plan, slots, rules)
                _write_instances(waiting[num_waiting, 0], given, found)
                for i in range(3):
                    held.used[i] = waiting[num_waiting, 1 + i]
    return held


@compiled
def _lay_out(b, plan, given, target, source):
    """Boxes and tables of row ``b``."""
    check_row(b, plan, given, source)
    lay_out(b, plan, given, target.images.shape[2], target.images.shape[3])


@compiled
def _readers(first, end, plan, source):
    """Which row each layer reads, [B, L], -1 for none; by how many layers each row is read, [S].

    A row that reads itself has itself among them, so it is held while it is read.
    """
    reads = np.full((end, plan.carried.shape[1]), -1)
    readers = np.zeros(max(end, source.images.shape[0]), np.int64)
    for b in range(first, end):
        for j in range(plan.carried.shape[1]):
            if plan.carried[b, j].any():
                reads[b, j] = plan.source_idx[b, j]
                readers[reads[b, j]] += 1
    return reads, readers


@compiled
def _next_row(first, unread, readers, alone, plan):
    """A row that was not read: one that the fewest layers need, which need not be held if none does; the smallest."""
    chosen, least = -1, (0, 0)
    for b in range(first, len(unread)):
        if not unread[b]:
            continue
        if not alone:
            return b
        size = (readers[b], _size_of_boxes(b, plan) if readers[b] > 0 else 0)
        if chosen < 0 or size < least:
            chosen, least = b, size
    return chosen


@compiled
def _size_of_boxes(b, plan):
    """Pixels of the boxes of all carried masks of row ``b``."""
    size = 0
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            if plan.carried[b, j, k]:
                box = plan.paste_box[b, j, k]
                size += (box[2] - box[0]) * max(box[3] - box[1], 0)
    return size


@compiled
def _pass_row(b, stage, out, seen, plan, target, source, slots, how, lines):
    """Write row ``b``, paste by paste, as each is read; returns the stage, empty again."""
    exclusive, ignore_index, in_place = how
    write_losses(b, out, target, plan, slots, ignore_index, in_place)
    for k_out in range(slots.paste_layer.shape[1]):
        if slots.paste_layer[b, k_out] >= 0:
            stage = with_pixels(outline(b, k_out, stage, seen, plan, slots, exclusive), target)
            read_paste(np.int64(0), stage, seen, plan, target, source, slots, lines)
            write_paste(np.int64(0), stage, out, plan, slots)
            stage.used[:] = 0
    return stage


@entry
def render_rows(first, end, out, layer, owner, plan, target, source, slots, exclusive, ignore_index, stage, lines):
    """Write rows ``first`` to ``end - 1`` of what is seen; the arguments are those of `paste_rows`."""
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    for b in range(first, end):
        copy_row(b, out, target)
        cut = cut_out(b, plan, source, cut, starts)
        depth, depth_ok = read_depths(b, plan, target, source, cut, starts)
        seen = Seen(layer[b], own(owner, b), cut, starts, depth, depth_ok)
        stage = _pass_row(b, stage, out, seen, plan, target, source, slots, (exclusive, ignore_index, False), lines)


@entry
def write_rows(first, end, held, target, plan, slots, rules, found, given):
    """Write what is held for rows ``first`` to ``end - 1`` over the target itself."""
    paste = 0
    for b in range(first, end):
        paste = _write_over(b, held, paste, target, plan, slots, rules)
        _write_instances(b, given, found)


@compiled
def _write_over(b, held, paste, target, plan, slots, rules):
    """Write row ``b``, whose first paste this is, over the target itself; returns the first paste behind it."""
    write_losses(b, target, target, plan, slots, rules.ignore_index, np.bool_(True))
    while paste < held.used[0] and held.pastes[paste, 0] == b:
        write_paste(paste, held, target, plan, slots)
        paste += 1
    return paste


@compiled
def _write_instances(b, given, found):
    """The instances of row ``b`` over the target's."""
    out, rows = given.target_rows, found.rows
    for k in range(rows.labels.shape[1]):
        for i in range(4):
            out.boxes[b, k, i] = rows.boxes[b, k, i]
        out.labels[b, k] = rows.labels[b, k]
        out.instance_ids[b, k] = rows.instance_ids[b, k]
        out.instance_valid[b, k] = rows.instance_valid[b, k]


@compiled
def _settle(b, seen, plan, target, source, given, measures, slots, found, rules):
    """Look until every paste that is left is seen and no stuff class is wiped out."""
    reach = _reach(b, plan)
    protected = np.zeros(slots.ignored_class.shape[1], np.bool_)
    was_carried = plan.carried[b].copy()
    _look(b, seen, plan, target, source, reach, protected, given.ranks, measures, rules)
    free = measures.paste_area[b].copy()
    if rules.reverts_stuff and wiped_out(b, measures, given.is_stuff, rules, protected):
        _look(b, seen, plan, target, source, reach, protected, given.ranks, measures, rules)
    count_dropped(b, was_carried, free, measures.paste_area[b], rules, found.dropped)
    num_gone = too_small(b, plan, measures, rules.min_area_px)
    while num_gone > 0:
        _look(b, seen, plan, target, source, reach, protected, given.ranks, measures, rules)
        num_gone = too_small(b, plan, measures, rules.min_area_px)  # again only where ranks and depth both decide
        found.dropped[b, 2] += num_gone
    slots.ignored_class[b] = False
    if not rules.reverts_stuff:
        wiped_out(b, measures, given.is_stuff, rules, slots.ignored_class[b])


@compiled
def _look(b, seen, plan, target, source, reach, protected, ranks, measures, rules):
    """What is seen, and how much of it."""
    resolve(b, seen, plan, target, source, reach, protected, ranks, rules.ignore_index)
    measure(b, seen, rules.exclusive, plan, target, reach, measures)


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
