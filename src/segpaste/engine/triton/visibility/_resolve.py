"""Visible layer and owner of the pixels of a tile, and their counts, in Triton.

See `resolve` and `measure` of `segpaste.engine.reference.pixels`. A program reads only masks whose boxes touch its
tile. Areas, extents and classes are added up by relaxed integer atomics, so the order of the programs changes no bit.
`segpaste.engine.triton._tiles` and `segpaste.engine.triton.visibility.settling` describe the arguments that kernels
share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._interpolation import is_number, read_depth
from segpaste.engine.triton._packed_slots import holds
from segpaste.engine.triton._tiles import in_box, nearest_source, next_of, on_canvas, pixel_offsets, touches, touching
from segpaste.types.check import MAX_FED_BACK_ID

_MOST = tl.constexpr(MAX_FED_BACK_ID)


@triton.jit
def see_tile(
    b,
    top,
    left,
    stage,
    target,
    source,
    plan,
    mix,
    labels,
    work,
    rules,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
):
    """Return the visible layer of each pixel of a tile, and the slot that owns the pixel; -1 for the target."""
    height, width = target.height, target.width
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    here = b * target.size + pixel_offsets(rows, cols, width)
    words = work.words + b * work.size
    seen = tl.full([ROWS, COLS], -1, tl.int32)
    whose = tl.full([ROWS, COLS], -1, tl.int32)
    depth = tl.zeros([ROWS, COLS], tl.float32)
    depth_ok = tl.full([ROWS, COLS], 0, tl.int1)
    seen_rank = tl.zeros([ROWS, COLS], tl.int32)
    there = on_canvas(rows, cols, height, width)
    layers = tl.arange(0, LAYERS)
    layers = tl.where(
        touches(words + work.layer_box, layers, layers < plan.num_layers, top, left, ROWS, COLS),
        layers,
        plan.num_layers,
    )
    j = next_of(layers, -1, plan.num_layers)
    if j < plan.num_layers:
        if labels.rank is not None and target.semantic is not None:
            seen_rank = _rank(tl.load(target.semantic + here, mask=there, other=-1), there, labels)
        if OBJECTS:
            if stage > 0:
                there &= ~_closed(b, words + work.closed, target, plan, there, top, left, ROWS, COLS, SLOTS)
    while j < plan.num_layers:
        at = b * plan.num_layers + j
        first = at * plan.num_slots
        slots = touching(plan.carried, plan.paste_box, first, plan.num_slots, top, left, ROWS, COLS, SLOTS)
        k = next_of(slots, -1, plan.num_slots)
        if k < plan.num_slots:
            row = tl.load(plan.source_idx + at)
            nearest, reached = nearest_source(plan, at, source, rows, cols, height, width)
            foremost = tl.full([ROWS, COLS], -1, tl.int32)
            top_rank = seen_rank
            while k < plan.num_slots:
                asked = there & reached & in_box(plan.paste_box, first + k, rows, cols)
                if labels.rank is not None:
                    label = tl.load(labels.of_slot + first + k)
                    rank = _rank(label, label == label, labels)
                    asked &= (rank > top_rank) | ((rank == top_rank) & (foremost < 0))
                else:
                    asked &= foremost < 0
                covered = covers(
                    asked, b, j, k, row, nearest, rows, cols, top, left, source, plan, mix, work, ROWS, COLS, SLOTS
                )
                foremost = tl.where(covered, k, foremost)
                if labels.rank is not None:
                    top_rank = tl.where(covered, rank, top_rank)
                k = next_of(slots, k, plan.num_slots)
            pixel = here + tl.minimum(j, 0)  # `here`: addresses that depend on the layer are not kept in registers
            shown = _open(foremost >= 0, b, pixel, stage, target, words + work.protected, labels, rules, CLASSES)
            shown = _has_something(shown, at, row * source.size + nearest, source, mix, rules.ignore_index)
            if target.depth is not None and source.depth is not None:
                by_value = rules.orders_by_value
                behind, behind_ok = _target_depth(target, pixel, shown & (seen < 0), by_value)
                behind = tl.where(seen < 0, behind, depth)
                behind_ok = tl.where(seen < 0, behind_ok, depth_ok)
                front, front_ok = read_depth(plan, at, row, source, rows, cols, height, width, nearest, shown, by_value)
                shown &= ~behind_ok | (front_ok & (front < behind))
                depth = tl.where(shown, front, depth)
                depth_ok = tl.where(shown, front_ok, depth_ok)
            seen = tl.where(shown, j, seen)
            whose = tl.where(shown, foremost, whose)
            if labels.rank is not None:
                seen_rank = tl.where(shown, top_rank, seen_rank)
        j = next_of(layers, j, plan.num_layers)
    return seen, whose


@triton.jit
def _rank(label, asked, labels):
    """Return the priorities of classes, int32, 0 for unknown classes."""
    known = asked & (label >= 0) & (label < labels.num_ranks)
    return tl.load(labels.rank + label, mask=known, other=0).to(tl.int32)


@triton.jit
def _closed(b, closed, target, plan, asked, top, left, ROWS: tl.constexpr, COLS: tl.constexpr, SLOTS: tl.constexpr):
    """Return the asked pixels of instances that must not be hidden; ``closed`` points to a word for each."""
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    slots, first = tl.arange(0, SLOTS), b * target.num_slots
    wanted = tl.load(closed + slots, mask=slots < target.num_slots, other=0) != 0
    wanted = touches(plan.target_box, first + slots, wanted, top, left, ROWS, COLS)
    slots = tl.where(wanted, slots, target.num_slots)
    found = asked & False
    k = next_of(slots, -1, target.num_slots)
    while k < target.num_slots:
        mask = target.masks + (first + k) * target.size + pixel_offsets(rows, cols, target.width)
        inside = asked & in_box(plan.target_box, first + k, rows, cols)
        found |= holds(tl.load(mask, mask=inside, other=0))
        k = next_of(slots, k, target.num_slots)
    return found


@triton.jit
def covers(
    asked,
    b,
    j,
    k,
    row,
    nearest,
    rows,
    cols,
    top,
    left,
    source,
    plan,
    mix,
    work,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Return the asked pixels that slot ``k`` of a layer covers: those of its mask, or of the fragment of ClassMix."""
    if mix.classes is None:
        mask = source.masks + (row * source.num_slots + k) * source.size
        covered = holds(tl.load(mask + nearest, mask=asked, other=0))
    else:
        covered = asked
        if k == source.num_slots:
            at, pixel = b * plan.num_layers + j, row * source.size + nearest
            covered = _in_mixed(asked, at, pixel, source, mix)
            if source.padding is not None:
                covered &= tl.load(source.padding + pixel, mask=covered, other=1) == 0
            if source.panoptic is not None:
                covered &= tl.load(source.panoptic + pixel, mask=covered, other=1) == 0
            else:
                first, wanted = at * plan.num_slots, work.words + b * work.size + work.wanted + j * plan.num_slots
                slots = tl.arange(0, SLOTS)
                wants = tl.load(wanted + slots, mask=slots < source.num_slots, other=0) != 0
                wants = touches(plan.paste_box, first + slots, wants, top, left, ROWS, COLS)
                slots = tl.where(wants, slots, source.num_slots)
                i = next_of(slots, -1, source.num_slots)
                while i < source.num_slots:
                    inside = covered & in_box(plan.paste_box, first + i, rows, cols)
                    mask = source.masks + (row * source.num_slots + i) * source.size
                    covered &= ~holds(tl.load(mask + nearest, mask=inside, other=0))
                    i = next_of(slots, i, source.num_slots)
        else:
            plane = source.masks + (row * source.num_slots + k) * source.size
            covered = holds(tl.load(plane + nearest, mask=asked, other=0))
    return covered


