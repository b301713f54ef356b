"""Render, compiled by Numba: what is pasted is read from the source strip after strip, then written over the target.

Reading and writing are apart, so that a batch can be pasted into itself in place: everything is read before anything is
written. Absent planes come as arrays of length 0. Views are made once for a slot, never for a row or a pixel.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_arrays import Stage
from segpaste.kernels._cpu_colours import read_colours
from segpaste.kernels._cpu_compile import compiled
from segpaste.kernels._cpu_surfaces import read_normals

_ONE = np.uint64(1)


@compiled
def read_row(b, stage, seen, plan, target, source, slots, exclusive, lines):
    """Add to the stage all that row ``b`` shows of its sources; the arguments are those of `read_paste`."""
    first = stage.used[0]
    for k_out in range(slots.paste_layer.shape[1]):
        if slots.paste_layer[b, k_out] >= 0:
            stage = outline(b, k_out, stage, seen, plan, slots, exclusive)
    stage = with_pixels(stage, target)
    for n in range(first, stage.used[0]):
        read_paste(n, stage, seen, plan, target, source, slots, lines)
    return stage


@compiled
def outline(b, k_out, stage, seen, plan, slots, exclusive):
    """Add to the stage which pixels are seen of the paste in output slot ``k_out``.

    Args:
        b: the row.
        k_out: an output slot with a paste.
        stage: `segpaste.kernels._cpu_arrays.Stage`.
        seen: `segpaste.kernels._cpu_arrays.Seen`; holds what is shown in place of what it covers afterwards.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        slots: `segpaste.kernels.operands.SlotPlan` of arrays.
        exclusive: each pixel belongs to its owner alone.

    Returns:
        ``stage``, or one with more room for strips; `with_pixels` gives room for pixels.
    """
    j, k = slots.paste_layer[b, k_out], slots.paste_slot[b, k_out]
    box = plan.paste_box[b, j, k]
    _show(j, k, seen.cut, seen.starts[j, k], box, seen.layer, seen.owner, exclusive)
    stage = _with_strips(stage, max(box[3] - box[1], 0))
    paste = stage.pastes[stage.used[0]]
    paste[0], paste[1], paste[2], paste[4] = b, k_out, stage.used[1], stage.used[2]
    stage.used[2] += _add_strips(stage, seen.cut, seen.starts[j, k], box)
    stage.used[0] += 1
    paste[3] = stage.used[1]
    return stage


@compiled
def read_paste(n, stage, seen, plan, target, source, slots, lines):
    """Read every plane under paste ``n`` of the stage.

    Args:
        n: which.
        stage: see `outline`.
        seen: likewise.
        plan: likewise.
        target: `segpaste.kernels._cpu_arrays.PlaneArrays` of the batch that is pasted into.
        source: those of the source batch.
        slots: see `outline`.
        lines: [2, C, W], int32 for integer images, else float32: room for a row of sums down the columns, and for one
            of sums along it; W is the larger of both widths.
    """
    b, k_out, at = stage.pastes[n, 0], stage.pastes[n, 1], stage.pastes[n, 4]
    strips = stage.strips[stage.pastes[n, 2] : stage.pastes[n, 3]]
    j, k = slots.paste_layer[b, k_out], slots.paste_slot[b, k_out]
    s, box, start = plan.source_idx[b, j], plan.paste_box[b, j, k], seen.starts[j, k]
    _keep(stage.shown, at, strips, seen.cut, start, box)
    read_colours(b, j, source.images[s], plan, box, strips, stage.colours, at, lines)
    if target.semantic.shape[0] > 0:
        if source.semantic.shape[0] > 0:
            _read_nearest(b, j, stage.semantic, at, strips, source.semantic[s], plan)
        else:
            _read_of_owner(stage.semantic, at, strips, slots.paste_class[b, j], seen.owner)
    if target.depth.shape[0] > 0:
        if source.depth.shape[0] > 0:
            _keep(stage.depth, at, strips, seen.depth, start, box)
            _keep(stage.depth_ok, at, strips, seen.depth_ok, start, box)
        else:
            _clear(stage.depth, at, strips, 1)
            _clear(stage.depth_ok, at, strips, 1)
    if target.normals.shape[0] > 0:
        if source.normals.shape[0] > 0:
            normals = np.empty((3, (box[2] - box[0]) * max(box[3] - box[1], 0)), np.float32)
            read_normals(b, j, plan, source, seen.cut, start, box, normals)
            _keep_normals(stage.normals, at, strips, normals, box)
        else:
            _clear(stage.normals, at, strips, 3)


@compiled
def _show(j, k, cut, start, box, layer, owner, exclusive):
    """What is seen of a slot, in place of what it covers."""
    at, x1, width = np.uint64(start), np.uint64(box[0]), np.uint64(box[2] - box[0])
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        if exclusive:
            for x in range(width):
                cut[at + x] = (layer[y, x1 + x] == j) & (owner[y, x1 + x] == k)
        else:
            for x in range(width):
                cut[at + x] &= layer[y, x1 + x] == j
        at += width


@compiled
def _add_strips(stage, cut, start, box):
    """One strip for each row of a box that shows something; their pixels."""
    at, x1, width, num_pixels = np.uint64(start), np.uint64(box[0]), np.uint64(box[2] - box[0]), 0
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        first, end = np.uint64(0), width
        while first < end and not cut[at + first]:
            first += _ONE
        while first < end and not cut[at + end - _ONE]:
            end -= _ONE
        if first < end:
            strip = stage.used[1]
            stage.strips[strip, 0], stage.strips[strip, 1], stage.strips[strip, 2] = y, x1 + first, x1 + end
            stage.used[1] += 1
            num_pixels += np.int64(end - first)
        at += width
    return num_pixels


@compiled
def _with_strips(stage, num_strips):
    """The stage with room for a paste and its strips."""
    pastes, strips = stage.pastes, stage.strips
    if len(pastes) <= stage.used[0]:
        pastes = np.empty((16 + 2 * len(pastes), 5), np.int64)
        _copy_lines(pastes, stage.pastes, stage.used[0])
    if len(strips) < stage.used[1] + num_strips:
        strips = np.empty((stage.used[1] + num_strips + len(strips), 3), np.int32)
        _copy_lines(strips, stage.strips, stage.used[1])
    return Stage(
        pastes,
        strips,
        stage.shown,
        stage.colours,
        stage.semantic,
        stage.depth,
        stage.depth_ok,
        stage.normals,
        stage.used,
    )


@compiled
def _copy_lines(out, table, num_lines):
    for n in range(num_lines):
        for i in range(table.shape[1]):
            out[n, i] = table[n, i]


@compiled
def with_pixels(stage, target):
    """The stage with room for the pixels of all its strips, in every plane that the target has."""
    used, num_channels = len(stage.shown), target.images.shape[1]
    if stage.used[2] <= used:
        return stage
    room = max(stage.used[2], used + used // 2)
    return Stage(
        stage.pastes,
        stage.strips,
        _larger(stage.shown, used, room),
        _larger(stage.colours, used * num_channels, room * num_channels),
        _larger(stage.semantic, used, room) if target.semantic.shape[0] > 0 else stage.semantic,
        _larger(stage.depth, used, room) if target.depth.shape[0] > 0 else stage.depth,
        _larger(stage.depth_ok, used, room) if target.depth.shape[0] > 0 else stage.depth_ok,
        _larger(stage.normals, used * 3, room * 3) if target.normals.shape[0] > 0 else stage.normals,
        stage.used,
    )


@compiled
def _larger(values, used, room):
    larger = np.empty(room, values.dtype)
    for i in range(used):
        larger[i] = values[i]
    return larger


@compiled
def _keep(out, at, strips, values, start, box):
    """Pixels of a box, row after row from ``start`` on, strip after strip."""
    to, width = np.uint64(at), np.uint64(box[2] - box[0])
    for n in range(len(strips)):
        of = np.uint64(start) + np.uint64(strips[n, 0] - box[1]) * width + np.uint64(strips[n, 1] - box[0])
        size = np.uint64(strips[n, 2] - strips[n, 1])
        for i in range(size):
            out[to + i] = values[of + i]
        to += size


@compiled
def _clear(out, at, strips, num_channels):
    size = 0
    for n in range(len(strips)):
        size += strips[n, 2] - strips[n, 1]
    out[num_channels * at : num_channels * (at + size)] = 0


@compiled
def _keep_normals(out, at, strips, normals, box):
    to, width = np.uint64(3 * at), np.uint64(box[2] - box[0])
    for n in range(len(strips)):
        of = np.uint64(strips[n, 0] - box[1]) * width + np.uint64(strips[n, 1] - box[0])
        size = np.uint64(strips[n, 2] - strips[n, 1])
        for c in range(3):
            for i in range(size):
                out[to + i] = normals[c, of + i]
            to += size


@compiled
def _read_nearest(b, j, out, at, strips, plane, plan):
    x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
    to, num_rows, num_columns = np.uint64(at), np.uint64(plane.shape[0]), np.uint64(plane.shape[1])
    for n in range(len(strips)):
        row, first = np.uint64(y_near[strips[n, 0]]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for i in range(size):
            column = np.uint64(np.uint32(x_near[first + i]))  # between what is shown there may be -1
            out[to + i] = plane[row, column] if row < num_rows and column < num_columns else 0
        to += size


@compiled
def _read_of_owner(out, at, strips, values, owner):
    to = np.uint64(at)
    for n in range(len(strips)):
        y, first = np.uint64(strips[n, 0]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for i in range(size):
            out[to + i] = values[max(owner[y, first + i], 0)]
        to += size
