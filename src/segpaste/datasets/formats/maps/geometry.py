"""Conversion of depth, disparity and normals of a declared dataset by `segpaste.datasets.formats.conventions`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.conventions import convert_depth, convert_normals
from segpaste.datasets.formats.maps.declaration import DepthFiles, DisparityFiles, NormalFiles
from segpaste.datasets.formats.stored_pixels import one_channel

_Maps = tuple[Tensor, Tensor]


def depth_of(values: NDArray[Any], files: DepthFiles, place: str, valid: NDArray[Any] | None = None) -> _Maps:
    """Return depth in metres [1, H, W] float32, 0 where invalid, and its validity [1, H, W] bool.

    Raises:
        DatasetError: the array has the wrong shape, or another size than ``valid``.
    """
    plane = _plane(values, place)
    try:
        depth, depth_valid = convert_depth(
            plane, metres_per_unit=files.metres_per_unit, invalid=_storable(plane, files)
        )
    except ValueError as error:
        raise DatasetError(f"{place}: {error}") from error
    if valid is not None:
        mask = _plane(valid, place) != 0
        if mask.shape != plane.shape:
            raise DatasetError(f"{place}: expected a validity of {plane.shape} pixels, got {mask.shape}")
        depth_valid &= depth_valid.new_tensor(mask)
        depth *= depth_valid
    return depth, depth_valid


def depth_of_disparity(
    values: NDArray[Any], files: DisparityFiles, focal_px: float, baseline_m: float, place: str
) -> _Maps:
    """Return depth in metres, baseline times focal length over disparity, and its validity; see `depth_of`.

    Raises:
        DatasetError: the array has the wrong shape.
    """
    plane = _plane(values, place)
    disparity = (plane.astype(np.float64) + files.offset) * files.scale
    is_there = np.isfinite(disparity) & (disparity > 0) & ~np.isin(plane, _storable(plane, files))
    metres = np.where(is_there, focal_px * baseline_m / np.where(is_there, disparity, 1), 0)
    return convert_depth(metres, metres_per_unit=1)


def normals_of(values: NDArray[Any], files: NormalFiles, place: str) -> Tensor:
    """Return normals [3, H, W] float32, right-down-forward, zero where invalid.

    Raises:
        DatasetError: the array has the wrong shape or dtype.
    """
    vectors = values
    if vectors.ndim == 3 and vectors.shape[0] == 3 and vectors.shape[2] != 3:
        vectors = vectors.transpose(1, 2, 0)
    if vectors.ndim == 3 and vectors.shape[2] == 4 and vectors.dtype.kind == "u":
        vectors = vectors[..., :3]
    if vectors.dtype.kind == "f" and files.range != (-1.0, 1.0):
        low, high = files.range
        vectors = (vectors.astype(np.float64) - low) * (2 / (high - low)) - 1
    try:
        return convert_normals(vectors, axes=files.axes)
    except ValueError as error:
        raise DatasetError(f"{place}: {error}") from error


def _plane(values: NDArray[Any], place: str) -> NDArray[Any]:
    """Return the array as [H, W], see `segpaste.datasets.formats.stored_pixels.one_channel`.

    Raises:
        DatasetError: it has several values for each pixel.
    """
    values = one_channel(values)
    if values.ndim != 2:
        raise DatasetError(
            f"{place}: expected one number for each pixel, got {values.dtype} {list(values.shape)}; colours of an "
            "image are not depth"
        )
    return values


def _storable(plane: NDArray[Any], files: DepthFiles | DisparityFiles) -> list[float]:
    """Return the invalid values that this dtype can represent."""
    if plane.dtype.kind == "f":
        return [float(plane.dtype.type(value)) for value in files.invalid]
    limits = np.iinfo(plane.dtype)
    return [value for value in files.invalid if value == int(value) and limits.min <= value <= limits.max]
