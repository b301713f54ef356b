"""Depth, normals and cameras beside the annotations of a dataset of any format, as this package writes them.

    depth/SPLIT/NAME.npy  depth_valid/SPLIT/NAME.png  normals/SPLIT/NAME.npy  intrinsics/SPLIT/NAME.txt

SPLIT is omitted in datasets without splits and in augmented datasets. Depth is float32 in metres, normals are unit
vectors right-down-forward, pixel i has its centre at i + 0.5. Without ``intrinsics`` the camera may be in the entry of
the image. Depth in other units or files is not read; declare it, see `segpaste.datasets.formats.maps`.

Maps beside no image, and images that the annotations do not list, are named. A dataset that is given as a folder is all
that is in the folders of its images; of one that is given as a file, the file says what it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from segpaste.datasets.annotations import Annotations
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import files_below
from segpaste.datasets.formats.image_annotations import ImageAnnotations
from segpaste.datasets.formats.unread_files import (
    IMAGE_FILES,
    NAMED,
    UNREAD_IMAGES,
    UNREAD_LABELS,
    Opener,
    named_kind,
    of_annotation,
    unread_below,
)

if TYPE_CHECKING:
    from segpaste.types import DenseSample

FOLDERS = ("depth", "normals", "intrinsics")
UNLISTED = "image files that the annotations do not list"
_NEVER_READ = ("semantic",)
"""Folders of maps that only a declaration reads."""
_SUFFIXES = {"depth": "npy", "depth_valid": "png", "normals": "npy", "intrinsics": "txt"}


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
        from segpaste.datasets.formats.sidecar_fields import with_fields  # with torch, as the sample is

        return with_fields(sample, self.paths(file_name), file_name, row)

    def paths(self, file_name: str) -> dict[str, Path]:
        """Return the path of each file that is read for an image if it exists, by its folder."""
        name = _stem(file_name, self.num_cut)
        return {folder: self.root / folder / self.below / f"{name}.{_SUFFIXES[folder]}" for folder in self._read}

    @property
    def _read(self) -> list[str]:
        """Folders whose files are read."""
        read = {"depth": self.has_depth, "depth_valid": self.has_depth, "normals": self.has_normals, "intrinsics": True}
        return [folder for folder, is_read in read.items() if is_read]

    def folders(self) -> list[str]:
        """Return the existing folders of the files."""
        return [folder for folder in _SUFFIXES if (self.root / folder).is_dir()]

    def stems(self, photos: Annotations) -> set[str]:
        """Return the name of the files of each image, without suffix."""
        return {_stem(photos.file_name(index), self.num_cut) for index in range(len(photos))}

    def name_of(self, file_name: str) -> str:
        """Return the name of the files of an image, in the folders of maps, without suffix."""
        return (PurePosixPath(self.below) / _stem(file_name, self.num_cut)).as_posix()

    def files(self, photos: Annotations) -> set[str]:
        """Return the path of each file that is read for an image if it exists, relative to ``root``."""
        start = f"{self.below}/" if self.below else ""
        named = [f"{folder}/{start}{{}}.{_SUFFIXES[folder]}" for folder in self._read]
        return {name.format(stem) for stem in self.stems(photos) for name in named}

    def unread_kind(self, name: str, stems: Collection[str]) -> str:
        """Return words for a file, relative to ``root``, that is not read; ``stems`` are those of the images."""
        folder, inner = name.split("/", 1)
        stem = PurePosixPath(inner.removeprefix(f"{self.below}/")).with_suffix("").as_posix()
        return f"files of '{folder}' {'that are not read' if stem in stems else 'without an image'}"


def find_beside(root: Path, split: str, dataset: ImageAnnotations) -> SidecarMaps | None:
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


def expect_own_maps(root: Path, dataset: ImageAnnotations, others: Mapping[str, Opener]) -> None:
    """Check that the files of depth and normals of an image are those of no other image.

    Args:
        root: the folder of the dataset.
        dataset: the images of a split.
        others: functions that open the other splits, by name; called if splits share the folders.

    Raises:
        DatasetError: two images have the same files.
    """
    if not isinstance(beside := dataset.beside, SidecarMaps):
        return
    splits = [(dataset, beside)]
    for split, opener in others.items() if not beside.below else ():
        with suppress(DatasetError):  # named when that split is opened
            if (maps := find_beside(root, split, other := opener())) is not None:
                splits.append((other, maps))
    owners = dict[str, str]()
    for photos, maps in splits:
        for index in range(len(photos)):
            path, name = os.path.normpath(photos.path_of(index)), maps.name_of(photos.file_name(index))
            if (owner := owners.setdefault(name, path)) != path:
                raise DatasetError(
                    f"{root}: expected depth and normals of one image each, got {name!r} for {owner} and {path}; put "
                    "them into folders like those of the images, or below the names of their splits, or rename an image"
                )


def unread_around(
    root: Path,
    format: str,
    others: Sequence[tuple[Sequence[Path], Opener]],
    photos: ImageAnnotations,
) -> dict[Path, str]:
    """Return the files that belong to no image of a split, nor of the other ones, with words for their kind.

    Args:
        root: the folder of the dataset.
        format: the name of its format.
        others: of each other split its places, see `Format.places`, and a function that opens it.
        photos: the split.
    """
    images, maps = _unlisted_images(root, photos), _unread_maps(photos)
    for _, opener in others if images or maps else ():
        with suppress(DatasetError):  # named when that split is opened
            other = opener()
            images -= {os.path.normpath(other.path_of(index)) for index in range(len(other))}
            if isinstance(other.beside, SidecarMaps):
                read = other.beside.files(other)
                maps = {name: kind for name, kind in maps.items() if name not in read}
    unread = unread_below(root, format, photos, others)
    kinds = {path: unread[path] for path in unread if unread[path] == UNREAD_LABELS or path not in images}
    kinds |= {path: UNREAD_IMAGES if of_annotation(path, unread) else UNLISTED for path in images}
    found = {Path(path): kind for path, kind in sorted(kinds.items())}
    return found | {root / name: kind for name, kind in sorted(maps.items())}


def _unlisted_images(root: Path, photos: Annotations) -> set[str]:
    """Return the image files that are not listed, in the folders of images and below; not below the dataset's."""
    if photos.searched_folders() or photos.declared_maps is not None:
        return set()  # all images are read, or named by their missing map
    listed = {os.path.normpath(photos.path_of(index)) for index in range(len(photos))}
    whole, folders = os.path.normpath(root), {os.path.normpath(photos.images_dir), *map(os.path.dirname, listed)}
    there = {os.path.join(whole, name) for name in os.listdir(whole)} if whole in folders else set()
    for folder in filter(os.path.isdir, folders - {whole}):
        there |= {os.path.join(folder, name) for name in files_below(folder)}
    return {path for path in there - listed if _is_image(Path(path))}


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_FILES and path.name[0] != "." and path.is_file()


