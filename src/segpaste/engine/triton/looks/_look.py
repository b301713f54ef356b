"""Kernel of a look: resolve and measure a tile; the last program of a row to arrive decides.

Every program adds up what it has found by relaxed atomics, and then arrives at a counter of its row. The one that
arrives last must see all that the others have added:

- A barrier of the block orders the atomics of all its threads before the arrival of one of them, and the arrival
  releases at the scope of the device. Releases are cumulative, so they cover the other threads' atomics.
- All arrivals are read-modify-writes of one address, so each continues the release sequence of those before it, and the
  last one, which acquires, synchronizes with all of them. A barrier passes this on to the other threads of its block.
- Atomics are performed in the second cache. What the decisions read of them is read there too (`.cg`), so no line that
  an earlier load has left in the first cache can answer. Nothing that the decisions read was written in the same launch
  but by these atomics or by the deciding program itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._tiles import on_canvas, pixel_offsets, tile_at
from segpaste.engine.triton.looks._counting import count_tile
from segpaste.engine.triton.looks._deciding import decide
from segpaste.engine.triton.looks._seeing import see_tile


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
    num_removals,
    CLASSES: tl.constexpr,
    OBJECTS: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    AGAIN: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    LAYERS: tl.constexpr,
    BINS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Look at one tile of a row, if the row needs look ``stage``.

    Arguments of its own:
        visible: `segpaste.engine.triton.looks.arguments.VisibleArguments`.
        stage: 0 without guards, 1 with guards, 2 after a removal.
        num_removals: rounds of removal that may be needed.
        CLASSES, OBJECTS: whether classes or instances may be guarded.
        EXCLUSIVE: no pixel belongs to two instances.
        AGAIN: more than one round may be needed: the last program of a row to arrive then looks at all its tiles again
            until nothing is removed. That is rare, and takes no launch.
        SLOTS, LAYERS: powers of two, at least the slots of a row and the layers.
        BINS: classes that are counted at once.
        CHUNK: slots that are decided at once.
    """
    num_tiles = tl.cdiv(target.width, COLS) * tl.cdiv(target.height, ROWS)
    b, tile = (tl.program_id(0) // num_tiles).to(tl.int64), tl.program_id(0) % num_tiles
    words = work.words + b * work.size
    needed = True
    if stage > 0:
        needed = tl.load(words + work.state) == stage
    if needed:
        if not AGAIN:
            _look_at(
                tile,
                b,
                visible,
                target,
                source,
                plan,
                mix,
                labels,
                work,
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
                decide(
                    b,
                    stage,
                    0,
                    1 - stage // 2,
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
        else:
            end, num_removed, goes_on = tile + 1, stage // 2, True
            while goes_on:
                while tile < end:
                    _look_at(
                        tile,
                        b,
                        visible,
                        target,
                        source,
                        plan,
                        mix,
                        labels,
                        work,
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
                    tile += 1
                goes_on = False
                # In another round this program is the only one, and finds all arrivals and its own earlier ones.
                if _arrive(words + stage * work.look_size + work.arrived) >= num_tiles - 1:
                    state = decide(
                        b,
                        stage,
                        num_removed,
                        num_removals,
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
                    goes_on = (stage == 2) & (state == 2)
                    if goes_on:
                        _forget(words + stage * work.look_size, work, CHUNK)
                        tile, end, num_removed = tl.cast(0, tl.int32), num_tiles, num_removed + 1


@triton.jit
def _arrive(arrived):
    """Return how many programs of the row have arrived before this one, all of whose threads have done their part."""
    tl.debug_barrier()
    return tl.atomic_add(arrived, 1, sem="acq_rel")


@triton.jit
def _look_at(
    tile,
    b,
    visible,
    target,
    source,
    plan,
    mix,
    labels,
    work,
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
    _, top, left = tile_at(tile, target.height, target.width, ROWS, COLS)
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
        rules.ignore_index,
        CLASSES,
        OBJECTS,
        ROWS,
        COLS,
        SLOTS,
        LAYERS,
    )
    _write(visible, b, top, left, seen, whose, target, ROWS, COLS)
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
        EXCLUSIVE,
        ROWS,
        COLS,
        SLOTS,
        BINS,
    )


@triton.jit
def _write(visible, b, top, left, seen, whose, target, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    here = b * target.size + pixel_offsets(rows, cols, target.width)
    there = on_canvas(rows, cols, target.height, target.width)
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
