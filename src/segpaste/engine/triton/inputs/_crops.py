"""Kernel that converts crops of a bank to rows of a source batch."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def stage(rows, crops, is_thing, num_classes, num_crops, num_values, height, width, scale, BLOCK: tl.constexpr):
    """Write the row of one crop, or the colours of one block of all crops.

    Args:
        rows: `segpaste.engine.triton.inputs.crops.RowArguments`, written; ``images`` is None if they stay as they are.
        crops: `segpaste.engine.schema.Crops`, bools as bytes.
        is_thing: [num_classes] bytes; None without a taxonomy.
        num_classes: number of classes in that table.
        num_crops: number of crops: the first programs have one each.
        num_values: number of colours of all crops.
        height: of a crop.
        width: of a crop.
        scale: factor on colours.
        BLOCK: colours of a block, and pixels of a mask that are read at once.
    """
    program = tl.program_id(0)
    if program < num_crops:
        _stage_row(rows, crops, is_thing, num_classes, program.to(tl.int64), height, width, BLOCK)
    elif rows.images is not None:
        at = (program - num_crops).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        there = at < num_values
        colour = tl.load(crops.images + at, mask=there, other=0).to(tl.float32) * scale
        tl.store(rows.images + at, _rounded(colour, rows.images.dtype.element_ty), mask=there)


@triton.jit
def _stage_row(rows, crops, is_thing, num_classes, crop, height, width, BLOCK: tl.constexpr):
    left, top = tl.load(crops.boxes + crop * 4), tl.load(crops.boxes + crop * 4 + 1)
    right, lower = tl.load(crops.boxes + crop * 4 + 2), tl.load(crops.boxes + crop * 4 + 3)
    label = tl.load(crops.labels + crop)
    has_object = (right > left) & (lower > top)
    eligible = has_object & (label >= 0)
    if is_thing is not None:
        known = (label >= 0) & (label < num_classes)
        eligible &= tl.load(is_thing + label, mask=known, other=0) != 0
    if crops.depth_valid is not None:
        eligible &= _has_depth(crops, crop * height * width, height * width, BLOCK)
    tl.store(rows.boxes + crop * 4, left.to(tl.float32))
    tl.store(rows.boxes + crop * 4 + 1, top.to(tl.float32))
    tl.store(rows.boxes + crop * 4 + 2, right.to(tl.float32))
    tl.store(rows.boxes + crop * 4 + 3, lower.to(tl.float32))
    tl.store(rows.labels + crop, tl.where(has_object, label, 0))
    tl.store(rows.valid + crop, has_object.to(tl.uint8))
    tl.store(rows.ids + crop, has_object.to(tl.int32))
    tl.store(rows.eligible + crop, eligible.to(tl.uint8))
    tl.store(rows.extent + crop * 2, width)
    tl.store(rows.extent + crop * 2 + 1, height)


@triton.jit
def _has_depth(crops, start, size, BLOCK: tl.constexpr):
    """Return whether a pixel of the object has valid depth."""
    found = tl.zeros([BLOCK], tl.int32)
    for first in range(0, size, BLOCK):
        pixel = first + tl.arange(0, BLOCK)
        valid = tl.load(crops.depth_valid + start + pixel, mask=pixel < size, other=0)
        alpha = tl.load(crops.alphas + start + pixel, mask=pixel < size, other=0)
        found |= ((valid != 0) & (alpha != 0)).to(tl.int32)
    return tl.max(found) > 0


@triton.jit
def _rounded(value, dtype: tl.constexpr):
    """Return float32 values in another dtype, rounded half to even; bfloat16 by hand, for the interpreter cuts off."""
    if dtype == tl.bfloat16:
        bits = value.to(tl.int32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        return (bits >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        return value.to(dtype)
