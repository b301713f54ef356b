"""Resolve and measure, compiled by Numba: boxes are visited, not canvases.

The carried masks of a row are first cut out as the target sees them, into bytes that lie one after the other; from then
on loops run along rows of bytes. Absent planes come as arrays of length 0; all others are whole batches, indexed by the
row. Views are made once for a slot, never for a row or a pixel.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_surfaces import compiled, read_depth

_ONE = np.uint64(1)


@compiled
def resolve_rows(first, end, layer, owner, plan, target, source, protected, ignore_index):
    """Write which layer, and which of its slots, is seen at each pixel of rows ``first`` to ``end - 1``.

    Args:
        first: the first row.
        end: one past the last.
        layer: [B, H, W] int16, written.
        owner: [B, H, W] int16, written, or of length 0.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        target: `segpaste.kernels._cpu_arrays.PlaneArrays` of the batch that is pasted into.
        source: those of the source batch.
        protected: [B, num_classes] bool.
        ignore_index: the semantic class that is neither pasted nor pasted over.
    """
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    everywhere = np.array([0, 0, layer.shape[2], layer.shape[1]])
    for b in range(first, end):
        cut = cut_out(b, plan, source, cut, starts)
        depth, depth_ok = np.empty(len(cut), np.float32), np.empty(len(cut), np.uint8)
        whose = owner[b] if owner.shape[0] > 0 else owner[0:0].reshape((0, 0))
        own = layer[b]
        resolve(
            b, own, whose, plan, target, source, cut, starts, depth, depth_ok, everywhere, protected[b], ignore_index
        )


@compiled
def measure_rows(first, end, layer, owner, plan, target, source, out):
    """Write the areas and boxes of rows ``first`` to ``end - 1`` into ``out``, `Measures` of arrays.

    With an ``owner`` each pixel belongs to it alone.
    """
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    everywhere = np.array([0, 0, layer.shape[2], layer.shape[1]])
    for b in range(first, end):
        cut = cut_out(b, plan, source, cut, starts)
        whose = owner[b] if owner.shape[0] > 0 else owner[0:0].reshape((0, 0))
        measure(b, layer[b], whose, plan, target, cut, starts, everywhere, out)


@compiled
def cut_out(b, plan, source, cut, starts):
    """Where each carried mask of row ``b`` covers its box on the target, row after row of box after box.

    Args:
        b: the row.
        plan: the layers.
        source: planes of the source batch.
        cut: uint8, written; room, if it is large enough.
        starts: [L, K_s] int64, written: where the box of each slot starts in it.

    Returns:
        ``cut``, or a larger one.
    """
    size = 0
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            starts[j, k] = size
            if plan.carried[b, j, k]:
                box = plan.paste_box[b, j, k]
                size += (box[2] - box[0]) * max(box[3] - box[1], 0)
    if len(cut) < size:
        cut = np.empty(size, np.uint8)
    for j in range(plan.carried.shape[1]):
        x_near, y_near, s = plan.x_nearest[b, j], plan.y_nearest[b, j], plan.source_idx[b, j]
        for k in range(plan.carried.shape[2]):
            if plan.carried[b, j, k]:
                _cut_out(cut, starts[j, k], source.masks[s, k], plan.paste_box[b, j, k], x_near, y_near)
    return cut


@compiled
def _cut_out(cut, start, mask, box, x_near, y_near):
    x1, width, num_columns = np.uint64(box[0]), np.uint64(box[2] - box[0]), np.uint64(mask.shape[1])
    at = np.uint64(start)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        row = np.int64(y_near[y])
        if row < 0:
            for x in range(width):
                cut[at + x] = 0
        elif y > np.uint64(box[1]) and y_near[y - _ONE] == row:  # an enlarged source repeats its rows
            for x in range(width):
                cut[at + x] = cut[at - width + x]
        else:
            line = np.uint64(row)
            for x in range(width):
                column = np.uint64(np.uint32(x_near[x1 + x]))  # -1 lies behind the last
                cut[at + x] = mask[line, column] if column < num_columns else np.uint8(0)
        at += width


@compiled
def resolve(b, layer, owner, plan, target, source, cut, starts, depth, depth_ok, reach, protected, ignore_index):
    """What is seen within ``reach`` of row ``b``: ``layer`` and, unless empty, ``owner`` [H, W], -1 for the target.

    Where depth decides, it goes into ``depth`` and ``depth_ok``, which lie like ``cut``.
    """
    _fill(layer, reach)
    if owner.shape[0] > 0:
        _fill(owner, reach)
    has_depth = target.depth.shape[0] > 0 and source.depth.shape[0] > 0
    has_closed = target.semantic.shape[0] > 0 or target.padding.shape[0] > 0
    has_hidden = source.semantic.shape[0] > 0 or source.padding.shape[0] > 0
    is_plain = not (has_depth or has_closed or has_hidden)
    behind, behind_ok = np.empty((0, 0), np.float32), np.empty((0, 0), np.uint8)
    has_layers = plan.carried.shape[1] > 1
    if has_depth and has_layers:
        behind, behind_ok = _target_depth(b, target, reach)
    size = 0 if is_plain else _largest_box(b, plan)
    offered = np.empty(size, np.uint8)
    for j in range(plan.carried.shape[1]):
        s = plan.source_idx[b, j]
        x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
        for k in range(plan.carried.shape[2] - 1, -1, -1):  # the lowest slot last: it owns the pixel
            if not plan.carried[b, j, k]:
                continue
            box = plan.paste_box[b, j, k]
            if is_plain:
                _take(j, k, layer, owner, cut, starts[j, k], box)
                continue
            _offer(offered, cut, starts[j, k], box)
            if has_closed:
                _withdraw_closed(b, offered, box, target, protected, ignore_index)
            if has_hidden:
                _withdraw_hidden(s, offered, box, source, x_near, y_near, ignore_index)
            if has_depth:
                read_depth(b, j, plan, source, offered, 0, box, depth, depth_ok, starts[j, k])
                if has_layers:
                    _withdraw_farther(j, offered, layer, behind, behind_ok, depth, depth_ok, starts[j, k], box)
                else:
                    _withdraw_behind(
                        offered, target.depth[b], target.depth_valid[b], depth, depth_ok, starts[j, k], box
                    )
            _take(j, k, layer, owner, offered, 0, box)


@compiled
def read_depths(b, plan, target, source, cut, starts):
    """Depth of all carried slots of row ``b`` and its validity, which lie like ``cut``; empty if one side has none."""
    if target.depth.shape[0] == 0 or source.depth.shape[0] == 0:
        return np.empty(0, np.float32), np.empty(0, np.uint8)
    depth, ok = np.empty(len(cut), np.float32), np.empty(len(cut), np.uint8)
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            if plan.carried[b, j, k]:
                read_depth(b, j, plan, source, cut, starts[j, k], plan.paste_box[b, j, k], depth, ok, starts[j, k])
    return depth, ok


@compiled
def _fill(plane, reach):
    for y in range(np.uint64(reach[1]), np.uint64(reach[3])):
        for x in range(np.uint64(reach[0]), np.uint64(reach[2])):
            plane[y, x] = -1


@compiled
def _largest_box(b, plan):
    size = 0
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            if plan.carried[b, j, k]:
                box = plan.paste_box[b, j, k]
                size = max(size, (box[2] - box[0]) * (box[3] - box[1]))
    return size


@compiled
def _target_depth(b, target, reach):
    """Depth of row ``b``, and where it can be trusted, both [H, W] and to be written over by layers."""
    depth, valid = target.depth[b], target.depth_valid[b]
    behind, ok = np.empty(depth.shape, np.float32), np.empty(depth.shape, np.uint8)
    for y in range(np.uint64(reach[1]), np.uint64(reach[3])):
        for x in range(np.uint64(reach[0]), np.uint64(reach[2])):
            value = depth[y, x]
            behind[y, x] = value
            ok[y, x] = valid[y, x] & np.isfinite(value) & (value > 0)
    return behind, ok


@compiled
def _offer(offered, cut, start, box):
    at = np.uint64(start)
    for i in range(np.uint64((box[2] - box[0]) * max(box[3] - box[1], 0))):
        offered[i] = cut[at + i]


@compiled
def _take(j, k, layer, owner, offered, start, box):
    """Layer ``j`` is seen wherever its slot ``k`` is offered."""
    at, x1, width = np.uint64(start), np.uint64(box[0]), np.uint64(box[2] - box[0])
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(width):
            below = layer[y, x1 + x]
            layer[y, x1 + x] = j if offered[at + x] else below
        if owner.shape[0] > 0:
            for x in range(width):
                below = owner[y, x1 + x]
                owner[y, x1 + x] = k if offered[at + x] else below
        at += width


@compiled
def _withdraw_closed(b, offered, box, target, protected, ignore_index):
    """Keep the offer where the target may be pasted over: no padding, not ignored, of no protected class."""
    any_protected = protected.any()
    at, x1, width = np.uint64(0), np.uint64(box[0]), np.uint64(box[2] - box[0])
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        if target.padding.shape[0] > 0:
            for x in range(width):
                offered[at + x] &= not target.padding[b, y, x1 + x]
        if target.semantic.shape[0] > 0:
            for x in range(width):
                offered[at + x] &= target.semantic[b, y, x1 + x] != ignore_index
            if any_protected:
                for x in range(width):
                    label = target.semantic[b, y, x1 + x]
                    if 0 <= label < protected.shape[0] and protected[label]:
                        offered[at + x] = 0
        at += width


@compiled
def _withdraw_hidden(s, offered, box, source, x_near, y_near, ignore_index):
    """Keep the offer where source row ``s`` has something to show: neither padding nor ignored."""
    at, x1, width = np.uint64(0), np.uint64(box[0]), np.uint64(box[2] - box[0])
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        row = np.uint64(max(y_near[y], 0))
        for x in range(width):
            if offered[at + x]:
                column = np.uint64(x_near[x1 + x])
                if source.padding.shape[0] > 0 and source.padding[s, row, column]:
                    offered[at + x] = 0
                if source.semantic.shape[0] > 0 and source.semantic[s, row, column] == ignore_index:
                    offered[at + x] = 0
        at += width


@compiled
def _withdraw_farther(j, offered, layer, behind, behind_ok, depth, depth_ok, start, box):
    """Keep the offer where it is nearer than what is seen so far, or that has no depth; remember the new depth."""
    at, x1, width, of = np.uint64(0), np.uint64(box[0]), np.uint64(box[2] - box[0]), np.uint64(start)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(width):
            if offered[at + x] and layer[y, x1 + x] != j:
                if behind_ok[y, x1 + x] and not (depth_ok[of + x] and depth[of + x] < behind[y, x1 + x]):
                    offered[at + x] = 0
                else:
                    behind[y, x1 + x], behind_ok[y, x1 + x] = depth[of + x], depth_ok[of + x]
        at += width
        of += width


@compiled
def _withdraw_behind(offered, behind, valid, depth, depth_ok, start, box):
    """Keep the offer where it is nearer than the target, or that has no depth: all that a single layer needs."""
    at, x1, width, of = np.uint64(0), np.uint64(box[0]), np.uint64(box[2] - box[0]), np.uint64(start)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(width):
            theirs = behind[y, x1 + x]
            is_there = valid[y, x1 + x] & (theirs > 0) & (theirs < np.inf)
            is_nearer = (depth_ok[of + x] != 0) & (depth[of + x] < theirs)
            offered[at + x] &= is_nearer | (not is_there)
        at += width
        of += width


@compiled
def measure(b, layer, owner, plan, target, cut, starts, reach, out):
    """Areas and boxes of row ``b``, whose ``layer`` is known within ``reach``; -1 elsewhere."""
    for k in range(target.masks.shape[1]):
        before, after = _rest(target.masks[b, k], layer, plan.target_box[b, k], reach, out.box[b, k])
        out.area_before[b, k], out.area[b, k] = before, after
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            out.paste_area[b, j, k] = 0
            out.paste_box[b, j, k] = 0
            if plan.carried[b, j, k]:
                box, seen = plan.paste_box[b, j, k], out.paste_box[b, j, k]
                out.paste_area[b, j, k] = _shown(j, k, layer, owner, cut, starts[j, k], box, seen)
    if out.class_before.shape[1] > 0:
        out.class_before[b] = 0
        out.class_after[b] = 0
        if target.semantic.shape[0] > 0:
            _count_classes(target.semantic[b], layer, reach, out.class_before[b], out.class_after[b])


@compiled
def _rest(mask, layer, box, reach, rest):
    """The area of a mask, and of what no layer hides of it, whose box goes into ``rest``."""
    before, after = 0, 0
    x1, x2 = np.uint64(box[0]), np.uint64(box[2])
    near1, near2 = np.uint64(max(box[0], reach[0])), np.uint64(max(min(box[2], reach[2]), 0))
    left, top, right, bottom = x2, np.uint64(box[3]), x1, np.uint64(0)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        num_before, num_hidden = np.uint32(0), np.uint32(0)
        for x in range(x1, x2):
            num_before += np.uint32(mask[y, x])
        is_near = reach[1] <= y < reach[3]
        if is_near:
            for x in range(near1, near2):
                num_hidden += np.uint32(mask[y, x] & (layer[y, x] >= 0))
        before += np.int64(num_before)
        if num_before == num_hidden:
            continue
        after += np.int64(num_before - num_hidden)
        top, bottom = min(top, y), y + _ONE
        is_near = num_hidden > 0
        x = x1
        while x < left and (mask[y, x] == 0 or (is_near and near1 <= x < near2 and layer[y, x] >= 0)):
            x += _ONE
        left = min(left, x)
        x = x2 - _ONE
        while x + _ONE > right and (mask[y, x] == 0 or (is_near and near1 <= x < near2 and layer[y, x] >= 0)):
            x -= _ONE
        right = max(right, x + _ONE)
    _put_box(rest, after, left, top, right, bottom)
    return before, after


@compiled
def _shown(j, k, layer, owner, cut, start, box, shown):
    """The area of what is seen of slot ``k`` of layer ``j``, whose box goes into ``shown``."""
    area, at, width = 0, np.uint64(start), np.uint64(box[2] - box[0])
    x1, x2 = np.uint64(box[0]), np.uint64(box[2])
    left, top, right, bottom = x2, np.uint64(box[3]), x1, np.uint64(0)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        num_shown = np.uint32(0)
        if owner.shape[0] > 0:
            for x in range(width):
                num_shown += np.uint32((layer[y, x1 + x] == j) & (owner[y, x1 + x] == k))
        else:
            for x in range(width):
                num_shown += np.uint32((layer[y, x1 + x] == j) & cut[at + x])
        if num_shown > 0:
            area += np.int64(num_shown)
            top, bottom = min(top, y), y + _ONE
            x = x1
            while x < left and not is_shown(j, k, layer[y, x], owner, y, x, cut[at + x - x1]):
                x += _ONE
            left = min(left, x)
            x = x2 - _ONE
            while x + _ONE > right and not is_shown(j, k, layer[y, x], owner, y, x, cut[at + x - x1]):
                x -= _ONE
            right = max(right, x + _ONE)
        at += width
    _put_box(shown, area, left, top, right, bottom)
    return area


@compiled
def is_shown(j, k, layer, owner, y, x, covers):
    """Whether slot ``k`` of layer ``j`` is what is seen at a pixel."""
    if layer != j:
        return False
    return owner[y, x] == k if owner.shape[0] > 0 else covers != 0


@compiled
def _put_box(box, area, left, top, right, bottom):
    if area == 0:
        box[:] = 0
    else:
        box[0], box[1], box[2], box[3] = left, top, right, bottom


@compiled
def _count_classes(semantic, layer, reach, before, after):
    num_classes = len(before)
    for y in range(semantic.shape[0]):
        label, run = semantic[y, 0], 0
        for x in range(semantic.shape[1]):  # run after run: neighbours are mostly alike
            if semantic[y, x] != label:
                if 0 <= label < num_classes:
                    before[label] += run
                label, run = semantic[y, x], 0
            run += 1
        if 0 <= label < num_classes:
            before[label] += run
    for label in range(num_classes):
        after[label] = before[label]
    for y in range(reach[1], reach[3]):
        for x in range(reach[0], reach[2]):
            label = semantic[y, x]
            if 0 <= label < num_classes and layer[y, x] >= 0:
                after[label] -= 1
