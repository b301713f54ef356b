"""Decisions of one row after a look, in Triton: what is guarded, what is removed, and what each slot holds.

They are taken by the program of the row that arrives last, see `segpaste.engine.triton.visibility._passes`. Counts are
read past the first cache, where they are added up.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.types.check import MAX_FED_BACK_ID

_MOST = tl.constexpr(MAX_FED_BACK_ID)


@triton.jit
def fresh(words, asked):
    """Return counts that other programs have written."""
    return tl.load(words, mask=asked, other=0, cache_modifier=".cg")


@triton.jit
def fresh_word(word):
    """Return one count that other programs have written."""
    return tl.load(word, cache_modifier=".cg")


@triton.jit
def decide(
    b,
    stage,
    may_remove,
    target,
    source,
    plan,
    maps,
    labels,
    work,
    out,
    rules,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Take the decisions of a row after look ``stage``; return the look that it needs next, 0 if it is finished.

    Own arguments:
        may_remove: whether pastes of which too little is visible may still be removed.
        CHUNK: slots, or classes, that are decided at once.
    """
    words = work.words + b * work.size
    look = words + stage * work.look_size
    state = tl.cast(0, tl.int32)
    if CLASSES or OBJECTS:
        if stage == 0:
            state = _guard(b, words, target, labels, work, rules, CLASSES, OBJECTS, CHUNK)
            tl.store(words + work.guarded, state)
    if (state == 0) & may_remove:
        state = remove(b, look, plan, work, rules, CHUNK) * 2
    tl.store(words + work.state, state)
    if state == 0:
        finish(b, words, look, target, source, plan, maps, labels, work, out, rules, CLASSES, OBJECTS, CHUNK)
    return state


@triton.jit
def _wiped_out(words, look, label, there, labels, work, rules):
    """Return which stuff classes lost pixels and fell below a threshold."""
    before = fresh(words + work.class_before + label, there).to(tl.int64)
    after = before - fresh(look + work.hidden + label, there)
    too_little = (after * rules.stuff_den < before * rules.stuff_num) | (after < rules.stuff_px)
    return (tl.load(labels.is_stuff + label, mask=there, other=0) != 0) & (after < before) & too_little


@triton.jit
def _guard(b, words, target, labels, work, rules, CLASSES: tl.constexpr, OBJECTS: tl.constexpr, CHUNK: tl.constexpr):
    """Write which classes and instances must not be hidden; return 1 if there are any, else 0."""
    found = tl.cast(0, tl.int32)
    if CLASSES:
        for first in range(0, labels.num_stuff, CHUNK):
            label = first + tl.arange(0, CHUNK)
            there = label < labels.num_stuff
            guarded = _wiped_out(words, words, label, there, labels, work, rules).to(tl.int32)
            tl.store(words + work.protected + label, guarded, mask=there)
            found = tl.maximum(found, tl.max(guarded))
    if OBJECTS:
        for first in range(0, target.num_slots, CHUNK):
            slot = first + tl.arange(0, CHUNK)
            there = slot < target.num_slots
            before = fresh(words + work.before + slot, there).to(tl.int64)
            hidden = before - fresh(words + slot, there)
            guarded = tl.load(target.valid + b * target.num_slots + slot, mask=there, other=0) != 0
            guarded = (guarded & (hidden * rules.hidden_den > before * rules.hidden_num)).to(tl.int32)
            tl.store(words + work.closed + slot, guarded, mask=there)
            found = tl.maximum(found, tl.max(guarded))
    return found


@triton.jit
def remove(b, look, plan, work, rules, CHUNK: tl.constexpr):
    """Remove the pastes with too few visible pixels; return 1 if there are any, else 0."""
    num_pastes = plan.num_layers * plan.num_slots
    found = tl.cast(0, tl.int32)
    for first in range(0, num_pastes, CHUNK):
        paste = first + tl.arange(0, CHUNK)
        there = paste < num_pastes
        carried = plan.carried + b * num_pastes + paste
        small = (fresh(carried, there) != 0) & (fresh(look + work.pasted + paste, there) < rules.min_area_px)
        tl.store(carried, tl.zeros([CHUNK], tl.uint8), mask=there & small)
        found = tl.maximum(found, tl.max(small.to(tl.int32)))
    return found


