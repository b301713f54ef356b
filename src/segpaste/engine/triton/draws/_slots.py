"""Draws of source rows and slots in Triton: `segpaste.engine.reference.draws`, and the choice of highest priorities.

Common arguments of the functions that choose rows:
    source_idx, layer_valid: [B, L], rows that are given; else not read.
    seeds: [B] int64.
    eligible: [S, K_s] bytes.
    b, layers: index of a target, int64, and a block of its layers, int64.
    num_layers, num_rows, num_slots: L, S and K_s.
    PICK: the rule by which rows are chosen, one of those below.
    LAYERS, ROWS, SLOTS: sizes of blocks.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._numbers import CROP, LAYER, SLOT, SOURCE, bits_62, indexed, keyed

GIVEN, OTHERS, SAME, OWN = (tl.constexpr(pick) for pick in range(4))

_HIGHEST = tl.constexpr((1 << 62) - 1)
TOP_BIT = tl.constexpr(1 << 61)


@triton.jit
def choose_rows(
    source_idx,
    layer_valid,
    seeds,
    eligible,
    num_layers,
    num_rows,
    num_slots,
    LAYERS: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Choose other rows of the batch for a block of layers."""
    blocks = tl.cdiv(num_layers, LAYERS)
    b = (tl.program_id(0) // blocks).to(tl.int64)
    layers = (tl.program_id(0) % blocks * LAYERS + tl.arange(0, LAYERS)).to(tl.int64)
    source, is_valid = _others(seeds, eligible, b, layers, num_rows, num_slots, ROWS, SLOTS)
    at = b * num_layers + layers
    tl.store(source_idx + at, source, mask=layers < num_layers)
    tl.store(layer_valid + at, is_valid.to(tl.uint8), mask=layers < num_layers)


@triton.jit
def rows_of(
    source_idx,
    layer_valid,
    seeds,
    eligible,
    b,
    layers,
    num_layers,
    num_rows,
    num_targets,
    num_slots,
    PICK: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Return the source row of each layer, int64, and which layers have one."""
    if PICK == GIVEN:
        at = b * num_layers + layers
        source = tl.load(source_idx + at, mask=layers < num_layers, other=0)
        is_valid = tl.load(layer_valid + at, mask=layers < num_layers, other=0) != 0
    elif PICK == OTHERS:
        source, is_valid = _others(seeds, eligible, b, layers, num_rows, num_slots, ROWS, SLOTS)
    elif PICK == SAME:
        source = tl.zeros_like(layers) + b
        is_valid = _offers(eligible, source, layers < num_layers, num_slots, SLOTS)
        source = tl.where(is_valid, source, 0)
    else:
        source, is_valid = _own(seeds, eligible, b, layers, num_rows // num_targets, num_slots, ROWS)
    return source, is_valid


@triton.jit
def _offers(eligible, rows, asked, num_slots, SLOTS: tl.constexpr):
    """Return which of the asked rows have an eligible slot."""
    most = tl.zeros_like(rows)
    for first in range(0, num_slots, SLOTS):
        slots = first + tl.arange(0, SLOTS)
        at = rows[:, None] * num_slots + slots[None, :]
        flags = tl.load(eligible + at, mask=asked[:, None] & (slots < num_slots)[None, :], other=0)
        most = tl.maximum(most, tl.max(flags.to(tl.int32), axis=1))
    return most != 0


@triton.jit
def _others(seeds, eligible, b, layers, num_rows, num_slots, ROWS: tl.constexpr, SLOTS: tl.constexpr):
    """Choose other rows of the batch, keyed by the seeds of both rows."""
    state = indexed(keyed(tl.load(seeds + b), SOURCE), layers)
    best = tl.zeros_like(layers) - 1
    source = tl.zeros_like(layers)
    for first in range(0, num_rows, ROWS):
        rows = (first + tl.arange(0, ROWS)).to(tl.int64)
        asked = (rows < num_rows) & (rows != b)
        asked &= _offers(eligible, rows, asked, num_slots, SLOTS)
        own_seeds = tl.load(seeds + rows, mask=asked, other=0)
        twins = _earlier_twins(seeds, num_rows, rows, own_seeds, first, ROWS)
        keys = indexed(indexed(state[:, None], own_seeds[None, :]), twins[None, :])
        priority = tl.where(asked[None, :], bits_62(keys), -1)
        highest = tl.max(priority, axis=1)
        chosen = tl.min(tl.where(priority == highest[:, None], rows[None, :], num_rows), axis=1)
        source = tl.where(highest > best, chosen, source)
        best = tl.maximum(best, highest)
    return source, best >= 0


@triton.jit
def _earlier_twins(seeds, num_rows, rows, own_seeds, first, ROWS: tl.constexpr):
    """Return the number of rows of the same seed before each of a block of rows that starts at ``first``, int64."""
    twins = tl.zeros_like(rows)
    for start in range(0, first + ROWS, ROWS):
        others = (start + tl.arange(0, ROWS)).to(tl.int64)
        before = others[None, :] < rows[:, None]
        seed = tl.load(seeds + others, mask=others < num_rows, other=0)
        twins += tl.sum((before & (seed[None, :] == own_seeds[:, None])).to(tl.int64), axis=1)
    return twins


@triton.jit
def _own(seeds, eligible, b, layers, num_own, num_slots, ROWS: tl.constexpr):
    """Choose some of the ``num_own`` rows that belong to a target, those that may be pasted first."""
    state = keyed(tl.load(seeds + b), CROP)
    source = tl.zeros_like(layers)
    usable = tl.zeros_like(layers)
    for first in range(0, num_own, ROWS):
        rows, priority = _own_priority(eligible, state, b, first, num_own, num_slots, ROWS)
        rank = tl.zeros_like(rows)
        for start in range(0, num_own, ROWS):
            others, other = _own_priority(eligible, state, b, start, num_own, num_slots, ROWS)
            is_tie = (other[None, :] == priority[:, None]) & (others[None, :] < rows[:, None])
            rank += tl.sum(((other[None, :] > priority[:, None]) | is_tie).to(tl.int64), axis=1)
        taken = (rank[None, :] == layers[:, None]) & (rows < num_own)[None, :]
        source += tl.sum(tl.where(taken, (b * num_own + rows)[None, :], 0), axis=1)
        usable += tl.sum((taken & (priority >= 0)[None, :]).to(tl.int64), axis=1)
    return source, usable != 0


@triton.jit
def _own_priority(eligible, state, b, first, num_own, num_slots, ROWS: tl.constexpr):
    """Return a block of a target's rows, and their priorities: -1 where nothing may be pasted."""
    rows = (first + tl.arange(0, ROWS)).to(tl.int64)
    flags = tl.load(eligible + (b * num_own + rows) * num_slots, mask=rows < num_own, other=0)
    return rows, tl.where(flags != 0, bits_62(indexed(state, rows)), -1)


@triton.jit
def draw_slots(
    priorities,
    counts,
    source_idx,
    layer_valid,
    seeds,
    eligible,
    labels,
    limits,
    inverse_weights,
    log_table,
    num_layers,
    num_rows,
    num_targets,
    num_slots,
    num_weights,
    PICK: tl.constexpr,
    ONE_EACH: tl.constexpr,
    LAYERS: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Choose the source row of one layer, and draw the priorities of its slots.

    Own arguments:
        priorities: `segpaste.engine.triton.draws.draw.PriorityArguments`, written.
        counts: `segpaste.engine.schema.PlacementCounts`; those to which later programs add are set to 0.
        source_idx, layer_valid: [B, L], written unless they are given.
        eligible, labels: of the sources.
        limits, inverse_weights, log_table: of `segpaste.engine.schema.DrawTables`.
    """
    at = tl.program_id(0).to(tl.int64)
    b, layer = at // num_layers, at % num_layers
    block = layer + tl.arange(0, 1)
    sources, flags = rows_of(
        source_idx,
        layer_valid,
        seeds,
        eligible,
        b,
        block,
        num_layers,
        num_rows,
        num_targets,
        num_slots,
        PICK,
        ROWS,
        SLOTS,
    )
    source, is_valid = tl.max(sources), tl.max(flags.to(tl.int32)) != 0
    row, first_layer, turn = source, layer, layer * 0
    if PICK == GIVEN:
        row = at
    else:
        tl.store(source_idx + at, source)
        tl.store(layer_valid + at, is_valid.to(tl.uint8))
    if layer == 0:
        tl.store(counts.does_not_fit + b, 0)
        tl.store(counts.outside_region + b, 0)
        tl.store(counts.covers_too_much + b, 0)
    temperature = tl.load(limits + 3)
    seed = tl.load(seeds + b)
    own_lead = bits_62(indexed(keyed(seed, LAYER), layer))
    if ONE_EACH:
        for first in range(0, num_layers, LAYERS):
            others = (first + tl.arange(0, LAYERS)).to(tl.int64)
            other_sources, have_source = rows_of(
                source_idx,
                layer_valid,
                seeds,
                eligible,
                b,
                others,
                num_layers,
                num_rows,
                num_targets,
                num_slots,
                PICK,
                ROWS,
                SLOTS,
            )
            same = (other_sources == source) & (others < num_layers)
            first_layer = tl.minimum(first_layer, tl.min(tl.where(same, others, num_layers)))
            leads = tl.where(have_source, bits_62(indexed(keyed(seed, LAYER), others)), -1)
            before = others < layer
            if temperature != 0:
                before = (leads > own_lead) | ((leads == own_lead) & before)
            turn += tl.sum((same & before).to(tl.int64))
    state = indexed(keyed(seed, SLOT), first_layer)
    mine, eligible, labels = priorities.order + at * num_slots, eligible + row * num_slots, labels + row * num_slots
    for first in range(0, num_slots, SLOTS):
        slots = first + tl.arange(0, SLOTS)
        available = is_valid & _eligible(eligible, slots, num_slots)
        priority = bits_62(indexed(state, slots))
        if temperature != 0:
            alike = _num_alike(eligible, labels, slots, available, num_slots, SLOTS)
            weight = tl.load(inverse_weights + tl.minimum(alike, num_weights - 1))
            priority = _HIGHEST - _negative_log2(priority, log_table) * weight
        tl.store(mine + slots, tl.where(available, priority, -1), mask=slots < num_slots)
    if ONE_EACH:
        tl.debug_barrier()  # the priorities are read by other threads
        slot = _slot_of_rank(mine, turn, num_slots, SLOTS)
        tl.store(priorities.kept_slot + at, slot)
        tl.store(priorities.lead + at, tl.where(slot >= 0, own_lead, -1))


@triton.jit
def _eligible(eligible, slots, num_slots):
    return tl.load(eligible + slots, mask=slots < num_slots, other=0) != 0


@triton.jit
def _num_alike(eligible, labels, slots, available, num_slots, SLOTS: tl.constexpr):
    """Return the number of eligible slots of the class of each slot, int64; 0 in a block without an available slot."""
    alike = tl.zeros([SLOTS], tl.int64)
    if tl.max(available.to(tl.int32)) != 0:
        label = tl.load(labels + slots, mask=slots < num_slots, other=0)
        for first in range(0, num_slots, SLOTS):
            others = first + tl.arange(0, SLOTS)
            counts = _eligible(eligible, others, num_slots)
            if tl.max(counts.to(tl.int32)) != 0:
                other = tl.load(labels + others, mask=counts, other=0)
                same = (label[:, None] == other[None, :]) & counts[None, :]
                alike += tl.sum(same.to(tl.int64), axis=1)
    return alike


@triton.jit
def _negative_log2(bits, log_table):
    """See `segpaste.engine.reference.draws.slots.negative_log2`."""
    number, zeros = bits + 1, tl.zeros_like(bits)
    for power in tl.static_range(5, -1, -1):
        is_small = number < (1 << (63 - (1 << power)))
        number = tl.where(is_small, number << (1 << power), number)
        zeros += tl.where(is_small, 1 << power, 0)
    step, between = (number >> 54) & 255, (number >> 24) & ((1 << 30) - 1)
    low, high = tl.load(log_table + step), tl.load(log_table + step + 1)
    return (zeros << 32) - low - ((high - low) * between >> 30)


@triton.jit
def _slot_of_rank(order, turn, num_slots, SLOTS: tl.constexpr):
    """Return the slot at position ``turn`` in descending order of priority, int64; -1 if its priority is below 0."""
    found = turn * 0 - 1
    for first in range(0, num_slots, SLOTS):
        slots = first + tl.arange(0, SLOTS)
        priority = tl.load(order + slots, mask=slots < num_slots, other=-1)
        if tl.max(priority) >= 0:
            rank = tl.zeros([SLOTS], tl.int64)
            for start in range(0, num_slots, SLOTS):
                others = start + tl.arange(0, SLOTS)
                other = tl.load(order + others, mask=others < num_slots, other=-1)
                if tl.max(other) >= 0:
                    is_tie = (other[None, :] == priority[:, None]) & (others[None, :] < slots[:, None])
                    rank += tl.sum(((other[None, :] > priority[:, None]) | is_tie).to(tl.int64), axis=1)
            hit = (priority >= 0) & (rank == turn)
            found = tl.maximum(found, tl.max(tl.where(hit, slots, -1)))
    return found


@triton.jit
def highest(values, size, num, TOP: tl.constexpr, BLOCK: tl.constexpr):
    """Find the ``num`` highest of the values that are not negative, of equal ones the first, or all if there are fewer.

    Own arguments:
        values: pointer to ``size`` int64 below twice ``TOP``, a power of two.

    Returns:
        A threshold and an end, int64: a value is among the highest if it is greater than the threshold, or equal to it
        with an index below the end.
    """
    threshold = num * 0
    end = threshold + size
    found = num_at_least(values, size, threshold, BLOCK)
    step = threshold + TOP
    if num <= 0:
        threshold = threshold + 2 * TOP
        found = num
    while (found > num) & (step > 0):
        enough = num_at_least(values, size, threshold + step, BLOCK)
        if enough >= num:
            threshold += step
            found = enough
        step = step >> 1
    if found > num:
        num -= num_at_least(values, size, threshold + 1, BLOCK)
        end = _end_of_equal(values, size, threshold, num, BLOCK)
    return threshold, end


@triton.jit
def num_at_least(values, size, threshold, BLOCK: tl.constexpr):
    num = threshold * 0
    for first in range(0, size, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(values + index, mask=index < size, other=-1)
        num += tl.sum((value >= threshold).to(tl.int64))
    return num


@triton.jit
def _end_of_equal(values, size, threshold, num, BLOCK: tl.constexpr):
    """Return one past the index of the ``num``-th of the values that are equal to the threshold, int64."""
    end = num * 0
    for first in range(0, size, BLOCK):
        index = first + tl.arange(0, BLOCK)
        is_equal = (tl.load(values + index, mask=index < size, other=-1) == threshold).to(tl.int64)
        position = tl.cumsum(is_equal, axis=0)
        end = tl.maximum(end, tl.max(tl.where((is_equal != 0) & (position == num), index + 1, 0)))
        num -= tl.sum(is_equal)
    return end


@triton.jit
def is_highest(value, index, threshold, end):
    """Return which values are among those that `highest` found."""
    return (value > threshold) | ((value == threshold) & (index < end))
