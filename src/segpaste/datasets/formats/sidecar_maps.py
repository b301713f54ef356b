"""Depth, normals and cameras beside the annotations of a dataset of any format, as this package writes them.

    depth/SPLIT/NAME.npy  depth_valid/SPLIT/NAME.png  normals/SPLIT/NAME.npy  intrinsics/SPLIT/NAME.txt

SPLIT is omitted in datasets without splits and in augmented datasets. Depth is float32 in metres, normals are unit
vectors right-down-forward, pixel i has its centre at i + 0.5. Without ``intrinsics`` the camera may be in the entry of
the image. Depth in other units or files is not read; declare it, see `segpaste.datasets.formats.maps`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from segpaste.datasets.contract import AnnotatedDataset, JsonRow
from segpaste.datasets.errors import DatasetError, naming
from segpaste.datasets.formats.conventions import convert_depth, convert_normals
from segpaste.datasets.formats.format import AnnotatedImages
from segpaste.datasets.formats.maps.geometry import read_calibration
from segpaste.datasets.formats.stored_pixels import one_channel, read_array
from segpaste.types import CameraIntrinsics, DenseSample

FOLDERS = ("depth", "normals", "intrinsics")
_OURS = ("right", "down", "forward")
_PIXEL_CENTRE = 0.5


@dataclass(frozen=True, slots=True)
class SidecarMaps:
    """Function that adds the fields of the files beside a dataset to its samples.

    Attributes:
        root: the folder of the dataset.
        below: the folder of the split in each of `FOLDERS`; empty without splits.
        num_cut: number of leading folders of a file name that are missing in ``root``'s folders.
        has_depth: True if there are files of depth.
        has_normals: True if there are files of normals.
    """

    root: Path
    below: str
    num_cut: int
    has_depth: bool
    has_normals: bool

    def __call__(self, sample: DenseSample, file_name: str, row: JsonRow) -> DenseSample:
        """Return a sample with the fields of its files.

        Args:
            sample: the sample of the image.
            file_name: the file name of the image.
            row: the entry of the image.

        Raises:
            DatasetError: a file is missing or broken, or its size differs from that of the image.
        """
        name = _stem(file_name, self.num_cut)
        camera = self._camera(name, row, sample.canvas_size)
        fields: dict[str, Any] = {"camera_intrinsics": camera}
        if self.has_depth:
            fields |= {**self._depth(name), "metric_depth": camera is not None}
        if self.has_normals:
            path = self._path("normals", name, "npy")
            fields["normals"] = _converted(path, convert_normals, axes=_OURS)
        with naming(f"{file_name}: depth, normals or camera beside it"):
            return replace(sample, **fields)

    def _depth(self, name: str) -> dict[str, Any]:
        depth, valid = _converted(self._path("depth", name, "npy"), convert_depth, metres_per_unit=1)
        mask_path = self._path("depth_valid", name, "png")
        mask = one_channel(read_array(mask_path))
        if mask.shape != tuple(depth.shape[1:]):
            raise DatasetError(
                f"{mask_path}: expected {list(depth.shape[1:])} pixels like depth, got {list(mask.shape)}; resize it"
            )
        valid &= valid.new_tensor(mask != 0)
        return {"depth": depth * valid, "depth_valid": valid}

    def _camera(self, name: str, row: JsonRow, size: tuple[int, int]) -> CameraIntrinsics | None:
        path = self._path("intrinsics", name, "txt")
        try:
            if path.is_file():
                return read_calibration(path).intrinsics(size, _PIXEL_CENTRE)
            told = row.get("camera_intrinsics")
            return CameraIntrinsics(**told) if isinstance(told, dict) else None
        except (ValueError, TypeError) as error:
            raise DatasetError(f"{path}: camera: {error}") from error

    def _path(self, folder: str, name: str, suffix: str) -> Path:
        return self.root / folder / self.below / f"{name}.{suffix}"


def find_beside(root: Path, split: str, dataset: AnnotatedImages) -> SidecarMaps | None:
    """Find the files of depth and normals beside a dataset by its first image; None if there are none.

    Args:
        root: the folder of the dataset.
        split: the name of the split; empty without splits.
        dataset: its images.
    """
    if dataset.declared_maps is not None or not len(dataset) or not any((root / folder).is_dir() for folder in FOLDERS):
        return None  # their declaration names the folders of maps
    file_name = dataset.file_name(0)
    for num_cut in range(len(PurePosixPath(file_name).parts)):
        name = _stem(file_name, num_cut)
        for below in dict.fromkeys((split, "")):
            has_depth = all(
                (root / folder / below / f"{name}.{suffix}").is_file()
                for folder, suffix in (("depth", "npy"), ("depth_valid", "png"))
            )
            has_normals = (root / "normals" / below / f"{name}.npy").is_file()
            if has_depth or has_normals:
                return SidecarMaps(root, below, num_cut, has_depth, has_normals)
    return None


def unread_beside(root: Path, photos: AnnotatedDataset) -> Counter[str]:
    """Count what a dataset leaves out, and the unread files of annotations and folders of maps beside it."""
    unread = photos.left_out_files()
    unread.update(f"file '{name}', which is not read" for name in photos.unread_files)
    if photos.declared_maps is None and photos.beside is None:
        unread.update(f"folder '{folder}'" for folder in FOLDERS if (root / folder).is_dir())
    return unread


def _stem(file_name: str, num_cut: int) -> str:
    return PurePosixPath(*PurePosixPath(file_name).parts[num_cut:]).with_suffix("").as_posix()


def _converted(path: Path, convert: Any, **options: Any) -> Any:
    """Convert an array with ``convert``; errors name the file."""
    with naming(path):
        return convert(read_array(path), **options)