@triton.jit
def finish(
    b,
    words,
    look,
    target,
    source,
    plan,
    maps,
    labels,
    work,
    out,
    rules,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Write the slots of a row and its merged instances."""
    last_id = fresh_word(words + work.last_id).to(tl.int64)
    for first in range(0, target.num_slots, CHUNK):
        slot = first + tl.arange(0, CHUNK)
        there, slot = slot < target.num_slots, b * target.num_slots + slot
        there &= tl.load(target.valid + slot, mask=there, other=0) != 0
        last_id = tl.maximum(last_id, tl.max(tl.load(target.ids + slot, mask=there, other=0)).to(tl.int64))
    last_id = tl.minimum(last_id, _MOST)
    num_placed = _place(b, words, look, last_id, target, source, plan, maps, work, out, rules, CLASSES, OBJECTS, CHUNK)
    if target.num_slots > 0:
        tl.debug_barrier()  # the order of the pastes is read by other threads than have written it
        _fill_slots(b, words, look, last_id, num_placed, target, plan, labels, work, out, rules, CHUNK)
    if labels.is_stuff is not None:
        for first in range(0, labels.num_stuff, CHUNK):
            label = first + tl.arange(0, CHUNK)
            there = label < labels.num_stuff
            ignored = _wiped_out(words, look, label, there, labels, work, rules)
            ignored = (ignored & (rules.reverts_stuff == 0)).to(tl.uint8)
            tl.store(out.ignored_class + b * labels.num_stuff + label, ignored, mask=there)


@triton.jit
def _place(
    b,
    words,
    look,
    last_id,
    target,
    source,
    plan,
    maps,
    work,
    out,
    rules,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Write the ids of the placed pastes and their order, and count those that are gone; return how many there are."""
    num_pastes = plan.num_layers * plan.num_slots
    guarded = words
    if CLASSES or OBJECTS:
        guarded += fresh_word(words + work.guarded) * work.look_size
    num_placed = tl.cast(0, tl.int32)
    num_hidden, num_reverted, num_small = num_placed, num_placed, num_placed
    for first in range(0, num_pastes, CHUNK):
        paste = first + tl.arange(0, CHUNK)
        there = paste < num_pastes
        carried = fresh(plan.carried + b * num_pastes + paste, there) != 0
        gone = (tl.load(maps.drawn + b * num_pastes + paste, mask=there, other=0) != 0) & ~carried
        area_free = fresh(words + work.pasted + paste, gone)
        area_guarded = fresh(guarded + work.pasted + paste, gone)
        reverted = gone & (area_guarded < rules.min_area_px) & (area_free >= rules.min_area_px)
        hidden = gone & ~reverted & (area_free == 0)
        num_reverted += tl.sum(reverted.to(tl.int32))
        num_hidden += tl.sum(hidden.to(tl.int32))
        num_small += tl.sum((gone & ~reverted & ~hidden).to(tl.int32))
        placed = carried & (paste % plan.num_slots < source.num_slots)  # a fragment takes no row
        rank = num_placed + tl.cumsum(placed.to(tl.int32), 0)
        num_placed += tl.sum(placed.to(tl.int32))
        tl.store(out.fresh_id + b * num_pastes + paste, tl.where(placed, last_id + rank, 0), mask=there)
        tl.store(words + work.order + rank - 1, paste, mask=placed & (rank <= target.num_slots))
    tl.store(out.num_gone + b * 3, num_hidden.to(tl.int64))
    tl.store(out.num_gone + b * 3 + 1, num_reverted.to(tl.int64))
    tl.store(out.num_gone + b * 3 + 2, num_small.to(tl.int64))
    return num_placed


@triton.jit
def _edges(found, step, there, target):
    """Return the box of which `count_tile` of ``_resolve`` has found the farthest edges; zero if empty."""
    right, lower = fresh(found + 3 * step, there), fresh(found + 4 * step, there)
    left = tl.where(right > 0, target.width - fresh(found + step, there), 0)
    top = tl.where(right > 0, target.height - fresh(found + 2 * step, there), 0)
    return left, top, right, lower


@triton.jit
def _survives(b, words, look, slot, there, valid, target, plan, work, rules):
    """Return which instances of the target stay, the boxes of their visible parts, and how the others are lost."""
    area = fresh(look + slot, there).to(tl.int64)
    before = fresh(words + work.before + slot, there)
    left, top, right, lower = _edges(look + slot, work.kept_size, there, target)
    enough = area * rules.residual_den >= before.to(tl.int64) * rules.residual_num
    enough &= (area >= rules.residual_px) | (area == before)
    if rules.box_shift_px >= 0:
        box = plan.target_box + (b * target.num_slots + slot) * 4
        moved = tl.abs(left - tl.load(box, mask=there, other=0))
        moved = tl.maximum(moved, tl.abs(top - tl.load(box + 1, mask=there, other=0)))
        moved = tl.maximum(moved, tl.abs(right - tl.load(box + 2, mask=there, other=0)))
        moved = tl.maximum(moved, tl.abs(lower - tl.load(box + 3, mask=there, other=0)))
        enough |= moved <= rules.box_shift_px
    stays = valid & enough & (area >= rules.min_area_px)
    lost = tl.where(valid & ~stays & (before > 0), tl.where(area > 0, 2, 1), 0)
    return stays, left, top, right, lower, lost


@triton.jit
def _fill_slots(b, words, look, last_id, num_placed, target, plan, labels, work, out, rules, CHUNK: tl.constexpr):
    """Write what each slot holds: survivors stay, pastes fill the other slots in order."""
    num_free = tl.cast(0, tl.int32)
    for first in range(0, target.num_slots, CHUNK):
        slot = first + tl.arange(0, CHUNK)
        there, at = slot < target.num_slots, b * target.num_slots + slot
        valid = tl.load(target.valid + at, mask=there, other=0) != 0
        stays, left, top, right, lower, lost = _survives(b, words, look, slot, there, valid, target, plan, work, rules)
        is_free = there & ~stays
        rank = num_free + tl.cumsum(is_free.to(tl.int32), 0) - 1
        num_free += tl.sum(is_free.to(tl.int32))
        takes = is_free & (rank < num_placed)
        paste = fresh(words + work.order + rank, takes)
        num_slots = tl.maximum(plan.num_slots, 1)
        j, k = paste // num_slots, paste % num_slots
        label = tl.load(target.labels + at, mask=stays, other=0)
        pasted = tl.load(labels.of_slot + b * plan.num_layers * plan.num_slots + paste, mask=takes, other=0)
        id = tl.load(target.ids + at, mask=stays, other=0)
        pasted_id = (last_id + rank + 1).to(tl.int32)
        tl.debug_barrier()  # in place the rows that all threads have read are now written
        tl.store(out.survives + at, stays.to(tl.uint8), mask=there)
        tl.store(out.dropped + at, (valid & ~stays).to(tl.uint8), mask=there)
        tl.store(out.lost + at, lost.to(tl.int64), mask=there)
        tl.store(out.paste_layer + at, tl.where(takes, j, -1).to(tl.int64), mask=there)
        tl.store(out.paste_slot + at, tl.where(takes, k, -1).to(tl.int64), mask=there)
        x1, y1, x2, y2 = _edges(look + work.pasted + paste, work.pasted_size, takes, target)
        box = out.boxes + at * 4
        tl.store(box, tl.where(stays, left, tl.where(takes, x1, 0)).to(tl.float32), mask=there)
        tl.store(box + 1, tl.where(stays, top, tl.where(takes, y1, 0)).to(tl.float32), mask=there)
        tl.store(box + 2, tl.where(stays, right, tl.where(takes, x2, 0)).to(tl.float32), mask=there)
        tl.store(box + 3, tl.where(stays, lower, tl.where(takes, y2, 0)).to(tl.float32), mask=there)
        tl.store(out.labels + at, tl.where(stays, label, pasted), mask=there)
        tl.store(out.ids + at, tl.where(stays, id, tl.where(takes, pasted_id, 0)), mask=there)
        tl.store(out.valid + at, (stays | takes).to(tl.uint8), mask=there)
