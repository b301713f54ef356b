"""Depth, disparity, normals and cameras of a declared dataset, converted by `segpaste.datasets.formats.conventions`.

A file of camera intrinsics is a 3 x 3 matrix as text, or YAML or JSON with the keys of common calibrations. The keys
are ``fx, fy, cx, cy`` (also ``u0, v0`` or ``ppx, ppy``), or ``K``, ``camera_matrix``, ``intrinsic_matrix`` or similar
for a 3 x 3 matrix, as rows or as nine numbers, by rows or by columns. They may be in a nested table. Distortion is not
corrected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.errors import DatasetError, naming
from segpaste.datasets.formats.conventions import convert_depth, convert_normals, oriented_normals
from segpaste.datasets.formats.maps.declaration import DepthFiles, DisparityFiles, NormalFiles
from segpaste.datasets.formats.stored_pixels import one_channel
from segpaste.datasets.formats.text_files import read_text
from segpaste.types import CameraIntrinsics

_Maps = tuple[Tensor, Tensor]


def depth_of(values: NDArray[Any], files: DepthFiles, place: str, valid: NDArray[Any] | None = None) -> _Maps:
    """Return depth in metres [1, H, W] float32, 0 where invalid, and its validity [1, H, W] bool.

    Raises:
        DatasetError: the array has the wrong shape, or another size than ``valid``.
    """
    plane = _plane(values, place)
    with naming(place):
        depth, depth_valid = convert_depth(
            plane, metres_per_unit=files.metres_per_unit, invalid=_storable(plane, files)
        )
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
    with naming(place):
        return convert_normals(_vectors(values, files), axes=files.axes)


def stored_normals_of(values: NDArray[Any], files: NormalFiles, place: str) -> NDArray[np.float64] | None:
    """Return stored floats [3, H, W], right-down-forward, of any length; None if the files have other numbers."""
    if values.dtype.kind != "f" or files.range != (-1.0, 1.0):
        return None
    with naming(place):
        return oriented_normals(_vectors(values, files), axes=files.axes)


def _vectors(values: NDArray[Any], files: NormalFiles) -> NDArray[Any]:
    """Return the array as [H, W, 3] floats of -1..1 or unsigned integers."""
    vectors = values
    if vectors.ndim == 3 and vectors.shape[0] == 3 and vectors.shape[2] != 3:
        vectors = vectors.transpose(1, 2, 0)
    if vectors.ndim == 3 and vectors.shape[2] == 4 and vectors.dtype.kind == "u":
        vectors = vectors[..., :3]
    if vectors.dtype.kind == "f" and files.range != (-1.0, 1.0):
        low, high = files.range
        vectors = (vectors.astype(np.float64) - low) * (2 / (high - low)) - 1
    return vectors


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


_MATRICES = ("K", "k", "camera_matrix", "intrinsic_matrix", "cam_K", "matrix", "intrinsics", "intrinsic", "camera_k")
_CENTRES = (("cx", "cy"), ("u0", "v0"), ("ppx", "ppy"))
_SIZES = (("width", "height"), ("xres", "yres"), ("image_width", "image_height"), ("w", "h"))
_BASELINES = ("baseline", "baseline_m")
_FORMS = "fx, fy, cx, cy, or a 3 x 3 matrix"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Contents of a camera file.

    Attributes:
        focal: fx, fy in pixels.
        centre: cx, cy as in the file.
        size: (W, H) of the calibrated images; None if not in the file.
        baseline_m: baseline of a stereo pair, metres; None if not in the file.
    """

    focal: tuple[float, float]
    centre: tuple[float, float]
    size: tuple[float, float] | None = None
    baseline_m: float | None = None

    def intrinsics(self, size: tuple[int, int], pixel_centre: float) -> CameraIntrinsics:
        """Return the camera for images of (H, W), scaled if the calibration is for another size.

        Args:
            size: (H, W) of the image.
            pixel_centre: coordinate of the centre of the first pixel in the file, 0 or 0.5.

        Raises:
            ValueError: the image has another aspect ratio, or a number is invalid.
        """
        ours = CameraIntrinsics(*self.focal, *(c + (0.5 - pixel_centre) for c in self.centre))
        if self.size is None or self.size == (size[1], size[0]):
            return ours
        by_x, by_y = size[1] / self.size[0], size[0] / self.size[1]
        if abs(by_x * self.size[1] - size[0]) > 1:
            raise ValueError(
                f"expected a calibration for images of the shape {size[1]} x {size[0]}, got one for {self.size[0]:g} x "
                f"{self.size[1]:g}; a cropped image needs its own camera"
            )
        return ours.resized(by_x, by_y)


