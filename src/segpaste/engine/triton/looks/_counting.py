"""Counts of the visible areas, boxes and classes of a tile, in Triton: see `segpaste.engine.reference.pixels.measure`.

Areas, extents and classes are added up by relaxed integer atomics, so the order of the programs changes no bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._packed_slots import holds
from segpaste.engine.triton._tiles import in_box, nearest_source, next_of, on_canvas, pixel_offsets, touching
from segpaste.engine.triton.looks._seeing import covers
from segpaste.types.check import MAX_FED_BACK_ID

_MOST = tl.constexpr(MAX_FED_BACK_ID)


@triton.jit
def count_tile(
    b,
    top,
    left,
    stage,
    seen,
    whose,
    target,
    source,
    plan,
    mix,
    labels,
    work,
    out,
    EXCLUSIVE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
    BINS: tl.constexpr,
):
    """Count the visible pixels of a tile; the first look also counts those before the paste, and copies labels.

    Classes and ids of an image without pastes decide nothing and are not counted.

    Own arguments:
        seen, whose: from `segpaste.engine.triton.looks._seeing.see_tile`.
        EXCLUSIVE: no pixel belongs to two instances.
    """
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    there = on_canvas(rows, cols, target.height, target.width)
    words = work.words + b * work.size
    look = words + stage * work.look_size
    first = b * target.num_slots
    slots = touching(target.valid, plan.target_box, first, target.num_slots, top, left, ROWS, COLS, SLOTS)
    k = next_of(slots, -1, target.num_slots)
    while k < target.num_slots:
        pixels = target.masks + (first + k) * target.size + pixel_offsets(rows, cols, target.width)
        inside = there & in_box(plan.target_box, first + k, rows, cols)
        mask = holds(tl.load(pixels, mask=inside, other=0))
        if stage == 0:
            tl.atomic_add(words + work.before + k, tl.sum(mask.to(tl.int32)), sem="relaxed")
        _add(look + k, work.kept_size, mask & (seen < 0), rows, cols, target)
        k = next_of(slots, k, target.num_slots)
    j = next_of(seen, -1, plan.num_layers)
    while j < plan.num_layers:
        at = b * plan.num_layers + j
        row, first = tl.load(plan.source_idx + at), at * plan.num_slots
        nearest, _ = nearest_source(plan, at, source, rows, cols, target.height, target.width)
        slots = touching(plan.carried, plan.paste_box, first, plan.num_slots, top, left, ROWS, COLS, SLOTS)
        k = next_of(slots, -1, plan.num_slots)
        while k < plan.num_slots:
            shown = seen == j
            if EXCLUSIVE:
                shown &= whose == k
            else:
                shown &= in_box(plan.paste_box, first + k, rows, cols)
                shown = covers(
                    shown, b, j, k, row, nearest, rows, cols, top, left, source, plan, mix, work, ROWS, COLS, SLOTS
                )
            _add(look + work.pasted + j * plan.num_slots + k, work.pasted_size, shown, rows, cols, target)
            k = next_of(slots, k, plan.num_slots)
        j = next_of(seen, j, plan.num_layers)
    takes_pastes = _takes_pastes(words, plan, work, LAYERS)
    if target.semantic is not None:
        if labels.is_stuff is not None or out.semantic is not None:
            _take_classes(words, look, b, rows, cols, there, stage, takes_pastes, seen, target, labels, work, out, BINS)
    if target.panoptic is not None:
        if stage == 0:
            is_read = True if out.panoptic is not None else takes_pastes
            if is_read:
                here = b * target.size + pixel_offsets(rows, cols, target.width)
                ids = tl.load(target.panoptic + here, mask=there, other=0)
                if out.panoptic is not None:
                    tl.store(out.panoptic + here, ids, mask=there)
                ids = tl.minimum(tl.maximum(ids, 0), _MOST).to(tl.int32)
                tl.atomic_max(words + work.last_id, tl.max(ids), sem="relaxed")


@triton.jit
def _takes_pastes(words, plan, work, LAYERS: tl.constexpr):
    """Return whether a layer has a paste that reaches the canvas of this row."""
    layers = tl.arange(0, LAYERS)
    box, asked = words + work.layer_box + layers * 4, layers < plan.num_layers
    left, right = tl.load(box, mask=asked, other=0), tl.load(box + 2, mask=asked, other=0)
    return tl.max((right > left).to(tl.int32)) != 0


@triton.jit
def _add(found, step, shown, rows, cols, target):
    """Add the shown pixels to an area and its farthest edges, which lie ``step`` words apart."""
    area = tl.sum(shown.to(tl.int32))
    if area > 0:
        tl.atomic_add(found, area, sem="relaxed")
        left = tl.max(tl.where(shown, target.width - cols[None, :], 0))
        top = tl.max(tl.where(shown, target.height - rows[:, None], 0))
        right = tl.max(tl.where(shown, cols[None, :] + 1, 0))
        lower = tl.max(tl.where(shown, rows[:, None] + 1, 0))
        found += step  # one after the other: multiples of the step would be kept in registers
        tl.atomic_max(found, left, sem="relaxed")
        found += step
        tl.atomic_max(found, top, sem="relaxed")
        found += step
        tl.atomic_max(found, right, sem="relaxed")
        found += step
        tl.atomic_max(found, lower, sem="relaxed")


@triton.jit
def _take_classes(
    words,
    look,
    b,
    rows,
    cols,
    there,
    stage,
    takes_pastes,
    seen,
    target,
    labels,
    work,
    out,
    BINS: tl.constexpr,
):
    """In the first look copy the classes and count their pixels; in every look count those that layers hide."""
    is_hidden, is_counted = tl.max(seen) >= 0, (stage == 0) & takes_pastes
    is_read = stage == 0 if out.semantic is not None else is_counted
    if labels.is_stuff is not None:
        is_read |= is_hidden
    if is_read:
        here = b * target.size + pixel_offsets(rows, cols, target.width)
        label = tl.load(target.semantic + here, mask=there, other=-1)
        if out.semantic is not None:
            if stage == 0:
                tl.store(out.semantic + here, label, mask=there)
        if labels.is_stuff is not None:
            if is_counted | is_hidden:
                _count_classes(words, look, label, is_counted, is_hidden, seen, labels, work, BINS)


@triton.jit
def _count_classes(words, look, label, is_counted, is_hidden, seen, labels, work, BINS: tl.constexpr):
    """Count the pixels of each class, and those that layers hide."""
    label = tl.where((label >= 0) & (label < labels.num_stuff), label, -1).to(tl.int32)
    label, covered = tl.ravel(label), tl.ravel(seen >= 0)
    bins = tl.arange(0, BINS)
    for first in range(0, labels.num_stuff, BINS):
        known = (label >= first) & (label < first + BINS)
        index = tl.where(known, label - first, 0)
        counted = first + bins < labels.num_stuff
        if is_counted:
            before = tl.histogram(index, BINS, mask=known)
            to = words + work.class_before + first + bins
            tl.atomic_add(to, before, mask=counted & (before > 0), sem="relaxed")
        if is_hidden:
            hidden = tl.histogram(index, BINS, mask=known & covered)
            to = look + work.hidden + first + bins
            tl.atomic_add(to, hidden, mask=counted & (hidden > 0), sem="relaxed")
