"""Render, compiled by Numba: each row of the batch is copied and, while it is in the cache, painted over.

Absent planes come as arrays of length 0. Views are made once for a slot, never for a row or a pixel.
"""

from __future__ import annotations

import numba
import numpy as np
from numba.extending import overload

from segpaste.kernels._cpu_surfaces import compiled, read_depth, read_normals
from segpaste.types import sampling

_BITS = 2 * sampling.WEIGHT_BITS
_HALF = np.int32(1 << (_BITS - 1))
_STEP = np.float32(2.0**-_BITS)


@compiled
def render_rows(first, end, out, layer, owner, plan, target, source, slots, exclusive, ignore_index, lines):
    """Write rows ``first`` to ``end - 1``.

    Args:
        first: the first row.
        end: one past the last.
        out: `segpaste.kernels.cpu.PlaneArrays`, written.
        layer: [B, H, W] int16.
        owner: [B, H, W] int16, or of length 0.
        plan: `segpaste.kernels.cpu.PlanArrays`.
        target: `segpaste.kernels.cpu.PlaneArrays` of the batch that is pasted into.
        source: those of the source batch.
        slots: `segpaste.kernels.operands.SlotPlan` of arrays.
        exclusive: each pixel belongs to its owner alone.
        ignore_index: the semantic class of pixels that lose their label.
        lines: [2, W], int32 for integer images, else float32: room for a row of sums down the columns, and for one of
            sums along it; W is the larger of both widths.
    """
    for b in range(first, end):
        _copy(b, out, target)
        _render(b, out, layer, owner, plan, target, source, slots, exclusive, ignore_index, lines)


@compiled
def _copy(b, out, target):
    """Row ``b`` as the target has it, without masks."""
    _copy_flat(out.colours[b], target.colours[b])
    masks = out.masks[b].reshape(out.masks[b].size)
    for i in range(np.uint64(masks.size)):
        masks[i] = 0
    if out.semantic.shape[0] > 0:
        _copy_flat(out.semantic[b].reshape(out.semantic[b].size), target.semantic[b].reshape(out.semantic[b].size))
    if out.panoptic.shape[0] > 0:
        _copy_flat(out.panoptic[b].reshape(out.panoptic[b].size), target.panoptic[b].reshape(out.panoptic[b].size))
    if out.depth.shape[0] > 0:
        _copy_depth(out.depth[b], out.depth_valid[b], target.depth[b], target.depth_valid[b])
    if out.normals.shape[0] > 0:
        _copy_flat(out.normals[b].reshape(out.normals[b].size), target.normals[b].reshape(out.normals[b].size))


@compiled
def _copy_flat(out, values):
    for i in range(np.uint64(out.size)):
        out[i] = values[i]


@compiled
def _copy_depth(out, out_valid, depth, valid):
    """Depth that is no number becomes 0 and invalid."""
    for y in range(np.uint64(depth.shape[0])):
        for x in range(np.uint64(depth.shape[1])):
            finite = np.isfinite(depth[y, x])
            out[y, x] = depth[y, x] if finite else np.float32(0)
            out_valid[y, x] = valid[y, x] & finite


@compiled
def _render(b, out, layer, owner, plan, target, source, slots, exclusive, ignore_index, lines):
    seen = layer[b]
    whose = owner[b] if owner.shape[0] > 0 else owner[0:0].reshape((0, 0))
    depth = np.zeros(seen.shape if out.depth.shape[0] > 0 else (0, 0), np.float32)
    depth_ok = np.zeros(depth.shape, np.uint8)
    if out.semantic.shape[0] > 0 and slots.ignored_class[b].any():
        _ignore_classes(out.semantic[b], seen, slots.ignored_class[b], ignore_index)
    for k in range(target.masks.shape[1]):
        box = plan.target_box[b, k]
        if slots.survives[b, k]:
            _keep(out.masks[b, k], target.masks[b, k], seen, box)
        elif slots.dropped[b, k] and out.panoptic.shape[0] > 0:
            _clear(out.panoptic[b], out.semantic[b], target.masks[b, k], seen, box, ignore_index)
    for k_out in range(out.masks.shape[1]):
        j, k = slots.paste_layer[b, k_out], slots.paste_slot[b, k_out]
        if j < 0:
            continue
        s, box, shown = plan.source_idx[b, j], plan.paste_box[b, j, k], out.masks[b, k_out]
        x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
        _show(j, k, shown, seen, whose, exclusive, source.masks[s, k], x_near, y_near, box)
        _paste_colours(b, j, out.images[b], source.images[s], shown, box, plan, lines)
        if out.semantic.shape[0] > 0:
            if source.semantic.shape[0] > 0:
                _paste_nearest(out.semantic[b], source.semantic[s], shown, x_near, y_near, box)
            else:
                _paste_of_owner(out.semantic[b], slots.paste_class[b, j], shown, whose, box)
        if out.panoptic.shape[0] > 0:
            _paste_of_owner(out.panoptic[b], slots.fresh_id[b, j], shown, whose, box)
        if out.depth.shape[0] > 0:
            if source.depth.shape[0] > 0:
                read_depth(b, j, plan, source, shown, box, depth, depth_ok)
            _paste_depth(out.depth[b], out.depth_valid[b], depth, depth_ok, shown, box)
        if out.normals.shape[0] > 0:
            if source.normals.shape[0] > 0:
                read_normals(b, j, plan, source, shown, box, out.normals[b])
            else:
                _clear_normals(out.normals[b], shown, box)


