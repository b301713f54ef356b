"""Functions shared by the Triton kernels: the tile of a program, the boxes that touch it, and offsets in the source.

Absent planes are None, a constant for the compiler. Offsets of images and slots are 64 bits wide.

Common arguments of the kernels:
    target, source, out: `segpaste.engine.triton.launching.PlaneArguments` of the batch that is pasted into, of the
        source, and of the planes that are written.
    plan: `segpaste.engine.triton.launching.PlanArguments`.
    slots: `segpaste.engine.reference.plan.SlotPlan`.
    layer, owner: [B, H, W] int16, as in `segpaste.engine.reference.plan.Visible`; ``owner`` is None where masks may
        overlap, or no plane needs it.
    at, row: index of a layer in the whole batch, and its source row.
    height, width: of the target's canvas.
    top, left: first row and first column of a tile.
    rows, cols: all rows and all columns of a tile; ROWS, COLS: their numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_at(index, height, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Return plane, first row and first column of a tile; tiles are numbered along rows, then down, then by plane."""
    across = tl.cdiv(width, COLS)
    num_tiles = across * tl.cdiv(height, ROWS)
    place = index % num_tiles
    return index // num_tiles, place // across * ROWS, place % across * COLS


@triton.jit
def on_canvas(rows, cols, height, width):
    """Return which pixels of a tile lie on the canvas."""
    return (rows < height)[:, None] & (cols < width)[None, :]


@triton.jit
def pixel_offsets(rows, cols, width):
    """Return the 64-bit offsets of the pixels of a tile in a plane with rows of ``width`` pixels."""
    return rows[:, None].to(tl.int64) * width + cols[None, :]


@triton.jit
def in_box(boxes, index, rows, cols):
    """Return which pixels of a tile lie in box ``index`` of the boxes [..., 4] int64 xyxy."""
    box = boxes + index * 4
    across = (cols >= tl.load(box)) & (cols < tl.load(box + 2))
    down = (rows >= tl.load(box + 1)) & (rows < tl.load(box + 3))
    return down[:, None] & across[None, :]


@triton.jit
def touching(wanted, boxes, first, num_slots, top, left, ROWS: tl.constexpr, COLS: tl.constexpr, SLOTS: tl.constexpr):
    """Return the indices of the wanted slots whose boxes touch a tile, and ``num_slots`` in place of all others.

    Own arguments:
        wanted: pointer to a byte for each slot.
        boxes: pointer to xyxy int64 for each slot.
        first: position of slot 0 in both.
        num_slots: number of slots.
        SLOTS: a power of two, at least ``num_slots``.
    """
    slots = tl.arange(0, SLOTS)
    asked = slots < num_slots
    asked &= tl.load(wanted + first + slots, mask=asked, other=0) != 0
    return tl.where(touches(boxes, first + slots, asked, top, left, ROWS, COLS), slots, num_slots)


@triton.jit
def touches(boxes, index, asked, top, left, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Return which of the asked boxes touch a tile."""
    box = boxes + index * 4
    across = (tl.load(box, mask=asked, other=0) < left + COLS) & (tl.load(box + 2, mask=asked, other=0) > left)
    down = (tl.load(box + 1, mask=asked, other=0) < top + ROWS) & (tl.load(box + 3, mask=asked, other=0) > top)
    return asked & across & down


@triton.jit
def next_of(numbers, after, end):
    """Return the smallest of the numbers above ``after``, or ``end``."""
    return tl.min(tl.where(numbers > after, numbers, end))


@triton.jit
def nearest_source(plan, at, source, rows, cols, height, width):
    """Return the offsets of the nearest source pixels in their plane, and which pixels have one."""
    y = tl.load(plan.y_nearest + at * height + rows, mask=rows < height, other=-1)
    x = tl.load(plan.x_nearest + at * width + cols, mask=cols < width, other=-1)
    return source_offsets(plan, at, y, x, source.width), (y >= 0)[:, None] & (x >= 0)[None, :]


@triton.jit
def source_offsets(plan, at, y, x, width):
    """Return the 64-bit offsets of the source pixels that tables of y and x name, which are (x, y) if axes are swapped.

    Own arguments:
        width: of the source.
    """
    if tl.load(plan.swap_axes + at) != 0:
        offsets = x[None, :].to(tl.int64) * width + y[:, None]
    else:
        offsets = pixel_offsets(y, x, width)
    return offsets
