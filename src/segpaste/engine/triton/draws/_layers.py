"""Draws of the layers in Triton: the chosen slots, flip, scale and place of each, and the counts of the tries.

Common arguments of these functions, in addition to those of `segpaste.engine.triton.draws._places`:
    drawn: `segpaste.engine.triton.draws.draw.DrawnArguments`, tensors to write.
    counts: fields of `segpaste.engine.schema.PlacementCounts`; the last three are added to.
    priorities: what `segpaste.engine.triton.draws._slots.draw_slots` wrote.
    targets, sources, tables, rules: `segpaste.engine.schema.Targets` and so on.
    sizes: `segpaste.engine.triton.draws.draw.SizeArguments`.
    layer: what the functions know of a layer: its index in the whole batch, its row in the tables of the sources, the
        target, its index in the target, the target's seed, the flips, and whether its axes are swapped.
    span: first and one past the last slot that may be chosen.
    SLOTS: number of slots in a block.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._numbers import (
    COUNT,
    HFLIP,
    PASTE,
    QUARTERS,
    TURN,
    VFLIP,
    floor_div,
    indexed,
    keyed,
    upper_32,
    within,
)
from segpaste.engine.triton.draws._places import (
    COVER_ONE,
    FAR,
    chosen_slots,
    draw_places,
    draw_scale,
    judge,
    kept_place,
    num_boxes,
    objects_of,
    scaled_edge,
    sized_object,
    surround,
)
from segpaste.engine.triton.draws._slots import TOP_BIT, highest, is_highest, num_at_least

_LOWEST = tl.constexpr(-(1 << 63))


@triton.jit
def place_layers(
    drawn,
    counts,
    priorities,
    source_idx,
    layer_valid,
    targets,
    sources,
    tables,
    rules,
    sizes,
    IS_GIVEN: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
    OTHERS: tl.constexpr,
    ATTEMPTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Choose the slots of one layer, and draw its flip, scale and place.

    The choice among all slots of a target is made again for each of its layers, with the same result.

    Own arguments:
        source_idx, layer_valid: [B, L].
        IS_GIVEN: the sources have one row for each layer.
        LAYERS, OTHERS, ATTEMPTS, BLOCK: sizes of blocks of layers, of target slots, of attempts, and of all slots.
    """
    at = tl.program_id(0).to(tl.int64)
    b, index = at // rules.num_layers, at % rules.num_layers
    row = at
    if not IS_GIVEN:
        row = tl.load(source_idx + at)
    valid = layer_valid + b * rules.num_layers
    threshold, end = _choose(counts, priorities, valid, targets, tables, rules, sizes, b, index, LAYERS, OTHERS, BLOCK)
    seed = tl.load(targets.seeds + b)
    hflip, vflip, swap_axes = _orientation(rules, seed, index)
    tl.store(drawn.hflip + at, hflip.to(tl.uint8))
    tl.store(drawn.vflip + at, vflip.to(tl.uint8))
    tl.store(drawn.swap_axes + at, swap_axes.to(tl.uint8))
    layer = at, row, b, index, seed, hflip, vflip, swap_axes
    span = _mark(drawn, priorities, rules, sizes, at, index, threshold, end, BLOCK)
    tl.debug_barrier()  # marks are read by other threads
    x1, y1, x2, y2, lowest_slot = surround(drawn, sources, sizes, layer, span, SLOTS)
    is_empty = lowest_slot == sizes.num_slots
    around = x1, y1, x2, y2
    box, label = sized_object(sources, rules, sizes, layer, around, tl.where(is_empty, 0, lowest_slot))
    shrunk = None
    if sources.shrunk is not None:
        shrunk = tl.maximum(tl.load(sources.shrunk + row), 1)
    num_x, num_y, den_x, den_y = draw_scale(
        rules, targets, tables, sizes, shrunk, seed, b, index, around, is_empty, box, label
    )
    x1, y1 = scaled_edge(x1, num_x, den_x), scaled_edge(y1, num_y, den_y)
    x2, y2 = scaled_edge(x2, num_x, den_x), scaled_edge(y2, num_y, den_y)
    after = x1, y1, x2, y2
    _draw_places(drawn, targets, rules, layer, around, after, is_empty, ATTEMPTS)
    _store_pair(drawn.scale_num, at, num_x, num_y)
    _store_pair(drawn.scale_den, at, den_x, den_y)
    tl.debug_barrier()  # places and scales are read by other threads
    _take_best(drawn, counts, targets, sources, tables, rules, sizes, layer, span, SLOTS, OTHERS, ATTEMPTS)


@triton.jit
def _orientation(rules, seed, index):
    """Draw how a layer is turned, by quarters anticlockwise, and then flipped."""
    quarters = within(upper_32(indexed(keyed(seed, QUARTERS), index)), 1, 3)
    quarters *= (upper_32(indexed(keyed(seed, TURN), index)) < rules.turn_threshold).to(tl.int64)
    hflip = (upper_32(indexed(keyed(seed, HFLIP), index)) < rules.flip_threshold) ^ (quarters >= 2)
    vflip = upper_32(indexed(keyed(seed, VFLIP), index)) < rules.vflip_threshold
    return hflip, vflip ^ ((quarters == 1) | (quarters == 2)), quarters % 2 == 1


