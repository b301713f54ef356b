"""Tensors as the compiled loops see them: arrays in named tuples, what is absent of length 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.kernels.operands import LayerPlan, Planes, Ranks

Array = NDArray[Any]


class PlaneArrays(NamedTuple):
    """`Planes` for the loops: without single channels, masks as bytes.

    ``colours`` is ``images`` once more, [B, C * H * W] in the order of the memory, whatever that is.
    """

    images: Array
    colours: Array
    masks: Array
    semantic: Array
    panoptic: Array
    depth: Array
    depth_valid: Array
    normals: Array
    padding: Array


class PlanArrays(NamedTuple):
    """`LayerPlan` for the loops, its tables side by side.

    Indices of taps have no sign, so that the loops need not look for negative ones.
    """

    source_idx: Array
    carried: Array
    hflip: Array
    depth_scale: Array
    paste_box: Array
    target_box: Array
    x_nearest: Array
    x_linear_idx: Array
    x_linear_weight: Array
    x_filter_idx: Array
    x_filter_weight: Array
    y_nearest: Array
    y_linear_idx: Array
    y_linear_weight: Array
    y_filter_idx: Array
    y_filter_weight: Array


class Seen(NamedTuple):
    """What is seen of one row of the batch.

    Attributes:
        layer: [H, W] integer, -1 for the target; known where a carried slot lies.
        owner: [H, W] likewise, the layer's slot, or of length 0.
        cut: uint8, where each carried mask covers its box on the target, row after row of box after box.
        starts: [L, K_s] int64, where the box of each slot starts in it.
        depth: float32, of the source where it is shown, which lies like ``cut``, if both have depth.
        depth_ok: uint8, whether it is valid.
    """

    layer: Array
    owner: Array
    cut: Array
    starts: Array
    depth: Array
    depth_ok: Array


class Stage(NamedTuple):
    """What is read before it is written, pixel after pixel of every strip.

    A strip is a run of pixels in one row of one paste: those between the first and the last that are seen. Pixel i of
    a strip of n that starts at ``at`` has its colours at ``C * at + c * n + i``, its normal likewise, all else at
    ``at + i``.

    Attributes:
        pastes: [N, 5] int64: row of the batch, output slot, first strip, one past the last, ``at`` of the first.
        strips: [M, 3] int32: y, x of the first pixel, one past the last.
        shown: uint8, whether the pixel is seen.
        colours: of the images' dtype.
        semantic: int64, or of length 0.
        depth: float32, or of length 0.
        depth_ok: uint8, likewise.
        normals: float32, or of length 0.
        used: [3] int64, pastes, strips and pixels so far.
    """

    pastes: Array
    strips: Array
    shown: Array
    colours: Array
    semantic: Array
    depth: Array
    depth_ok: Array
    normals: Array
    used: Array


def array(tensor: Tensor) -> Array:
    """The values, in row-major order; a copy where they are not, so never for what is written."""
    values: Array = tensor.detach().numpy()
    return values if values.flags.c_contiguous else np.ascontiguousarray(values)


def plan_arrays(plan: LayerPlan) -> PlanArrays:
    """A plan for the loops."""
    tables = []
    for table in (plan.x, plan.y):
        nearest, linear_idx, linear_weight, filter_idx, filter_weight = (array(t) for t in table)
        tables += [nearest, linear_idx.view(np.uint32), linear_weight, filter_idx.view(np.uint32), filter_weight]
    return PlanArrays(*(array(t) for t in plan[:-2]), *tables)


def empty_plan_arrays(
    shape: tuple[int, int, int, int], sizes: tuple[int, int], num_taps: int, with_linear: bool
) -> dict[str, Array]:
    """Room for what is laid out by `segpaste.kernels._cpu_layout`: boxes and tables.

    Args:
        shape: B, L, K_s, K_t.
        sizes: H, W.
        num_taps: T of the image filter.
        with_linear: room for linear taps too.
    """
    b, layers, k_s, k_t = shape
    room: dict[str, Array] = {
        "paste_box": np.empty((b, layers, k_s, 4), np.int64),
        "target_box": np.empty((b, k_t, 4), np.int64),
    }
    for axis, size in zip("yx", sizes, strict=True):
        linear = (b, layers, 2, size if with_linear else 0)
        room[f"{axis}_nearest"] = np.empty((b, layers, size), np.int32)
        room[f"{axis}_linear_idx"] = np.empty(linear, np.uint32)
        room[f"{axis}_linear_weight"] = np.empty(linear, np.int32)
        room[f"{axis}_filter_idx"] = np.empty((b, layers, num_taps, size), np.uint32)
        room[f"{axis}_filter_weight"] = np.empty((b, layers, num_taps, size), np.int32)
    return room


def plane_arrays(planes: Planes) -> PlaneArrays:
    """Planes for the loops; copies of those that are neither in row-major order nor channels last."""
    images = planes.images.detach()
    if images.dtype in (torch.float16, torch.bfloat16):
        images = images.view(torch.int16)
    in_memory = images
    if not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last):
        in_memory = images.permute(0, 2, 3, 1)
    elif not images.is_contiguous():
        images = in_memory = images.contiguous()
    return PlaneArrays(
        images.numpy(),
        in_memory.reshape(len(images), in_memory.shape[1:].numel()).numpy(),
        array(planes.instance_masks.view(torch.uint8)),
        _flat(planes.semantic_maps, _NO_MAP),
        _flat(planes.panoptic_maps, _NO_MAP),
        _flat(planes.depth, _NO_DEPTH),
        _flat(planes.depth_valid, _NO_BOOL),
        _NO_NORMALS if planes.normals is None else array(planes.normals),
        _flat(planes.padding_mask, _NO_BOOL),
    )


NO_CLASS = np.empty(0, np.bool_)
"""A table of classes that is not there."""

NO_RANKS = Ranks(np.empty(0, np.int16), np.empty((0, 0), np.int16))  # type: ignore[arg-type]
"""All classes are alike."""

_NO_MAP = np.empty((0, 0, 0), np.int64)
_NO_DEPTH = np.empty((0, 0, 0), np.float32)
_NO_BOOL = np.empty((0, 0, 0), np.bool_)
_NO_NORMALS = np.empty((0, 0, 0, 0), np.float32)


def _flat(plane: Tensor | None, absent: Array) -> Array:
    """[B, H, W] of a plane with one channel or none."""
    if plane is None:
        return absent
    return array(plane[:, 0] if plane.ndim == 4 else plane)
