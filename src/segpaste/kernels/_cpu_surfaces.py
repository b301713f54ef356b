"""Depth and normals of a layer, read between pixels over a box, compiled by Numba.

The arithmetic, and its order, is that of `segpaste.types.sampling`: a depth decides who is seen. Each loop holds all
that it does at a pixel: a call that hands over an array costs more than the pixel, inlined or not.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled
from segpaste.types import sampling

_EDGE_FRAC = np.float32(sampling.DEPTH_EDGE_FRAC)
_VANISHING = np.float32(sampling.VANISHING_NORM)
_ONE = np.float32(1)
_WEIGHT_STEP = np.float32(1 / sampling.WEIGHT_ONE**2)
_WEIGHT_ONE = sampling.WEIGHT_ONE
_NONE = np.float32(0)
_FAR = np.float32(np.inf)


@compiled
def read_depth(b, j, plan, source, wanted, start, box, out, out_ok, out_start):
    """Depth of layer ``j`` on the target's scale, 0 where it is invalid, and whether it is valid.

    A tap without weight repeats one that has some, so that all four may be asked alike.

    Args:
        b: the target's row.
        j: the layer.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        source: `segpaste.kernels._cpu_arrays.PlaneArrays` of the source batch.
        wanted: uint8, pixels of the box that the layer covers, row after row from ``start`` on.
        start: where they start.
        box: the rectangle to look at.
        out: float32, row after row of the box from ``out_start`` on, written where wanted.
        out_ok: uint8, likewise.
        out_start: where those start.
    """
    s, scale = plan.source_idx[b, j], plan.depth_scale[b, j]
    depth, valid = source.depth[s], source.depth_valid[s]
    x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
    y_idx, y_weight = plan.y_linear_idx[b, j], plan.y_linear_weight[b, j]
    x_idx, x_weight = plan.x_linear_idx[b, j], plan.x_linear_weight[b, j]
    x1, width, at, to = np.uint64(box[0]), np.uint64(box[2] - box[0]), np.uint64(start), np.uint64(out_start)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        above, below = np.uint64(y_idx[0, y]), np.uint64(y_idx[1, y])
        over, under = y_weight[0, y], y_weight[1, y]
        for i in range(width):
            if not wanted[at + i]:
                continue
            x = x1 + i
            left, right = np.uint64(x_idx[0, x]), np.uint64(x_idx[1, x])
            before, after = x_weight[0, x], x_weight[1, x]
            v00, v01, v10, v11 = depth[above, left], depth[above, right], depth[below, left], depth[below, right]
            marked = valid[above, left] & valid[above, right] & valid[below, left] & valid[below, right]
            low, high = min(min(v00, v01), min(v10, v11)), max(max(v00, v01), max(v10, v11))
            is_number = (v00 < _FAR) & (v01 < _FAR) & (v10 < _FAR) & (v11 < _FAR)
            ok = marked & is_number & (v00 > 0) & (v01 > 0) & (v10 > 0) & (v11 > 0)
            total = v00 * (np.float32(over * before) * _WEIGHT_STEP)
            total += v01 * (np.float32(over * after) * _WEIGHT_STEP)
            total += v10 * (np.float32(under * before) * _WEIGHT_STEP)
            total += v11 * (np.float32(under * after) * _WEIGHT_STEP)
            value = min(max(total, low), high)
            if high - low > _EDGE_FRAC * high:
                value = depth[np.uint64(y_near[y]), np.uint64(x_near[x])]
            value *= scale  # by cameras that nobody checked it may be anything
            ok &= (value > 0) & (value < _FAR)
            out[to + i] = value if ok else _NONE
            out_ok[to + i] = ok
        at += width
        to += width


@compiled
def read_normals(b, j, plan, source, wanted, start, box, out):
    """Unit normals of layer ``j``, mirrored with it, zero where there is none.

    Args:
        b: the target's row.
        j: the layer.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        source: `segpaste.kernels._cpu_arrays.PlaneArrays` of the source batch.
        wanted: uint8, pixels of the box that the layer covers, row after row from ``start`` on.
        start: where they start.
        box: the rectangle to look at.
        out: [3, N] float32, row after row of the box from 0 on, written where wanted.
    """
    normals, sign = source.normals[plan.source_idx[b, j]], -_ONE if plan.hflip[b, j] else _ONE
    x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
    y_idx, y_weight = plan.y_linear_idx[b, j], plan.y_linear_weight[b, j]
    x_idx, x_weight = plan.x_linear_idx[b, j], plan.x_linear_weight[b, j]
    x1, width, at, start = np.uint64(box[0]), np.uint64(box[2] - box[0]), np.uint64(0), np.uint64(start)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        above, below, near = np.uint64(y_idx[0, y]), np.uint64(y_idx[1, y]), np.uint64(max(y_near[y], 0))
        over, under = y_weight[0, y], y_weight[1, y]
        for i in range(width):
            if not wanted[start + at + i]:
                continue
            x = x1 + i
            left, right, column = np.uint64(x_idx[0, x]), np.uint64(x_idx[1, x]), np.uint64(x_near[x])
            before, after = x_weight[0, x], x_weight[1, x]
            n_x, n_y, n_z = _number(normals[0, near, column], normals[1, near, column], normals[2, near, column])
            is_centre = max(over, under) == _WEIGHT_ONE and max(before, after) == _WEIGHT_ONE
            if not is_centre and (n_x != 0 or n_y != 0 or n_z != 0):
                w00 = np.float32(over * before) * _WEIGHT_STEP
                w01 = np.float32(over * after) * _WEIGHT_STEP
                w10 = np.float32(under * before) * _WEIGHT_STEP
                w11 = np.float32(under * after) * _WEIGHT_STEP
                x00, y00, z00 = normals[0, above, left], normals[1, above, left], normals[2, above, left]
                x01, y01, z01 = normals[0, above, right], normals[1, above, right], normals[2, above, right]
                x10, y10, z10 = normals[0, below, left], normals[1, below, left], normals[2, below, left]
                x11, y11, z11 = normals[0, below, right], normals[1, below, right], normals[2, below, right]
                sum_x = x00 * w00 + x01 * w01 + x10 * w10 + x11 * w11
                sum_y = y00 * w00 + y01 * w01 + y10 * w10 + y11 * w11
                sum_z = z00 * w00 + z01 * w01 + z10 * w10 + z11 * w11
                if not (np.isfinite(sum_x) and np.isfinite(sum_y) and np.isfinite(sum_z)):
                    x00, y00, z00 = _number(x00, y00, z00)
                    x01, y01, z01 = _number(x01, y01, z01)
                    x10, y10, z10 = _number(x10, y10, z10)
                    x11, y11, z11 = _number(x11, y11, z11)
                    sum_x = x00 * w00 + x01 * w01 + x10 * w10 + x11 * w11
                    sum_y = y00 * w00 + y01 * w01 + y10 * w10 + y11 * w11
                    sum_z = z00 * w00 + z01 * w01 + z10 * w10 + z11 * w11
                norm = np.sqrt(sum_x * sum_x + sum_y * sum_y + sum_z * sum_z)
                if norm >= _VANISHING:
                    n_x, n_y, n_z = sum_x / norm, sum_y / norm, sum_z / norm
            out[0, at + i], out[1, at + i], out[2, at + i] = sign * n_x, n_y, n_z
        at += width


@compiled
def _number(x, y, z):
    """A normal, zero if one of its numbers is none."""
    if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
        return x, y, z
    return _NONE, _NONE, _NONE