@compiled
def _ignore_classes(semantic, layer, ignored, ignore_index):
    """Uncovered pixels of the marked classes lose their label."""
    for y in range(semantic.shape[0]):
        for x in range(semantic.shape[1]):
            label = semantic[y, x]
            if layer[y, x] < 0 and 0 <= label < ignored.shape[0] and ignored[label]:
                semantic[y, x] = ignore_index


@compiled
def _keep(out, mask, layer, box):
    """A survivor: its mask where no layer is seen."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            out[y, x] = mask[y, x] & (layer[y, x] < 0)


@compiled
def _clear(panoptic, semantic, mask, layer, box, ignore_index):
    """An instance that lost its row: what is left of it belongs to nobody."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if mask[y, x] and layer[y, x] < 0:
                panoptic[y, x] = 0
                semantic[y, x] = ignore_index


@compiled
def _show(j, k, shown, layer, owner, exclusive, mask, x_near, y_near, box):
    """The mask of slot ``k`` of layer ``j``: where its layer is seen, and it covers or owns the pixel."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        row = y_near[y]
        if row < 0:
            continue
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if layer[y, x] != j:
                continue
            if exclusive:
                shown[y, x] = owner[y, x] == k
            else:
                shown[y, x] = x_near[x] >= 0 and mask[np.uint64(row), np.uint64(x_near[x])] != 0


@compiled
def _paste_colours(b, j, out, picture, shown, box, plan, lines):
    """Colours, a row at a time: down the columns into ``lines`` first, then along the row."""
    x_idx, x_weight = plan.x_filter_idx[b, j], plan.x_filter_weight[b, j]
    y_idx, y_weight = plan.y_filter_idx[b, j], plan.y_filter_weight[b, j]
    x1, x2, one = np.uint64(box[0]), np.uint64(box[2]), np.uint64(1)
    num_taps = _num_used(x_weight, x1, x2)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        first, end = x1, x2
        while first < end and not shown[y, first]:
            first += one
        while first < end and not shown[y, end - one]:
            end -= one
        if first == end:
            continue
        low, high = np.uint64(lines.shape[1]), np.uint64(0)
        for t in range(num_taps):  # indices rise, or fall, along the row
            at_first, at_last = np.uint64(x_idx[t, first]), np.uint64(x_idx[t, end - one])
            low, high = min(low, at_first, at_last), max(high, at_first + one, at_last + one)
        for c in range(np.uint64(picture.shape[0])):
            is_first = True
            for t in range(np.uint64(y_idx.shape[0])):
                row, weight = np.uint64(y_idx[t, y]), lines.dtype.type(y_weight[t, y])
                if weight == 0:
                    continue  # its row is not read, it may hold NaN
                for x in range(low, high):
                    part = picture[c, row, x] * weight
                    lines[0, x] = part if is_first else lines[0, x] + part
                is_first = False
            for t in range(num_taps):
                for x in range(first, end):
                    weight = lines.dtype.type(x_weight[t, x])
                    part = lines[0, np.uint64(x_idx[t, x])] * weight if weight != 0 else lines.dtype.type(0)
                    lines[1, x] = part if t == 0 else lines[1, x] + part
            for x in range(first, end):
                out[c, y, x] = _finished(lines[1, x]) if shown[y, x] else out[c, y, x]


@compiled
def _num_used(weights, first, end):
    """How many taps [T, W] are needed in columns first to end - 1, at least 1."""
    for t in range(weights.shape[0] - 1, 0, -1):
        for x in range(first, end):
            if weights[t, x] != 0:
                return np.uint64(t + 1)
    return np.uint64(1)


@compiled
def _paste_nearest(out, plane, shown, x_near, y_near, box):
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if shown[y, x]:
                out[y, x] = plane[np.uint64(y_near[y]), np.uint64(x_near[x])]


@compiled
def _paste_of_owner(out, values, shown, owner, box):
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if shown[y, x]:
                out[y, x] = values[np.uint64(owner[y, x])]


@compiled
def _clear_normals(out, shown, box):
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if shown[y, x]:
                out[0, y, x], out[1, y, x], out[2, y, x] = np.float32(0), np.float32(0), np.float32(0)


@compiled
def _paste_depth(out, out_valid, depth, valid, shown, box):
    """Depth, valid where the target's was too."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if shown[y, x]:
                out[y, x] = depth[y, x]
                out_valid[y, x] = out_valid[y, x] and valid[y, x] != 0


def _finished(total):
    """The colour of a sum whose weights add up to 2 ** 22: rounded half up if it is an integer."""
    raise NotImplementedError  # Numba takes one of those below


@overload(_finished)
def _finished_of(total):
    if isinstance(total, numba.types.Integer):
        return lambda total: (total + _HALF) >> _BITS
    return lambda total: total * _STEP
