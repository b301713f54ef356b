"""Kernels of `segpaste.engine.reference.inputs`: the extension of a batch, and crops as rows of a source batch."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def stage(rows, crops, is_thing, num_classes, num_crops, num_values, height, width, scale, BLOCK: tl.constexpr):
    """Write the row of one crop, or the colours of one block of all crops.

    Args:
        rows: `segpaste.engine.triton.inputs.RowArguments`, written; ``images`` is None if they stay as they are.
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


@triton.jit
def extend(
    given,
    out,
    batch_stride,
    channel_stride,
    row_stride,
    col_stride,
    out_batch_stride,
    out_channel_stride,
    out_row_stride,
    out_col_stride,
    num_channels,
    height,
    width,
    out_height,
    out_width,
    num_slots,
    out_slots,
    num_coordinates,
    ignore_index,
    BLOCK: tl.constexpr,
    MASK_CHUNK: tl.constexpr,
):
    """Write a block of pixels of one image in every plane, and stretches of the masks; the first block writes slots.

    Own arguments:
        given, out: `segpaste.engine.triton.inputs.ExtendArguments`; fields of ``out`` that stay are None.
        num_coordinates: values of the keypoints of an instance.
        ignore_index: class of the padding.
        BLOCK: pixels of a block, and values of a table of slots that are copied at once.
        MASK_CHUNK: bytes of a stretch of the masks.
    """
    blocks = tl.cdiv(out_height * out_width, BLOCK)
    b, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    there = pixel < out_height * out_width
    y, x = pixel // out_width, pixel % out_width
    inside = there & (y < height) & (x < width)
    place, size, out_size = y.to(tl.int64) * width + x, height * width, out_height * out_width
    if out.images is not None:
        source = given.images + b * batch_stride + _mirrored(y, height) * row_stride + _mirrored(x, width) * col_stride
        to = out.images + b * out_batch_stride + y.to(tl.int64) * out_row_stride + x.to(tl.int64) * out_col_stride
        for c in range(num_channels):
            step = tl.cast(c, tl.int64)
            value = tl.load(source + step * channel_stride, mask=there, other=0)
            tl.store(to + step * out_channel_stride, value, mask=there)
    _extend_planes(out, given, b, place, pixel, size, out_size, inside, there, ignore_index)
    if out.padding is not None:
        value = (~inside).to(tl.uint8)
        if given.padding is not None:
            value = tl.load(given.padding + b * size + place, mask=inside, other=1)
        tl.store(out.padding + b * out_size + pixel, value, mask=there)
    if block == 0:
        _extend_rows(out, given, b, num_slots, out_slots, num_coordinates, BLOCK)
    if out.masks is not None:
        total = (tl.num_programs(0) // blocks).to(tl.int64) * out_slots * out_size
        for chunk in range(tl.program_id(0), tl.cdiv(total, MASK_CHUNK), tl.num_programs(0)):
            first = tl.cast(chunk, tl.int64) * MASK_CHUNK
            _extend_masks(
                out, given, first, total, num_slots, out_slots, height, width, out_height, out_width, MASK_CHUNK
            )


@triton.jit
def _mirrored(at, size):
    """Return the row or column that is reflected to a place beyond the last one, repeatedly where there are few."""
    step = at % tl.maximum(2 * size - 2, 1)
    return tl.minimum(step, 2 * size - 2 - step).to(tl.int64)


@triton.jit
def _extend_masks(
    out, given, first, total, num_slots, out_slots, height, width, out_height, out_width, CHUNK: tl.constexpr
):
    """Write one stretch of the masks of all slots, which are one flat array, 16 bytes per store at any width."""
    size, out_size = height * width, out_height * out_width
    place = first + tl.arange(0, CHUNK)
    at = (first % out_size).to(tl.int32) + tl.arange(0, CHUNK)
    slot, pixel = (first // out_size).to(tl.int32) + at // out_size, at % out_size
    b, k = slot // out_slots, slot % out_slots
    y, x = pixel // out_width, pixel % out_width
    inside = (place < total) & (k < num_slots) & (y < height) & (x < width)
    source = (b * num_slots + k).to(tl.int64) * size + y * width + x
    value = tl.load(given.masks + source, mask=inside, other=0)
    if first + CHUNK <= total:  # no mask, so that stores are wide
        tl.store(out.masks + place, value)
    else:
        tl.store(out.masks + place, value, mask=place < total)


@triton.jit
def _extend_planes(out, given, b, place, pixel, size, out_size, inside, there, ignore_index):
    if out.semantic is not None:
        _extend_plane(out.semantic, given.semantic, b, place, pixel, size, out_size, inside, there, ignore_index, 1)
    if out.panoptic is not None:
        _extend_plane(out.panoptic, given.panoptic, b, place, pixel, size, out_size, inside, there, 0, 1)
    if out.depth is not None:
        _extend_plane(out.depth, given.depth, b, place, pixel, size, out_size, inside, there, 0, 1)
        _extend_plane(out.depth_valid, given.depth_valid, b, place, pixel, size, out_size, inside, there, 0, 1)
    if out.normals is not None:
        _extend_plane(out.normals, given.normals, b, place, pixel, size, out_size, inside, there, 0, 3)
    if out.crowd is not None:
        _extend_plane(out.crowd, given.crowd, b, place, pixel, size, out_size, inside, there, 0, 1)


@triton.jit
def _extend_plane(to, plane, b, place, pixel, size, out_size, inside, there, fill, CHANNELS: tl.constexpr):
    for c in tl.static_range(CHANNELS):
        at = b * CHANNELS + c
        value = tl.load(plane + at * size + place, mask=inside, other=fill)
        tl.store(to + at * out_size + pixel, value, mask=there)


@triton.jit
def _extend_rows(out, given, b, num_slots, out_slots, num_coordinates, BLOCK: tl.constexpr):
    if out.boxes is not None:
        _extend_slots(out.boxes, given.boxes, b, 4, num_slots, out_slots, BLOCK)
        _extend_slots(out.labels, given.labels, b, 1, num_slots, out_slots, BLOCK)
        _extend_slots(out.valid, given.valid, b, 1, num_slots, out_slots, BLOCK)
    if out.ids is not None:
        _extend_slots(out.ids, given.ids, b, 1, num_slots, out_slots, BLOCK)
    if out.keypoints is not None:
        _extend_slots(out.keypoints, given.keypoints, b, num_coordinates, num_slots, out_slots, BLOCK)


@triton.jit
def _extend_slots(to, table, b, num_values, num_slots, out_slots, BLOCK: tl.constexpr):
    for first in range(0, out_slots * num_values, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(table + b * num_slots * num_values + at, mask=at < num_slots * num_values, other=0)
        tl.store(to + b * out_slots * num_values + at, value, mask=at < out_slots * num_values)
