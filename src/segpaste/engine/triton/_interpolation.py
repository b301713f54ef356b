"""Reads of a layer in Triton: filtered colours, and depth and normals by linear interpolation.

Depth decides which layer is visible, so the arithmetic and its order are those of `segpaste.types.sampling`. Launch
kernels that call these functions with ``enable_fp_fusion=False``: fused multiply-adds give different depths. Colours
are read three channels at a time, from images of any memory layout.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton import _packed_slots
from segpaste.engine.triton._tiles import pixel_offsets, source_offsets
from segpaste.types import sampling

_EDGE_FRAC = tl.constexpr(sampling.DEPTH_EDGE_FRAC)
_VANISHING = tl.constexpr(sampling.VANISHING_NORM)
_WEIGHT_STEP = tl.constexpr(1 / sampling.WEIGHT_ONE**2)
_INF = tl.constexpr(float("inf"))

_BITS = tl.constexpr(2 * sampling.WEIGHT_BITS)
_HALF = tl.constexpr(1 << (2 * sampling.WEIGHT_BITS - 1))
_STEP = tl.constexpr(2.0 ** (-2 * sampling.WEIGHT_BITS))


@triton.jit
def is_number(value):
    """Return whether values are neither NaN nor infinite."""
    return tl.abs(value) < _INF


@triton.jit
def _tap(plan, at, i, j, source, rows, cols, height, width):
    """Return the offsets in a plane and the weights of tap ``i`` down and ``j`` across of linear interpolation."""
    on_row, on_col = rows < height, cols < width
    y = tl.load(plan.y_linear_idx + (at * 2 + i) * height + rows, mask=on_row, other=0)
    x = tl.load(plan.x_linear_idx + (at * 2 + j) * width + cols, mask=on_col, other=0)
    down = tl.load(plan.y_linear_weight + (at * 2 + i) * height + rows, mask=on_row, other=0)
    across = tl.load(plan.x_linear_weight + (at * 2 + j) * width + cols, mask=on_col, other=0)
    return source_offsets(plan, at, y, x, source.width), (down[:, None] * across[None, :]).to(tl.float32) * _WEIGHT_STEP


@triton.jit
def read_depth(plan, at, row, source, rows, cols, height, width, nearest, wanted, by_value):
    """Return depth on the target's scale, 0 where invalid, and whether it is valid.

    Args, in addition to those of `segpaste.engine.triton._tiles`:
        nearest: offsets of the nearest source pixels.
        wanted: pixels to read; values at other pixels are meaningless.
        by_value: 1 if every finite depth above 0 counts as valid, else 0.
    """
    depth = source.depth + row * source.size
    valid = source.depth_valid + row * source.size
    total = tl.zeros(wanted.shape, tl.float32)
    low = tl.full(wanted.shape, _INF, tl.float32)
    high = tl.full(wanted.shape, -_INF, tl.float32)
    ok = wanted
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            offsets, weight = _tap(plan, at, i, j, source, rows, cols, height, width)
            used = wanted & (weight > 0)
            value = tl.load(depth + offsets, mask=used, other=0.0)
            is_valid = tl.load(valid + offsets, mask=used, other=0) != 0
            if by_value != 0:
                is_valid = used
            ok &= (is_valid & is_number(value) & (value > 0)) | (weight <= 0)
            low = tl.where(used, tl.minimum(low, value), low)
            high = tl.where(used, tl.maximum(high, value), high)
            total += value * weight
    is_edge = high - low > _EDGE_FRAC * tl.maximum(tl.abs(low), tl.abs(high))
    at_edge = tl.load(depth + nearest, mask=ok & is_edge, other=0.0)
    value = tl.where(is_edge, at_edge, tl.minimum(tl.maximum(total, low), high))
    value *= tl.load(plan.depth_scale + at)  # any value, if the cameras were not checked
    ok &= is_number(value) & (value > 0)
    return tl.where(ok, value, 0.0), ok


@triton.jit
def _normal(normals, size, offsets, wanted):
    """Read x, y and z of normals at some offsets; all are zero where one of them is not finite."""
    x = tl.load(normals + offsets, mask=wanted, other=0.0)
    y = tl.load(normals + size + offsets, mask=wanted, other=0.0)
    z = tl.load(normals + size + size + offsets, mask=wanted, other=0.0)
    ok = is_number(x) & is_number(y) & is_number(z)
    return tl.where(ok, x, 0.0), tl.where(ok, y, 0.0), tl.where(ok, z, 0.0)


@triton.jit
def read_normals(plan, at, row, source, rows, cols, height, width, nearest, wanted):
    """Return x, y, z of unit normals, oriented as the layer, zero where absent; arguments as for `read_depth`."""
    normals = source.normals + row * 3 * source.size
    x, y, z = _normal(normals, source.size, nearest, wanted)
    wanted &= (x != 0) | (y != 0) | (z != 0)
    sum_x = tl.zeros(wanted.shape, tl.float32)
    sum_y = tl.zeros(wanted.shape, tl.float32)
    sum_z = tl.zeros(wanted.shape, tl.float32)
    as_is = wanted & False
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            offsets, weight = _tap(plan, at, i, j, source, rows, cols, height, width)
            tap_x, tap_y, tap_z = _normal(normals, source.size, offsets, wanted & (weight > 0))
            sum_x += tap_x * weight
            sum_y += tap_y * weight
            sum_z += tap_z * weight
            as_is |= weight == 1
    norm = tl.sqrt_rn(sum_x * sum_x + sum_y * sum_y + sum_z * sum_z)
    as_is |= ~wanted | (norm < _VANISHING)
    norm = tl.where(as_is, 1.0, norm)
    x = tl.where(as_is, x, tl.div_rn(sum_x, norm))
    y = tl.where(as_is, y, tl.div_rn(sum_y, norm))
    z = tl.where(as_is, z, tl.div_rn(sum_z, norm))
    swaps = tl.load(plan.swap_axes + at) != 0
    x, y = tl.where(swaps, y, x), tl.where(swaps, x, y)
    x = tl.where(tl.load(plan.hflip + at) != 0, -x, x)
    return x, tl.where(tl.load(plan.vflip + at) != 0, -y, y), z


@triton.jit
def colours_at(planes, b, rows, cols):
    """Return pointers to the first channel at rows and columns, such as those of a tile."""
    picture = planes.images + b * planes.batch_stride
    picture += rows[:, None].to(tl.int64) * planes.row_stride
    return picture + cols[None, :].to(tl.int64) * planes.col_stride


@triton.jit
def _tap_at(plan, at, source, row, y, x):
    """Return pointers to the first channel of the source pixels that tables of y and x name.

    The flag is read each time, for registers that hold it or strides through the loops are more than there are.
    """
    if tl.load(plan.swap_axes + at) != 0:
        picture = source.images + row * source.batch_stride + x[None, :].to(tl.int64) * source.row_stride
        taps = picture + y[:, None].to(tl.int64) * source.col_stride
    else:
        taps = colours_at(source, row, y, x)
    return taps


@triton.jit
def paste_colours(out, target, source, plan, held, b, at, row, rows, cols, shown, TAPS: tl.constexpr):
    """Write filtered source pixels, summed down the columns first; a weight of 0 adds nothing, not even a NaN.

    Where ``out`` has no images, they go into spare bits of the target's masks, from slot ``held.images`` on.
    """
    y_first, x_first = at * plan.num_taps * out.height + rows, at * plan.num_taps * out.width + cols
    on_row, on_col = rows < out.height, cols < out.width
    num_down = _num_used(plan.y_filter_weight, y_first, on_row, out.height, plan.num_taps, TAPS)
    num_across = _num_used(plan.x_filter_weight, x_first, on_col, out.width, plan.num_taps, TAPS)
    for c in range(0, out.num_channels, 3):
        more = tl.full(shown.shape, out.num_channels - 1 - c, tl.int32)  # a block, as Triton's interpreter needs it
        none = _no_colour(target.images, shown)
        first, second, third = none, none, none
        for j in range(num_across):
            x = tl.load(plan.x_filter_idx + x_first + j * out.width, mask=on_col, other=0)
            across = tl.load(plan.x_filter_weight + x_first + j * out.width, mask=on_col, other=0)
            column, column_2, column_3 = none, none, none
            for i in range(num_down):
                y = tl.load(plan.y_filter_idx + y_first + i * out.height, mask=on_row, other=0)
                down = tl.load(plan.y_filter_weight + y_first + i * out.height, mask=on_row, other=0)
                used = shown & (down != 0)[:, None] & (across != 0)[None, :]
                tap = _tap_at(plan, at, source, row, y, x) + tl.cast(c, tl.int64) * source.channel_stride
                weight = down[:, None].to(first.dtype)
                column += tl.load(tap, mask=used, other=0).to(first.dtype) * weight
                tap += source.channel_stride
                column_2 += tl.load(tap, mask=used & (more > 0), other=0).to(first.dtype) * weight
                tap += source.channel_stride
                column_3 += tl.load(tap, mask=used & (more > 1), other=0).to(first.dtype) * weight
            weight = across[None, :].to(first.dtype)
            first += column * weight
            second += column_2 * weight
            third += column_3 * weight
        dtype: tl.constexpr = target.images.dtype.element_ty
        first, second, third = _finished(first, dtype), _finished(second, dtype), _finished(third, dtype)
        if out.images is None:
            slot, also = held.images + c * held.colour_digits, (shown & (more > 0), shown & (more > 1))
            to = _packed_slots.slot_at(target, b, slot, pixel_offsets(rows, cols, target.width))
            first, second, third = (
                _packed_slots.as_bits(first),
                _packed_slots.as_bits(second),
                _packed_slots.as_bits(third),
            )
            _packed_slots.put_three(to, target.size, first, second, third, shown, also, held.colour_digits)
        else:
            to = colours_at(out, b, rows, cols) + tl.cast(c, tl.int64) * out.channel_stride
            tl.store(to, first, mask=shown)
            tl.store(to + out.channel_stride, second, mask=shown & (more > 0))
            tl.store(to + 2 * out.channel_stride, third, mask=shown & (more > 1))


@triton.jit
def _num_used(weights, first, there, size, num_taps, TAPS: tl.constexpr):
    """Return the number of filter taps of a tile along one axis, at least 1."""
    taps = tl.arange(0, TAPS)
    asked = (taps < num_taps)[:, None] & there[None, :]
    weight = tl.load(weights + first[None, :] + taps[:, None] * size, mask=asked, other=0)
    return tl.max(tl.where(weight != 0, taps[:, None] + 1, 1))


@triton.jit
def _no_colour(images, like):
    """Return zeros for sums of colours: int32 for uint8 images, else float32."""
    if images.dtype.element_ty == tl.uint8:
        return tl.zeros(like.shape, tl.int32)
    else:
        return tl.zeros(like.shape, tl.float32)


@triton.jit
def _finished(total, dtype: tl.constexpr):
    """Return the colour of a sum whose weights add up to 2 ** 22: uint8 rounded half up, floats half to even."""
    if dtype == tl.uint8:
        return ((total + _HALF) >> _BITS).to(tl.uint8)
    elif dtype == tl.bfloat16:  # by hand, for Triton's interpreter cuts off; all ones, a GPU's NaN, would overflow
        value = total * _STEP
        bits = value.to(tl.int32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        bits = tl.where(value == value, bits >> 16, 0x7FC0)
        return bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        return (total * _STEP).to(dtype)
