"""Fields of a sample from the files beside a dataset, which `segpaste.datasets.formats.sidecar_maps` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from segpaste.datasets.annotations import Surfaces
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, naming
from segpaste.datasets.formats.conventions import convert_depth, convert_normals, oriented_normals
from segpaste.datasets.formats.maps.geometry import read_calibration
from segpaste.datasets.formats.stored_pixels import one_channel, read_array
from segpaste.types import CameraIntrinsics, DenseSample

_OURS = ("right", "down", "forward")
_PIXEL_CENTRE = 0.5


def with_fields(sample: DenseSample, paths: Mapping[str, Path], file_name: str, row: JsonRow) -> DenseSample:
    """Return a sample with the fields of its files.

    Args:
        sample: the sample of the image.
        paths: the paths of ``intrinsics``, and of ``depth`` and ``depth_valid``, and ``normals``, if they are read.
        file_name: the file name of the image, for errors.
        row: the entry of the image.

    Raises:
        DatasetError: a file is missing or broken, or its size differs from that of the image.
    """
    camera = _camera(paths["intrinsics"], row, sample.canvas_size)
    fields: dict[str, Any] = {"camera_intrinsics": camera}
    if "depth" in paths:
        fields |= {**_depth(paths["depth"], paths["depth_valid"]), "metric_depth": camera is not None}
    if "normals" in paths:
        fields["normals"] = _converted(paths["normals"], convert_normals, axes=_OURS)
    with naming(f"{file_name}: depth, normals or camera beside it"):
        return replace(sample, **fields)


def stored_surfaces(paths: Mapping[str, Path]) -> Surfaces:
    """Return the surfaces of an image as stored, see `segpaste.datasets.AnnotatedDataset.stored_surfaces`."""
    depth, normals = None, None
    if "depth" in paths:
        depth = one_channel(read_array(paths["depth"]))
    if "normals" in paths:
        normals = _converted(paths["normals"], lambda values: values if values.dtype.kind == "f" else None)
    return depth, 1.0, None if normals is None else oriented_normals(normals, axes=_OURS)


def _depth(path: Path, mask_path: Path) -> dict[str, Any]:
    depth, valid = _converted(path, convert_depth, metres_per_unit=1)
    mask = one_channel(read_array(mask_path))
    if mask.shape != tuple(depth.shape[1:]):
        raise DatasetError(
            f"{mask_path}: expected {list(depth.shape[1:])} pixels like depth, got {list(mask.shape)}; resize it"
        )
    valid &= valid.new_tensor(mask != 0)
    return {"depth": depth * valid, "depth_valid": valid}


def _camera(path: Path, row: JsonRow, size: tuple[int, int]) -> CameraIntrinsics | None:
    try:
        if path.is_file():
            return read_calibration(path).intrinsics(size, _PIXEL_CENTRE)
        told = row.get("camera_intrinsics")
        return CameraIntrinsics(**told) if isinstance(told, dict) else None
    except (ValueError, TypeError) as error:
        raise DatasetError(f"{path}: camera: {error}") from error


def _converted(path: Path, convert: Any, **options: Any) -> Any:
    """Convert an array with ``convert``; errors name the file."""
    with naming(path):
        return convert(read_array(path), **options)
