"""Resolve and measure, compiled by Numba: boxes are visited, not canvases.

Absent planes come as arrays of length 0; all others are whole batches, indexed by the row. Views are made once for a
slot, never for a row or a pixel.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_surfaces import compiled, read_depth


@compiled
def resolve_rows(first, end, layer, owner, plan, target, source, protected, ignore_index):
    """Write which layer, and which of its slots, is seen at each pixel of rows ``first`` to ``end - 1``.

    Args:
        first: the first row.
        end: one past the last.
        layer: [B, H, W] int16, written.
        owner: [B, H, W] int16, written, or of length 0.
        plan: `segpaste.kernels.cpu.PlanArrays`.
        target: `segpaste.kernels.cpu.PlaneArrays` of the batch that is pasted into.
        source: those of the source batch.
        protected: [B, num_classes] bool.
        ignore_index: the semantic class that is neither pasted nor pasted over.
    """
    for b in range(first, end):
        _resolve(b, layer, owner, plan, target, source, protected, ignore_index)


@compiled
def _resolve(b, layer, owner, plan, target, source, protected, ignore_index):
    with_owner = owner.shape[0] > 0
    layer[b] = -1
    if with_owner:
        owner[b] = -1
    seen, whose = layer[b], owner[b] if with_owner else owner[0:0].reshape((0, 0))
    has_depth = target.depth.shape[0] > 0 and source.depth.shape[0] > 0
    has_closed = target.semantic.shape[0] > 0 or target.padding.shape[0] > 0
    has_hidden = source.semantic.shape[0] > 0 or source.padding.shape[0] > 0
    offered = np.empty(seen.shape if has_depth or has_closed or has_hidden else (0, 0), np.uint8)
    behind, behind_ok = _target_depth(b, target) if has_depth else (np.empty((0, 0), np.float32), offered[0:0])
    depth, depth_ok = np.empty_like(behind), np.empty_like(behind_ok)
    for j in range(plan.carried.shape[1]):
        s = plan.source_idx[b, j]
        x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
        for k in range(plan.carried.shape[2] - 1, -1, -1):
            if not plan.carried[b, j, k]:
                continue
            box, mask = plan.paste_box[b, j, k], source.masks[s, k]
            if offered.shape[0] == 0:
                _cover(j, k, seen, whose, mask, box, x_near, y_near)
                continue
            _offer(offered, mask, box, x_near, y_near)
            if has_closed:
                _withdraw_closed(b, offered, box, target, protected[b], ignore_index)
            if has_hidden:
                _withdraw_hidden(s, offered, box, source, x_near, y_near, ignore_index)
            if has_depth:
                read_depth(b, j, plan, source, offered, box, depth, depth_ok)
                _withdraw_farther(j, offered, seen, behind, behind_ok, depth, depth_ok, box)
            _take(j, k, seen, whose, offered, box)


@compiled
def _target_depth(b, target):
    """Depth of row ``b``, and where it can be trusted, both [H, W] and to be written over by layers."""
    depth, valid = target.depth[b].copy(), target.depth_valid[b]
    ok = np.empty(depth.shape, np.uint8)
    for y in range(depth.shape[0]):
        for x in range(depth.shape[1]):
            ok[y, x] = valid[y, x] and np.isfinite(depth[y, x]) and depth[y, x] > 0
    return depth, ok


@compiled
def _cover(j, k, layer, owner, mask, box, x_near, y_near):
    """Layer ``j`` is seen wherever its slot ``k`` covers."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        row = y_near[y]
        if row < 0:
            continue
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if x_near[x] >= 0 and mask[np.uint64(row), np.uint64(x_near[x])]:
                layer[y, x] = j
                if owner.shape[0] > 0:
                    owner[y, x] = k


@compiled
def _offer(offered, mask, box, x_near, y_near):
    """Where a slot covers."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        row = y_near[y]
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            offered[y, x] = row >= 0 and x_near[x] >= 0 and mask[np.uint64(row), np.uint64(x_near[x])] != 0


@compiled
def _withdraw_closed(b, offered, box, target, protected, ignore_index):
    """Keep the offer where the target may be pasted over: no padding, not ignored, of no protected class."""
    any_protected = protected.any()
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if not offered[y, x]:
                continue
            if target.padding.shape[0] > 0 and target.padding[b, y, x]:
                offered[y, x] = 0
            if target.semantic.shape[0] > 0:
                label = target.semantic[b, y, x]
                if label == ignore_index or (any_protected and 0 <= label < protected.shape[0] and protected[label]):
                    offered[y, x] = 0


@compiled
def _withdraw_hidden(s, offered, box, source, x_near, y_near, ignore_index):
    """Keep the offer where source row ``s`` has something to show: neither padding nor ignored."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if offered[y, x]:
                row, column = np.uint64(y_near[y]), np.uint64(x_near[x])
                if source.padding.shape[0] > 0 and source.padding[s, row, column]:
                    offered[y, x] = 0
                if source.semantic.shape[0] > 0 and source.semantic[s, row, column] == ignore_index:
                    offered[y, x] = 0


