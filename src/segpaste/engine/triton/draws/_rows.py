"""Source rows of the layers in Triton: `segpaste.engine.reference.draws.draw.choose_rows` and its neighbours.

Common arguments of these functions:
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

from segpaste.engine.triton._numbers import CROP, SOURCE, bits_62, indexed, keyed

GIVEN, OTHERS, SAME, OWN = (tl.constexpr(pick) for pick in range(4))


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
