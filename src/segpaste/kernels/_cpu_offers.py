"""What a carried mask offers to be seen, and what takes from the offer, compiled by Numba.

An offer is the mask over its box, bytes row after row; `segpaste.kernels._cpu_visibility.resolve` makes one after the
other and lets the target, the source, ranks and depth withdraw from it.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled


@compiled
def offer(offered, cut, start, box):
    """Offer all that the mask covers."""
    at = np.uint64(start)
    for i in range(np.uint64((box[2] - box[0]) * max(box[3] - box[1], 0))):
        offered[i] = cut[at + i]


@compiled
def withdraw_closed(b, offered, box, target, protected, ignore_index):
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
def withdraw_hidden(s, offered, box, source, x_near, y_near, ignore_index):
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
def withdraw_outranked(offered, front, rank, box):
    """Keep the offer where nothing of a higher rank is seen so far."""
    at, x1, width = np.uint64(0), np.uint64(box[0]), np.uint64(box[2] - box[0])
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(width):
            offered[at + x] &= rank >= front[y, x1 + x]
        at += width


@compiled
def raise_ranks(offered, front, rank, box):
    """What is seen where something is offered has its rank from now on."""
    at, x1, width = np.uint64(0), np.uint64(box[0]), np.uint64(box[2] - box[0])
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(width):
            below = front[y, x1 + x]
            front[y, x1 + x] = rank if offered[at + x] else below
        at += width


@compiled
def withdraw_farther(j, offered, layer, behind, behind_ok, depth, depth_ok, start, box):
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
def withdraw_behind(offered, behind, valid, depth, depth_ok, start, box):
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
