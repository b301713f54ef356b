"""Measure, compiled by Numba: areas and boxes of what is seen."""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_arrays import Seen
from segpaste.kernels._cpu_compile import compiled, entry
from segpaste.kernels._cpu_visibility import cut_out, own

_ONE = np.uint64(1)


@entry
def measure_rows(first, end, layer, owner, plan, target, source, out):
    """Write the areas and boxes of rows ``first`` to ``end - 1`` into ``out``, `Measures` of arrays.

    With an ``owner`` each pixel belongs to it alone.
    """
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    everywhere = np.array([0, 0, layer.shape[2], layer.shape[1]])
    depth, depth_ok = np.empty(0, np.float32), np.empty(0, np.uint8)
    for b in range(first, end):
        cut = cut_out(b, plan, source, cut, starts)
        seen = Seen(layer[b], own(owner, b), cut, starts, depth, depth_ok)
        measure(b, seen, owner.shape[0] > 0, plan, target, everywhere, out)


@compiled
def measure(b, seen, exclusive, plan, target, reach, out):
    """Areas and boxes of row ``b``, of which is known what is seen within ``reach``; the target elsewhere."""
    layer, owner, cut, starts = seen.layer, seen.owner if exclusive else seen.owner[0:0], seen.cut, seen.starts
    for k in range(target.masks.shape[1]):
        before, after = _rest(target.masks[b, k], layer, plan.target_box[b, k], reach, out.box[b, k])
        out.area_before[b, k], out.area[b, k] = before, after
    for j in range(plan.carried.shape[1]):
        for k in range(plan.carried.shape[2]):
            out.paste_area[b, j, k] = 0
            out.paste_box[b, j, k] = 0
            if plan.carried[b, j, k]:
                box, shown = plan.paste_box[b, j, k], out.paste_box[b, j, k]
                out.paste_area[b, j, k] = _shown(j, k, layer, owner, cut, starts[j, k], box, shown)
    if out.class_before.shape[1] > 0:
        out.class_before[b] = 0
        out.class_after[b] = 0
        if target.semantic.shape[0] > 0:
            _count_classes(target.semantic[b], layer, reach, out.class_before[b], out.class_after[b])


@compiled
def _rest(mask, layer, box, reach, rest):
    """The area of a mask, and of what no layer hides of it, whose box goes into ``rest``."""
    before, after = np.int64(0), np.int64(0)
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
    area, at, width = np.int64(0), np.uint64(start), np.uint64(box[2] - box[0])
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
