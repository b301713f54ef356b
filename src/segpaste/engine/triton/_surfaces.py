"""Reads of a layer's depth and normals by linear interpolation, in Triton.

Depth decides which layer is visible, so the arithmetic and its order are those of `segpaste.types.sampling`. Launch
kernels that call these functions with ``enable_fp_fusion=False``: fused multiply-adds give different depths.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._tiles import pixel_offsets
from segpaste.types import sampling

_EDGE_FRAC = tl.constexpr(sampling.DEPTH_EDGE_FRAC)
_VANISHING = tl.constexpr(sampling.VANISHING_NORM)
_WEIGHT_STEP = tl.constexpr(1 / sampling.WEIGHT_ONE**2)
_INF = tl.constexpr(float("inf"))


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
    return pixel_offsets(y, x, source.width), (down[:, None] * across[None, :]).to(tl.float32) * _WEIGHT_STEP


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
    """Return x, y and z of unit normals, flipped with the layer, zero where absent; arguments as for `read_depth`."""
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
    return tl.where(tl.load(plan.hflip + at) != 0, -x, x), y, z
