"""Depth and normals of a layer, read between pixels over a box, compiled by Numba.

The arithmetic, and its order, is that of `segpaste.types.sampling`: a depth decides who is seen. Each loop holds all
that it does at a pixel: a call that hands over an array costs more than the pixel, inlined or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from segpaste.types import sampling

_EDGE_FRAC = np.float32(sampling.DEPTH_EDGE_FRAC)
_VANISHING = np.float32(sampling.VANISHING_NORM)
_ONE = np.float32(1)
_WEIGHT_STEP = np.float32(1 / sampling.WEIGHT_ONE**2)
_NONE = np.float32(0)
_FAR = np.float32(np.inf)

_LOOPS = sorted(Path(__file__).parent.glob("_cpu_*.py"))
_CACHE = (
    Path(__file__).parent / "__pycache__" / hashlib.sha256(b"".join(p.read_bytes() for p in _LOOPS)).hexdigest()[:16]
)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loop of the CPU kernels: no lock held, no reordering of sums, kept on disk.

    Numba looks at the file of a function only to see whether what it kept is still true, and loops of one file call
    those of another: so it is kept under a digest of all of them. Where that folder cannot be written Numba chooses.
    """
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(_CACHE)
    try:
        return numba.njit(nogil=True, cache=True)(function)
    finally:
        config.CACHE_DIR = before


@compiled
def read_depth(b, j, plan, source, wanted, start, box, out, out_ok):
    """Depth of layer ``j`` on the target's scale, 0 where it is invalid, and whether it is valid.

    Args:
        b: the target's row.
        j: the layer.
        plan: `segpaste.kernels._cpu_arrays.PlanArrays`.
        source: `segpaste.kernels._cpu_arrays.PlaneArrays` of the source batch.
        wanted: uint8, pixels of the box that the layer covers, row after row from ``start`` on.
        start: where they start.
        box: the rectangle to look at.
        out: float32, row after row of the box from 0 on, written where wanted.
        out_ok: uint8, likewise.
    """
    s, scale = plan.source_idx[b, j], plan.depth_scale[b, j]
    depth, valid = source.depth[s], source.depth_valid[s]
    x_near, y_near = plan.x_nearest[b, j], plan.y_nearest[b, j]
    y_idx, y_weight = plan.y_linear_idx[b, j], plan.y_linear_weight[b, j]
    x_idx, x_weight = plan.x_linear_idx[b, j], plan.x_linear_weight[b, j]
    x1, width, at, start = np.uint64(box[0]), np.uint64(box[2] - box[0]), np.uint64(0), np.uint64(start)
    for y in range(np.uint64(box[1]), np.uint64(box[3])):
        for i in range(width):
            if not wanted[start + at + i]:
                continue
            x = x1 + i
            low, high, total, ok = _FAR, -_FAR, _NONE, True
            for v in range(2):
                row = np.uint64(y_idx[v, y])
                for h in range(2):
                    weight = np.float32(y_weight[v, y] * x_weight[h, x]) * _WEIGHT_STEP
                    if weight > 0:
                        column = np.uint64(x_idx[h, x])
                        value = depth[row, column]
                        ok = ok & valid[row, column] & (value > 0) & (value < _FAR)
                        low, high = min(low, value), max(high, value)
                        total += value * weight
            if high - low > _EDGE_FRAC * max(abs(low), abs(high)):
                value = depth[np.uint64(y_near[y]), np.uint64(x_near[x])]
            else:
                value = min(max(total, low), high)
            out[at + i] = value * scale if ok else _NONE
            out_ok[at + i] = ok
        at += width


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
        for i in range(width):
            if not wanted[start + at + i]:
                continue
            x = x1 + i
            row, column = np.uint64(y_near[y]), np.uint64(x_near[x])
            n_x, n_y, n_z = _number(normals[0, row, column], normals[1, row, column], normals[2, row, column])
            if n_x != 0 or n_y != 0 or n_z != 0:
                sum_x, sum_y, sum_z, at_centre = _NONE, _NONE, _NONE, False
                for v in range(2):
                    row = np.uint64(y_idx[v, y])
                    for h in range(2):
                        weight = np.float32(y_weight[v, y] * x_weight[h, x]) * _WEIGHT_STEP
                        at_centre = at_centre or weight == _ONE
                        column = np.uint64(x_idx[h, x])
                        tap_x, tap_y, tap_z = _number(
                            normals[0, row, column], normals[1, row, column], normals[2, row, column]
                        )
                        sum_x, sum_y, sum_z = sum_x + tap_x * weight, sum_y + tap_y * weight, sum_z + tap_z * weight
                norm = np.sqrt(sum_x * sum_x + sum_y * sum_y + sum_z * sum_z)
                if not at_centre and norm >= _VANISHING:
                    n_x, n_y, n_z = sum_x / norm, sum_y / norm, sum_z / norm
            out[0, at + i], out[1, at + i], out[2, at + i] = sign * n_x, n_y, n_z
        at += width


@compiled
def _number(x, y, z):
    """A normal, zero if one of its numbers is none."""
    if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
        return x, y, z
    return _NONE, _NONE, _NONE
