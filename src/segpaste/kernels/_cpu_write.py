"""Render, second half, compiled by Numba: what was read from the source is written over the target."""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled


@compiled
def copy_row(b, out, target):
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
        _copy_flat(out.depth[b].reshape(out.depth[b].size), target.depth[b].reshape(out.depth[b].size))
        size = out.depth_valid[b].size
        _copy_flat(out.depth_valid[b].reshape(size), target.depth_valid[b].reshape(size))
    if out.normals.shape[0] > 0:
        _copy_flat(out.normals[b].reshape(out.normals[b].size), target.normals[b].reshape(out.normals[b].size))


@compiled
def _copy_flat(out, values):
    for i in range(np.uint64(out.size)):
        out[i] = values[i]


@compiled
def write_losses(b, out, target, plan, slots, ignore_index, in_place):
    """Take from row ``b`` what has no place in it any more, but for what is pasted over.

    Args:
        b: the row.
        out: `segpaste.kernels._cpu_arrays.PlaneArrays`: a copy of the row without masks, or the target itself.
        target: those of the batch that is pasted into.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        slots: `segpaste.kernels.operands.SlotPlan` of arrays.
        ignore_index: the semantic class of pixels that lose their label.
        in_place: ``out`` is the target.
    """
    if out.depth.shape[0] > 0:
        _clean_depth(out.depth[b], out.depth_valid[b])
    if out.semantic.shape[0] > 0 and slots.ignored_class[b].any():
        _ignore_classes(out.semantic[b], slots.ignored_class[b], ignore_index)
    for k in range(target.masks.shape[1]):
        box = plan.target_box[b, k]
        if slots.dropped[b, k]:
            if out.panoptic.shape[0] > 0:
                _disown(out.panoptic[b], out.semantic[b], target.masks[b, k], box, ignore_index)
            if in_place:
                _clear_mask(out.masks[b, k])
        elif slots.survives[b, k] and not in_place:
            _copy_mask(out.masks[b, k], target.masks[b, k], box)


@compiled
def write_paste(n, stage, out, plan, slots):
    """Write paste ``n`` of the stage over its row, of which losses have been written."""
    b, k_out, at = stage.pastes[n, 0], stage.pastes[n, 1], stage.pastes[n, 4]
    strips = stage.strips[stage.pastes[n, 2] : stage.pastes[n, 3]]
    j, k = slots.paste_layer[b, k_out], slots.paste_slot[b, k_out]
    _write_colours(out.images[b], strips, stage.shown, at, stage.colours)
    _write_mask(out.masks[b, k_out], strips, stage.shown, at)
    box = plan.paste_box[b, j, k]
    for other in range(plan.target_box.shape[1]):
        their = plan.target_box[b, other]
        meet = box[0] < their[2] and their[0] < box[2] and box[1] < their[3] and their[1] < box[3]
        if slots.survives[b, other] and meet:
            _take_away(out.masks[b, other], strips, stage.shown, at, their)
    if out.semantic.shape[0] > 0:
        _write_values(out.semantic[b], strips, stage.shown, at, stage.semantic)
    if out.panoptic.shape[0] > 0:
        _write_value(out.panoptic[b], strips, stage.shown, at, slots.fresh_id[b, j, k])
    if out.depth.shape[0] > 0:
        _write_values(out.depth[b], strips, stage.shown, at, stage.depth)
        _withdraw(out.depth_valid[b], strips, stage.shown, at, stage.depth_ok)
    if out.normals.shape[0] > 0:
        _write_colours(out.normals[b], strips, stage.shown, at, stage.normals)


@compiled
def _clean_depth(depth, valid):
    """Depth that is no number becomes 0 and invalid."""
    for y in range(np.uint64(depth.shape[0])):
        num_bad = np.uint32(0)
        for x in range(np.uint64(depth.shape[1])):
            num_bad += np.uint32(not (abs(depth[y, x]) < np.inf))
        if num_bad > 0:
            for x in range(np.uint64(depth.shape[1])):
                if not np.isfinite(depth[y, x]):
                    depth[y, x], valid[y, x] = np.float32(0), False


@compiled
def _ignore_classes(semantic, ignored, ignore_index):
    """Pixels of the marked classes lose their label; what is pasted over them comes later."""
    for y in range(semantic.shape[0]):
        for x in range(semantic.shape[1]):
            label = semantic[y, x]
            if 0 <= label < ignored.shape[0] and ignored[label]:
                semantic[y, x] = ignore_index


@compiled
def _disown(panoptic, semantic, mask, box, ignore_index):
    """An instance that lost its row: its pixels belong to nobody; what is pasted over them comes later."""
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            if mask[y, x]:
                panoptic[y, x], semantic[y, x] = 0, ignore_index


@compiled
def _clear_mask(mask):
    """All of it, also what a box that lies does not enclose: the row is empty, or a paste's, from now on."""
    for y in range(np.uint64(mask.shape[0])):
        for x in range(np.uint64(mask.shape[1])):
            mask[y, x] = 0


@compiled
def _copy_mask(out, mask, box):
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for x in range(np.uint64(box[0]), np.uint64(box[2])):
            out[y, x] = mask[y, x]


@compiled
def _write_colours(out, strips, shown, at, values):
    """[C, H, W] from channels that follow each other strip by strip."""
    num_channels, at = np.uint64(out.shape[0]), np.uint64(at)
    of = num_channels * at
    for n in range(len(strips)):
        y, first = np.uint64(strips[n, 0]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for c in range(num_channels):
            for i in range(size):
                new, old = values[of + i], out[c, y, first + i]
                out[c, y, first + i] = new if shown[at + i] else old
            of += size
        at += size


@compiled
def _write_values(out, strips, shown, at, values):
    at = np.uint64(at)
    for n in range(len(strips)):
        y, first = np.uint64(strips[n, 0]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for i in range(size):
            new, old = values[at + i], out[y, first + i]
            out[y, first + i] = new if shown[at + i] else old
        at += size


@compiled
def _write_value(out, strips, shown, at, value):
    at = np.uint64(at)
    for n in range(len(strips)):
        y, first = np.uint64(strips[n, 0]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for i in range(size):
            old = out[y, first + i]
            out[y, first + i] = value if shown[at + i] else old
        at += size


@compiled
def _write_mask(mask, strips, shown, at):
    at = np.uint64(at)
    for n in range(len(strips)):
        y, first = np.uint64(strips[n, 0]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for i in range(size):
            mask[y, first + i] = shown[at + i]
        at += size


@compiled
def _take_away(mask, strips, shown, at, box):
    """What is shown is no longer this mask's, within its box."""
    at, x1, x2 = np.uint64(at), np.uint64(box[0]), np.uint64(box[2])
    for n in range(len(strips)):
        y, first, end = strips[n, 0], np.uint64(strips[n, 1]), np.uint64(strips[n, 2])
        if box[1] <= y < box[3]:
            row = np.uint64(y)
            for x in range(max(first, x1), min(end, x2)):
                mask[row, x] &= shown[at + x - first] ^ 1
        at += end - first


@compiled
def _withdraw(valid, strips, shown, at, ok):
    """What is shown is valid where it was, and what is pasted is too."""
    at = np.uint64(at)
    for n in range(len(strips)):
        y, first = np.uint64(strips[n, 0]), np.uint64(strips[n, 1])
        size = np.uint64(strips[n, 2]) - first
        for i in range(size):
            valid[y, first + i] &= (ok[at + i] != 0) | (shown[at + i] == 0)
        at += size