@triton.jit
def _choose(
    counts,
    priorities,
    valid,
    targets,
    tables,
    rules,
    sizes,
    b,
    index,
    LAYERS: tl.constexpr,
    OTHERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Choose the slots of all layers of a target; the first layer writes the counts that are known by then."""
    values, size = priorities.order + b * rules.num_layers * sizes.num_slots, rules.num_layers * sizes.num_slots
    if rules.one_each:
        values, size = priorities.lead + b * rules.num_layers, rules.num_layers * 1
    num_available = num_at_least(values, size, b * 0, BLOCK)
    low, high = tl.load(tables.limits + 1), tl.load(tables.limits + 2)
    if rules.counts_available:
        low, high = tl.minimum(low, num_available), tl.minimum(high, num_available)
    seed = tl.load(targets.seeds + b)
    tries = (upper_32(keyed(seed, PASTE)) < tl.load(tables.limits)).to(tl.int64)
    if rules.needs_objects:
        boxes = targets.occupied + b * sizes.num_targets * 4
        tries *= (num_boxes(boxes, sizes.num_targets, OTHERS) > 0).to(tl.int64)
    wanted = within(upper_32(keyed(seed, COUNT)), low, high) * tries
    num_tried = tl.minimum(wanted, num_available)
    if not rules.takes_part:
        wanted = tl.minimum(wanted, tl.load(targets.num_free + b))
    if index == 0:
        has_source = tl.zeros([LAYERS], tl.uint8)
        for first in range(0, rules.num_layers, LAYERS):
            layers = first + tl.arange(0, LAYERS)
            has_source |= tl.load(valid + layers, mask=layers < rules.num_layers, other=0)
        no_source = tries * (tl.max(has_source.to(tl.int32)) == 0).to(tl.int64)
        num_chosen = tl.maximum(tl.minimum(wanted, num_available), 0)
        tl.store(counts.tried + b, num_tried + no_source)
        tl.store(counts.no_source + b, no_source)
        tl.store(counts.no_free_slot + b, num_tried - num_chosen)
    return highest(values, size, wanted, TOP_BIT, BLOCK)


@triton.jit
def _mark(drawn, priorities, rules, sizes, at, index, threshold, end, BLOCK: tl.constexpr):
    """Mark the chosen slots of a layer as carried, and return its span."""
    start, stop, kept = at * 0, at * 0 + sizes.num_slots, at * 0 - 1
    if rules.one_each:
        start = tl.load(priorities.kept_slot + at)
        is_chosen = is_highest(tl.load(priorities.lead + at), index, threshold, end)
        stop = start + is_chosen.to(tl.int64)
        kept = tl.where(is_chosen, start, -1)
    for first in range(0, sizes.num_slots, BLOCK):
        slots = first + tl.arange(0, BLOCK)
        out, asked = at * sizes.num_slots + slots, slots < sizes.num_slots
        if rules.one_each:
            chosen = slots == kept
        else:
            value = tl.load(priorities.order + out, mask=asked, other=-1)
            chosen = is_highest(value, index * sizes.num_slots + slots, threshold, end)
        tl.store(drawn.carried + out, chosen.to(tl.uint8), mask=asked)
        if rules.takes_part:
            tl.store(drawn.cover + out, -1, mask=asked)
    return start, stop


@triton.jit
def _draw_places(drawn, targets, rules, layer, before, after, is_empty, ATTEMPTS: tl.constexpr):
    """Write the places to try.

    Own arguments:
        before, after: the rectangle around the chosen boxes before and after the scale.
    """
    at, b, index, seed = layer[0], layer[2], layer[3], layer[4]
    x1, y1, x2, y2 = after
    if rules.keeps_place:
        x = kept_place(before[0], before[2], x1, x2, is_empty)
        y = kept_place(before[1], before[3], y1, y2, is_empty)
        _store_pair(drawn.places, at, x, y)
    else:
        width, height = tl.load(targets.extent + 2 * b), tl.load(targets.extent + 2 * b + 1)
        x1, x2 = tl.where(is_empty, 0, x1), tl.where(is_empty, width, x2)
        y1, y2 = tl.where(is_empty, 0, y1), tl.where(is_empty, height, y2)
        for start in range(0, rules.max_attempts, ATTEMPTS):
            attempts = (start + tl.arange(0, ATTEMPTS)).to(tl.int64)
            places = drawn.places + 2 * (at * rules.max_attempts + attempts)
            x = draw_places(rules, seed, index, attempts, 0, x1, x2, width, is_empty)
            y = draw_places(rules, seed, index, attempts, 1, y1, y2, height, is_empty)
            tl.store(places, x, mask=attempts < rules.max_attempts)
            tl.store(places + 1, y, mask=attempts < rules.max_attempts)


@triton.jit
def _take_best(
    drawn,
    counts,
    targets,
    sources,
    tables,
    rules,
    sizes,
    layer,
    span,
    SLOTS: tl.constexpr,
    OTHERS: tl.constexpr,
    ATTEMPTS: tl.constexpr,
):
    """Take the place that keeps the most slots, then overlaps the target's boxes least, then is tried first.

    The last round of the loop judges that place, marks the objects that may be pasted there as carried, and counts the
    others.
    """
    at, b = layer[0], layer[2]
    num_others = num_boxes(targets.occupied + b * sizes.num_targets * 4, sizes.num_targets, OTHERS)
    misfits, outside, covering, taken, best = b * 0, b * 0, b * 0, b * 0, b * 0 + _LOWEST
    last_round = 0
    if ATTEMPTS > 1:
        last_round = tl.cdiv(rules.max_attempts, ATTEMPTS)
    for i in range(last_round + 1):
        places = (i * ATTEMPTS + tl.arange(0, ATTEMPTS)).to(tl.int64)
        is_first = (places == i * ATTEMPTS)[None, :]
        attempts = tl.where(i == last_round, taken, tl.minimum(places, rules.max_attempts - 1))
        place = drawn.places + 2 * (at * rules.max_attempts + attempts)
        place_x, place_y = tl.load(place), tl.load(place + 1)
        score = -attempts
        for first in range(span[0], span[1], SLOTS):
            slots = first + tl.arange(0, SLOTS)
            chosen = chosen_slots(drawn, sizes, layer, slots)
            if tl.max(chosen.to(tl.int32)) != 0:
                objects = objects_of(drawn, sources, tables, sizes, layer, slots, chosen)
                fits, inside, kept, cover, overlap = judge(
                    rules, targets, sizes, b, objects, (place_x[None, :], place_y[None, :]), num_others, ATTEMPTS > 1
                )
                if ATTEMPTS > 1:
                    score += tl.sum(tl.where(kept, FAR - overlap, 0), axis=0) * rules.max_attempts
                if i == last_round:
                    tl.debug_barrier()  # other threads may not have read the marks yet
                    misfits += tl.sum((chosen[:, None] & ~fits & is_first).to(tl.int64))
                    outside += tl.sum((fits & ~inside & is_first).to(tl.int64))
                    covering += tl.sum((inside & ~kept & is_first).to(tl.int64))
                    out, asked = (at * sizes.num_slots + slots)[:, None] + is_first * 0, chosen[:, None] & is_first
                    tl.store(drawn.carried + out, kept.to(tl.uint8), mask=asked)
                    if rules.takes_part:
                        tl.store(drawn.cover + out, tl.where(kept, 2 * COVER_ONE - cover, -1), mask=asked)
        if ATTEMPTS > 1:
            top = tl.max(score)
            if (top > best) & (i < last_round):
                best = top
                taken = tl.min(tl.where(score == top, attempts, rules.max_attempts))
    if ATTEMPTS > 1:
        place = drawn.places + 2 * (at * rules.max_attempts + taken)
        _store_pair(drawn.translate, at, tl.load(place), tl.load(place + 1))
    tl.atomic_add(counts.does_not_fit + b, misfits)
    tl.atomic_add(counts.outside_region + b, outside)
    tl.atomic_add(counts.covers_too_much + b, covering)


@triton.jit
def _store_pair(pairs, at, x, y):
    tl.store(pairs + 2 * at, x)
    tl.store(pairs + 2 * at + 1, y)


@triton.jit
def keep_part(carried, cover, counts, num_free, rules, num_slots, BLOCK: tl.constexpr):
    """Keep a fraction of the candidates of one target, those that cover the least, or fewer if no slot is free.

    Own arguments:
        cover: [B, L, K_s] int64, larger for objects that cover less, -1 for objects that are no candidates.
        num_free: [B] int64.
    """
    b = tl.program_id(0).to(tl.int64)
    size = rules.num_layers * num_slots
    values = cover + b * size
    num_candidates = num_at_least(values, size, b * 0, BLOCK)
    product, den = num_candidates * rules.candidate_num, tl.cast(rules.candidate_den, tl.int64)
    wanted = floor_div(product, den)
    twice = 2 * (product - wanted * den)
    wanted += ((twice > den) | ((twice == den) & (wanted % 2 == 1))).to(tl.int64)
    num = tl.minimum(wanted, tl.load(num_free + b))
    threshold, end = highest(values, size, num, 2 * COVER_ONE, BLOCK)
    for first in range(0, size, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(values + index, mask=index < size, other=-1)
        kept = is_highest(value, index, threshold, end)
        tl.store(carried + b * size + index, kept.to(tl.uint8), mask=index < size)
    num_kept = tl.maximum(tl.minimum(num, num_candidates), 0)
    tl.store(counts.tried + b, tl.load(counts.tried + b) - num_candidates + wanted)
    tl.store(counts.no_free_slot + b, tl.load(counts.no_free_slot + b) + wanted - num_kept)