@compiled
def _withdraw_farther(j, offered, layer, behind, behind_ok, depth, depth_ok, box):
    """Keep the offer where it is nearer than what is seen so far, or that has no depth; remember the new depth."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if offered[y, x] and layer[y, x] != j:
                if behind_ok[y, x] and not (depth_ok[y, x] and depth[y, x] < behind[y, x]):
                    offered[y, x] = 0
                else:
                    behind[y, x], behind_ok[y, x] = depth[y, x], depth_ok[y, x]


@compiled
def _take(j, k, layer, owner, offered, box):
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if offered[y, x]:
                layer[y, x] = j
                if owner.shape[0] > 0:
                    owner[y, x] = k


@compiled
def measure_rows(first, end, layer, owner, plan, target, source, out):
    """Write the areas and boxes of rows ``first`` to ``end - 1`` into ``out``, `Measures` of arrays.

    With an ``owner`` each pixel belongs to it alone.
    """
    for b in range(first, end):
        _measure(b, layer, owner, plan, target, source, out)


@compiled
def _measure(b, layer, owner, plan, target, source, out):
    seen = layer[b]
    whose = owner[b] if owner.shape[0] > 0 else owner[0:0].reshape((0, 0))
    for k in range(target.masks.shape[1]):
        before, after = _rest(target.masks[b, k], seen, plan.target_box[b, k], out.box[b, k])
        out.area_before[b, k], out.area[b, k] = before, after
    for j in range(plan.carried.shape[1]):
        s = plan.source_idx[b, j]
        x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
        for k in range(plan.carried.shape[2]):
            out.paste_area[b, j, k] = 0
            out.paste_box[b, j, k] = 0
            if plan.carried[b, j, k]:
                out.paste_area[b, j, k] = _shown(
                    j,
                    k,
                    seen,
                    whose,
                    source.masks[s, k],
                    x_near,
                    y_near,
                    plan.paste_box[b, j, k],
                    out.paste_box[b, j, k],
                )
    if out.class_before.shape[1] > 0:
        out.class_before[b] = 0
        out.class_after[b] = 0
        if target.semantic.shape[0] > 0:
            _count_classes(target.semantic[b], seen, out.class_before[b], out.class_after[b])


@compiled
def _rest(mask, layer, box, rest):
    """The area of a mask, and of what no layer hides of it, whose box goes into ``rest``."""
    before, after = 0, 0
    x1, x2 = np.uint64(box[0]), np.uint64(box[2])
    left, top, right, bottom = x2, np.uint64(box[3]), x1, np.uint64(0)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        num_before, num_after = np.uint32(0), np.uint32(0)
        for x in range(x1, x2):
            num_before += np.uint32(mask[y, x])
            num_after += np.uint32(mask[y, x] & (layer[y, x] < 0))
        before += np.int64(num_before)
        if num_after == 0:
            continue
        after += np.int64(num_after)
        top, bottom = min(top, y), y + np.uint64(1)
        x = x1
        while x < left and not (mask[y, x] and layer[y, x] < 0):
            x += np.uint64(1)
        left = min(left, x)
        x = x2
        while x > right and not (mask[y, x - np.uint64(1)] and layer[y, x - np.uint64(1)] < 0):
            x -= np.uint64(1)
        right = max(right, x)
    _put_box(rest, after, left, top, right, bottom)
    return before, after


@compiled
def _shown(j, k, layer, owner, mask, x_near, y_near, box, shown):
    """The area of what is seen of slot ``k`` of layer ``j``, whose box goes into ``shown``."""
    area = 0
    x1, x2 = np.uint64(box[0]), np.uint64(box[2])
    left, top, right, bottom = x2, np.uint64(box[3]), x1, np.uint64(0)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        row = y_near[y]
        if row < 0:
            continue
        for x in range(x1, x2):
            if layer[y, x] != j:
                continue
            if owner.shape[0] > 0:
                is_shown = owner[y, x] == k
            else:
                is_shown = x_near[x] >= 0 and mask[np.uint64(row), np.uint64(x_near[x])] != 0
            if is_shown:
                area += 1
                left, right = min(left, x), max(right, x + np.uint64(1))
                top, bottom = min(top, y), y + np.uint64(1)
    _put_box(shown, area, left, top, right, bottom)
    return area


@compiled
def _put_box(box, area, left, top, right, bottom):
    if area == 0:
        box[:] = 0
    else:
        box[0], box[1], box[2], box[3] = left, top, right, bottom


@compiled
def _count_classes(semantic, layer, before, after):
    num_classes = before.shape[0]
    for y in range(semantic.shape[0]):
        for x in range(semantic.shape[1]):
            label = semantic[y, x]
            if 0 <= label < num_classes:
                before[label] += 1
                if layer[y, x] < 0:
                    after[label] += 1
