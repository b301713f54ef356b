"""Conversion of stored maps to the conventions of samples: the ignore value, depth units, the frame of normals.

Nothing is guessed: the caller states the meaning of the values, and a value that contradicts it is an error. Not a
reader: decode the file with Pillow, NumPy or OpenCV first, without converting its values.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from segpaste.types import IGNORE_INDEX, SemanticMap

_TOWARDS = {"right": (0, 1), "left": (0, -1), "down": (1, 1), "up": (1, -1), "forward": (2, 1), "backward": (2, -1)}
"""Axis of our frame and the sign on it: x right, y down, z forward."""

_LENGTH_TOLERANCE = 0.1  # 8 bits per component leave a length within 0.014 of 1; (-1, -1, -1) has 1.73
_ROUNDING = 4 * float(np.finfo(np.float32).eps)


def convert_semantic(values: ArrayLike, *, void: int | Collection[int] = (), first_class: int = 0) -> SemanticMap:
    """Convert a label image to a semantic map, whose ignored pixels are 255.

    Args:
        values: [H, W] integers, as stored.
        void: the value or values without a class, such as 11 (CamVid), 0 (ADE20K) or -1.
        first_class: the stored value of class 0; 1 if 0 is void.

    Returns:
        [H, W] int64: classes from 0, 255 for void.

    Raises:
        ValueError: the values are not [H, W] integers, or a pixel is neither void nor a class in 0..254.
    """
    stored = _plain(values)
    voids = [void] if isinstance(void, int) else sorted(void)
    if stored.ndim != 2 or stored.dtype.kind not in "iu":
        raise ValueError(
            f"convert_semantic: expected integers [H, W], got {stored.dtype} {list(stored.shape)}; "
            "open palette images without converting them to RGB"
        )
    wide = stored.astype(np.int64)
    ignored = np.isin(wide, voids)
    classes = wide - first_class
    wrong = ~ignored & ((classes < 0) | (classes >= IGNORE_INDEX))
    if wrong.any():
        found = np.unique(wide[wrong])[:5].tolist()
        raise ValueError(
            f"convert_semantic: expected void {voids} or a class from {first_class} on, below "
            f"{first_class + IGNORE_INDEX}, got {found}; name it in void if it is not a class"
        )
    return SemanticMap(torch.from_numpy(np.where(ignored, IGNORE_INDEX, classes)))


def convert_depth(
    values: ArrayLike, *, metres_per_unit: float, invalid: Collection[float] = ()
) -> tuple[Tensor, Tensor]:
    """Convert a depth map to metres, with its validity.

    Depth is the distance along the optical axis, not along the ray. NaN, infinite, zero and negative values are
    always invalid.

    Args:
        values: [H, W] integers or floats, as stored.
        metres_per_unit: 1 for metres, 0.001 for millimetres, 1 / 5000 for TUM RGB-D, 1 / 256 for KITTI.
        invalid: further stored values that mean no measurement, such as 65535.

    Returns:
        Depth [1, H, W] float32 in metres, 0 where invalid, and validity [1, H, W] bool.

    Raises:
        ValueError: the values are not [H, W] numbers, or the unit is not a positive number.
    """
    stored = _plain(values)
    if stored.ndim != 2 or stored.dtype.kind not in "iuf":
        raise ValueError(f"convert_depth: expected numbers [H, W], got {stored.dtype} {list(stored.shape)}")
    if not (math.isfinite(metres_per_unit) and metres_per_unit > 0):
        raise ValueError(f"convert_depth: expected metres_per_unit > 0, got {metres_per_unit}; 0.001 for millimetres")
    wide = stored.astype(np.float64)
    with np.errstate(over="ignore"):  # values beyond float32 become infinite, and so invalid
        metres = (wide * metres_per_unit).astype(np.float32)
    valid = np.isfinite(metres) & (metres > 0) & ~np.isin(stored, np.array(list(invalid), stored.dtype))
    return torch.from_numpy(np.where(valid, metres, np.float32(0)))[None], torch.from_numpy(valid)[None]


def convert_normals(values: ArrayLike, *, axes: tuple[str, str, str]) -> Tensor:
    """Convert a map of normals to unit vectors in our camera frame: x right, y down, z forward.

    A vector whose length differs from 1 by more than a tenth is invalid: NaN, zero, markers such as (-1, -1, -1), and
    averages at smoothed edges. Floats whose length is 1 but for the rounding of float32 keep their bits, so that what
    was converted once does not change again.

    Args:
        values: [H, W, 3], as stored: floats in -1..1, or uint8 or uint16 where 0 stands for -1 and the largest value
            for 1.
        axes: direction of each stored component: right or left, up or down, forward or backward. OpenGL, Blender and
            ClearGrasp use ``("right", "up", "backward")``, OpenCV and segpaste ``("right", "down", "forward")``.

    Returns:
        [3, H, W] float32, zero where invalid.

    Raises:
        ValueError: the shape or dtype is wrong, or the axes are not a frame.
    """
    vectors = oriented_normals(values, axes=axes)
    length = np.sqrt(np.square(vectors).sum(0))
    valid = np.abs(length - 1) <= _LENGTH_TOLERANCE
    if np.asarray(values).dtype.kind == "f":
        length[np.abs(length - 1) <= _ROUNDING] = 1
    ours = np.zeros(vectors.shape, np.float32)
    ours[:, valid] = vectors[:, valid] / length[valid]
    return torch.from_numpy(ours)


def oriented_normals(values: ArrayLike, *, axes: tuple[str, str, str]) -> NDArray[np.float64]:
    """Return a map of normals in our camera frame with the lengths that are stored; see `convert_normals`.

    Returns:
        [3, H, W].

    Raises:
        ValueError: as `convert_normals`.
    """
    stored = _plain(values)
    if stored.ndim != 3 or stored.shape[2] != 3 or stored.dtype.kind not in "fu":
        raise ValueError(
            f"convert_normals: expected floats, uint8 or uint16 [H, W, 3], got {stored.dtype} {list(stored.shape)}"
        )
    if len(axes) != 3 or any(name not in _TOWARDS for name in axes) or len({_TOWARDS[name][0] for name in axes}) != 3:
        raise ValueError(
            "convert_normals: expected axes with one each of right/left, up/down, forward/backward, such as "
            f"('right', 'up', 'backward'), got {axes!r}"
        )
    vectors: NDArray[Any] = stored.astype(np.float64)
    if stored.dtype.kind == "u":
        vectors = vectors * (2 / np.iinfo(stored.dtype).max) - 1
    ours = np.zeros((3, *stored.shape[:2]), np.float64)
    for component, name in enumerate(axes):
        axis, sign = _TOWARDS[name]
        ours[axis] = sign * vectors[..., component]
    return ours


def _plain(values: ArrayLike) -> NDArray[Any]:
    """Return the values as a plain array.

    Raises:
        ValueError: it is a masked array, whose mask would be lost.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError("expected a plain array, got a masked one; fill it with a value that is void or invalid")
    return np.asarray(values)
