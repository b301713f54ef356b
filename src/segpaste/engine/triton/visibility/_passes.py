"""Kernel of a look: resolve and measure a tile; the last program of a row to arrive decides.

Every program adds its counts with relaxed atomics, and then increments the arrival counter of its row. The program that
arrives last must see the counts of all others. It does, because:

- A barrier of the block orders the atomics of all its threads before the arrival of one of them, and the arrival
  releases at the scope of the device. Releases are cumulative, so they cover the other threads' atomics.
- All arrivals are read-modify-writes of one address, so each continues the release sequence of those before it, and the
  last one, which acquires, synchronizes with all of them. A barrier passes this on to the other threads of its block.
- Atomics are performed in the L2 cache. Decisions read the counts there too (`.cg`), so they never read an old line of
  the L1 cache. Everything that decisions read was written by earlier launches, by these atomics, or by the deciding
  program itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton import _packed_slots
from segpaste.engine.triton._tiles import on_canvas, pixel_offsets, tile_at
from segpaste.engine.triton.visibility._decide import decide, finish, remove
from segpaste.engine.triton.visibility._resolve import count_tile, see_tile


@triton.jit(do_not_specialize=["stage"])
def look(
    visible,
    target,
    source,
    plan,
    maps,
    mix,
    labels,
    work,
    out,
    rules,
    stage,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
    BINS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Look at one tile of a row, if the row needs look ``stage``.

    Own arguments:
        visible: `segpaste.engine.triton.packed_slots.VisibleArguments`.
        stage: 0 without guards, 1 with guards, 2 after a removal.
        CLASSES, OBJECTS: whether classes or instances may be guarded.
        EXCLUSIVE: no pixel belongs to two instances.
        SLOTS, LAYERS: powers of two, at least the slots of a row and the layers.
        BINS: classes that are counted at once.
        CHUNK: slots that are decided at once.
    """
    num_tiles = tl.cdiv(target.width, COLS) * tl.cdiv(target.height, ROWS)
    index = tl.program_id(0)
    b = (index // num_tiles).to(tl.int64)
    words = work.words + b * work.size
    needed = True
    if stage > 0:
        needed = tl.load(words + work.state) == stage
    if needed:
        _look_at(
            index,
            visible,
            target,
            source,
            plan,
            mix,
            labels,
            work,
            out,
            rules,
            stage,
            CLASSES,
            OBJECTS,
            EXCLUSIVE,
            ROWS,
            COLS,
            SLOTS,
            LAYERS,
            BINS,
        )
        if _arrive(words + stage * work.look_size + work.arrived) == num_tiles - 1:
            may_remove = stage < 2
            decide(
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
                CLASSES,
                OBJECTS,
                CHUNK,
            )


@triton.jit
def look_until_settled(
    visible,
    target,
    source,
    plan,
    maps,
    mix,
    labels,
    work,
    out,
    rules,
    num_removals,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
    BINS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Look after a removal, where more than one round of removal may be needed.

    After each round except the last, the last program of the row to arrive processes all tiles of the row alone. This
    is rare, so it has no launch of its own. ``num_removals`` is the number of rounds; the other arguments are those of
    `look`.
    """
    stage: tl.constexpr = 2
    num_tiles = tl.cdiv(target.width, COLS) * tl.cdiv(target.height, ROWS)
    index = tl.program_id(0)
    state = tl.load(work.words + (index // num_tiles).to(tl.int64) * work.size + work.state)
    end, num_removed, finishes = index + 1, 1, state < 0
    while state == stage:
        while index < end:
            # The row is computed from the index again, so that values that depend on it are not kept in registers.
            _look_at(
                index,
                visible,
                target,
                source,
                plan,
                mix,
                labels,
                work,
                out,
                rules,
                stage,
                CLASSES,
                OBJECTS,
                EXCLUSIVE,
                ROWS,
                COLS,
                SLOTS,
                LAYERS,
                BINS,
            )
            index += 1
        state = 0
        b = ((index - 1) // num_tiles).to(tl.int64)
        words = work.words + b * work.size + stage * work.look_size
        # In another round this program is the only one, and finds all arrivals and its own earlier ones.
        if _arrive(words + work.arrived) >= num_tiles - 1:
            if num_removed < num_removals:
                state = remove(b, words, plan, work, rules, CHUNK) * stage
            if state == stage:
                _forget(words, work, CHUNK)
            finishes = state == 0
            index, num_removed = b.to(tl.int32) * num_tiles, num_removed + 1
            end = index + num_tiles
    if finishes:  # outside of the loop, which would keep in registers what this needs
        b = (index // num_tiles).to(tl.int64)
        words = work.words + b * work.size
        look = words + stage * work.look_size
        finish(b, words, look, target, source, plan, maps, labels, work, out, rules, CLASSES, OBJECTS, CHUNK)


@triton.jit
def _arrive(arrived):
    """Return how many programs of the row have arrived before this one, all of whose threads have done their part."""
    tl.debug_barrier()
    return tl.atomic_add(arrived, 1, sem="acq_rel")


@triton.jit
def _look_at(
    index,
    visible,
    target,
    source,
    plan,
    mix,
    labels,
    work,
    out,
    rules,
    stage,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
    BINS: tl.constexpr,
):
    b, top, left = tile_at(index, target.height, target.width, ROWS, COLS)
    b = b.to(tl.int64)
    seen, whose = see_tile(
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
        CLASSES,
        OBJECTS,
        ROWS,
        COLS,
        SLOTS,
        LAYERS,
    )
    _write(visible, b, top, left, stage, seen, whose, target, ROWS, COLS)
    count_tile(
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
        EXCLUSIVE,
        ROWS,
        COLS,
        SLOTS,
        LAYERS,
        BINS,
    )


@triton.jit
def _write(visible, b, top, left, stage, seen, whose, target, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    place = pixel_offsets(rows, cols, target.width)
    there = on_canvas(rows, cols, target.height, target.width)
    if visible.layer is None:
        if stage == 0:  # all spare bits are zero
            there &= seen >= 0
        _packed_slots.put_visible(visible, target, b, place, seen, whose, there)
    else:
        here = b * target.size + place
        tl.store(visible.layer + here, seen.to(tl.int16), mask=there)
        if visible.owner is not None:
            tl.store(visible.owner + here, whose.to(tl.int16), mask=there)


@triton.jit
def _forget(look, work, CHUNK: tl.constexpr):
    """Set what a look has found to zero, except for the arrivals, and wait for all threads of the program."""
    tl.debug_barrier()  # all have read it
    for first in range(0, work.arrived, CHUNK):
        word = first + tl.arange(0, CHUNK)
        tl.store(look + word, tl.zeros([CHUNK], tl.int32), mask=word < work.arrived)
    tl.debug_barrier()
