"""Resolve, compiled by Numba: boxes are visited, not canvases.

The carried masks of a row are first cut out as the target sees them, into bytes that lie one after the other; from then
on loops run along rows of bytes. Absent planes come as arrays of length 0; all others are whole batches, indexed by the
row. Views are made once for a slot, never for a row or a pixel.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_arrays import Seen
from segpaste.kernels._cpu_compile import compiled, entry
from segpaste.kernels._cpu_offers import (
    offer,
    raise_ranks,
    withdraw_behind,
    withdraw_closed,
    withdraw_farther,
    withdraw_hidden,
    withdraw_outranked,
)
from segpaste.kernels._cpu_surfaces import read_depth

_ONE = np.uint64(1)


@entry
def resolve_rows(first, end, layer, owner, plan, target, source, protected, ranks, ignore_index):
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
        ranks: `segpaste.kernels.operands.Ranks` of arrays.
        ignore_index: the semantic class that is neither pasted nor pasted over.
    """
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    everywhere = np.array([0, 0, layer.shape[2], layer.shape[1]])
    for b in range(first, end):
        cut = cut_out(b, plan, source, cut, starts)
        depth, depth_ok = np.empty(len(cut), np.float32), np.empty(len(cut), np.uint8)
        seen = Seen(layer[b], own(owner, b), cut, starts, depth, depth_ok)
        resolve(b, seen, plan, target, source, everywhere, protected[b], ranks, ignore_index)


@compiled
def own(owner, b):
    """Row ``b`` of whose a pixel is, if that is known at all."""
    return owner[b] if owner.shape[0] > 0 else owner[0:0].reshape((0, 0))


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
def resolve(b, seen, plan, target, source, reach, protected, ranks, ignore_index):
    """Write what is seen within ``reach`` of row ``b``, `segpaste.kernels._cpu_arrays.Seen`.

    Where depth decides, the source's goes there too.
    """
    layer, owner, cut, starts = seen.layer, seen.owner, seen.cut, seen.starts
    depth, depth_ok = seen.depth, seen.depth_ok
    _fill(layer, reach)
    if owner.shape[0] > 0:
        _fill(owner, reach)
    has_depth = target.depth.shape[0] > 0 and source.depth.shape[0] > 0
    has_closed = target.semantic.shape[0] > 0 or target.padding.shape[0] > 0
    has_hidden = source.semantic.shape[0] > 0 or source.padding.shape[0] > 0
    has_ranks = ranks.of_class.shape[0] > 0
    is_plain = not (has_depth or has_closed or has_hidden or has_ranks)
    behind, behind_ok = np.empty((0, 0), np.float32), np.empty((0, 0), np.uint8)
    has_layers = plan.carried.shape[1] > 1
    if has_depth and has_layers:
        behind, behind_ok = _target_depth(b, target, reach)
    front = _target_ranks(b, target, ranks.of_class, reach) if has_ranks else np.empty((0, 0), np.int16)
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
            offer(offered, cut, starts[j, k], box)
            if has_closed:
                withdraw_closed(b, offered, box, target, protected, ignore_index)
            if has_hidden:
                withdraw_hidden(s, offered, box, source, x_near, y_near, ignore_index)
            if has_ranks:
                withdraw_outranked(offered, front, ranks.of_slot[s, k], box)
            if has_depth:
                read_depth(b, j, plan, source, offered, np.int64(0), box, depth, depth_ok, starts[j, k])
                if has_layers:
                    withdraw_farther(j, offered, layer, behind, behind_ok, depth, depth_ok, starts[j, k], box)
                else:
                    withdraw_behind(offered, target.depth[b], target.depth_valid[b], depth, depth_ok, starts[j, k], box)
            if has_ranks:
                raise_ranks(offered, front, ranks.of_slot[s, k], box)
            _take(j, k, layer, owner, offered, np.int64(0), box)


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
def _target_ranks(b, target, of_class, reach):
    """Ranks of what row ``b`` shows [H, W], to be written over by layers; 0 for classes that are not known."""
    front = np.zeros(target.images.shape[2:], of_class.dtype)
    if target.semantic.shape[0] == 0:
        return front
    semantic = target.semantic[b]
    for y in range(np.uint64(reach[1]), np.uint64(reach[3])):
        for x in range(np.uint64(reach[0]), np.uint64(reach[2])):
            label = semantic[y, x]
            front[y, x] = of_class[label] if 0 <= label < of_class.shape[0] else 0
    return front


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