def read_calibration(path: Path) -> Calibration:
    """Read a camera file.

    Raises:
        DatasetError: the file is missing, or has no intrinsics.
    """
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected camera intrinsics, found no such file; check 'camera'") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a text file of camera intrinsics, could not read it ({error})") from error
    suffix = path.suffix.lower()
    if suffix in (".json", ".yaml", ".yml"):
        return calibration_of(_parsed(path, text), str(path))
    return _of_text(path, text)


def calibration_of(document: object, place: str) -> Calibration:
    """Find the intrinsics in the values of a YAML or JSON file.

    Raises:
        DatasetError: there are none; the message begins with ``place``.
    """
    tables = list(_tables(document))
    for table in tables:
        found = _of_table(table, place)
        if found is not None:
            size = next((pair for other in (table, *tables) if (pair := _pair(other, _SIZES)) is not None), None)
            baseline = next((b for other in tables if (b := _number(other, _BASELINES)) is not None), None)
            return Calibration(*found, size, baseline)
    raise DatasetError(f"{place}: expected {_FORMS}, found none; write the four numbers as fx, fy, cx, cy")


def _parsed(path: Path, text: str) -> object:
    import yaml

    try:
        if path.suffix.lower() == ".json":
            return json.loads(text)
        return yaml.safe_load(text.removeprefix("%YAML:1.0").replace("!!opencv-matrix", ""))
    except (ValueError, yaml.YAMLError) as error:
        raise DatasetError(f"{path}: expected camera intrinsics, got text that does not parse ({error})") from error


def _of_text(path: Path, text: str) -> Calibration:
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if len(numbers) == 4:
        return Calibration((numbers[0], numbers[1]), (numbers[2], numbers[3]))
    matrix = _matrix(numbers)
    if matrix is None:
        raise DatasetError(
            f"{path}: expected a 3 x 3 matrix or the four numbers fx fy cx cy, got {len(numbers) or 'no'} numbers; "
            "correct it"
        )
    return Calibration(*_of_matrix(matrix, str(path)))


def _tables(document: object) -> Iterator[Mapping[str, Any]]:
    """Yield the table and its nested tables."""
    if isinstance(document, Mapping):
        yield document
        for value in document.values():
            yield from _tables(value)


def _of_table(table: Mapping[str, Any], place: str) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return the focal lengths and the principal point of a table; None if it has no intrinsics."""
    focal, centre = _pair(table, (("fx", "fy"),)), _pair(table, _CENTRES)
    if focal is not None and centre is not None:
        return focal, centre
    for name in _MATRICES:
        value = table.get(name)
        values = value.get("data") if isinstance(value, Mapping) else value
        if (matrix := _matrix(values)) is not None:
            return _of_matrix(matrix, place)
    return None


def _matrix(values: object) -> NDArray[np.float64] | None:
    """Return 9, 12 or 16 numbers as the upper left 3 x 3 of a matrix; None for other values."""
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError):
        return None
    shape = {9: (3, 3), 12: (3, 4), 16: (4, 4)}.get(numbers.size)
    if shape is None or numbers.ndim not in (1, 2):
        return None
    matrix = numbers.reshape(shape)[:, :3][:3]
    by_columns = matrix[2, 0] != 0 and matrix[0, 2] == 0 and matrix[1, 2] == 0
    return matrix.T if by_columns else matrix


def _of_matrix(matrix: NDArray[np.float64], place: str) -> tuple[tuple[float, float], tuple[float, float]]:
    if not np.array_equal(matrix[2], [0, 0, 1]) or matrix[1, 0] != 0:
        raise DatasetError(
            f"{place}: expected a matrix [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], got {matrix.tolist()}; correct it"
        )
    return (float(matrix[0, 0]), float(matrix[1, 1])), (float(matrix[0, 2]), float(matrix[1, 2]))


def _pair(table: Mapping[str, Any], names: tuple[tuple[str, str], ...]) -> tuple[float, float] | None:
    for first, second in names:
        a, b = _number(table, (first,)), _number(table, (second,))
        if a is not None and b is not None:
            return a, b
    return None


def _number(table: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = table.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None