def _unread_maps(photos: Annotations) -> dict[str, str]:
    """Return the files of depth, normals and cameras, relative to the dataset's folder, that are those of no image."""
    if not isinstance(beside := photos.beside, SidecarMaps):
        return {}
    read, stems = beside.files(photos), beside.stems(photos)
    names = (f"{folder}/{name}" for folder in beside.folders() for name in files_below(beside.root / folder))
    return {name: beside.unread_kind(name, stems) for name in names if name not in read}


def unread_beside(root: Path, splits: Sequence[Annotations]) -> Counter[str]:
    """Count what splits leave out, and the unread files of annotations, images and maps beside them.

    Args:
        root: the folder of the dataset.
        splits: the opened splits.
    """
    unread, paths = Counter[str](), dict[Path, str]()
    for photos in splits:
        unread += photos.left_out_files()
        unread.update(f"file '{name}', which is not read" for name in photos.unread_files)
        paths |= photos.unread_paths()
    unread.update(kind for kind in paths.values() if kind not in NAMED)
    for kind in NAMED:
        if found := [path for path, own in paths.items() if own == kind]:
            unread[named_kind(kind, root, found)] = len(found)
    if all(photos.declared_maps is None for photos in splits):
        folders = (*_NEVER_READ, *(() if any(photos.beside for photos in splits) else FOLDERS))
        unread.update(f"folder '{folder}'" for folder in folders if (root / folder).is_dir())
    return unread


def _stem(file_name: str, num_cut: int) -> str:
    parts = PurePosixPath(file_name).parts
    return PurePosixPath(*(parts[num_cut:] or parts[-1:])).with_suffix("").as_posix()