@triton.jit
def _in_mixed(asked, at, there, source, mix):
    """Return the asked pixels of the classes that ClassMix pastes."""
    label = tl.load(source.semantic + there, mask=asked, other=-1)
    known = asked & (label >= 0) & (label < mix.num_classes)
    return tl.load(mix.classes + at * mix.num_classes + label, mask=known, other=0) != 0


@triton.jit
def _open(asked, b, here, stage, target, protected, labels, rules, CLASSES: tl.constexpr):
    """Return the asked pixels where pastes may cover the target: no padding, no void that stays, no protected class."""
    if target.padding is not None:
        asked &= tl.load(target.padding + here, mask=asked, other=1) == 0
    if target.semantic is not None:
        label = tl.load(target.semantic + here, mask=asked, other=0)
        if rules.covers_void == 0:
            asked &= label != rules.ignore_index
        if CLASSES:
            if stage > 0:
                known = asked & (label >= 0) & (label < labels.num_stuff)
                asked &= tl.load(protected + label, mask=known, other=0) == 0
    return asked


@triton.jit
def _has_something(asked, at, there, source, mix, ignore_index):
    """Return the asked pixels where the source may be shown: neither padding nor ignored, nor of another class."""
    if source.padding is not None:
        asked &= tl.load(source.padding + there, mask=asked, other=1) == 0
    if source.semantic is not None:
        asked &= tl.load(source.semantic + there, mask=asked, other=0) != ignore_index
    if mix.classes is not None:
        asked = _in_mixed(asked, at, there, source, mix)
    return asked


@triton.jit
def _target_depth(target, here, asked, by_value):
    """Return the target's depth, and where it is valid (or ``by_value`` is 1), finite and positive."""
    depth = tl.load(target.depth + here, mask=asked, other=0.0)
    valid = tl.load(target.depth_valid + here, mask=asked, other=0) != 0
    if by_value != 0:
        valid = asked
    return depth, valid & is_number(depth) & (depth > 0)


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
        seen, whose: from `segpaste.engine.triton.visibility._resolve.see_tile`.
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
