"""Formats of datasets of maps: declared datasets, known layouts, and hints for the declaration of others."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import NO_SPLIT, Format, ReadOptions
from segpaste.datasets.formats.maps.dataset import MapPhotos
from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE, MapDeclaration, read_declaration
from segpaste.datasets.formats.maps.files import splits_of
from segpaste.datasets.formats.maps.known.ade20k import declare_ade20k, declare_ade20k_full
from segpaste.datasets.formats.maps.known.camvid import camvid_splits, declare_camvid
from segpaste.datasets.formats.maps.known.cityscapes import declare_cityscapes
from segpaste.datasets.formats.maps.known.hints import missing_declaration
from segpaste.datasets.formats.maps.known.label_maps import declare_label_maps
from segpaste.datasets.formats.records import AnnotatedPhotos


class MapFormat(Format):
    """Format whose datasets have a declaration."""

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the splits; None if there is no such dataset."""
        found = self.declare(path)
        if found is None:
            return None
        folder = path.parent if path.is_file() else path
        names = splits_of(folder / found.root, found)
        if names is not None and not names:
            raise DatasetError(f"{folder / found.root}: expected images {found.photos}, found none; correct 'photos'")
        return names or (NO_SPLIT,)

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedPhotos:
        """Open a split."""
        found = self.declare(path)
        assert found is not None
        folder = path.parent if path.is_file() else path
        where = path / DECLARATION_FILE if (path / DECLARATION_FILE).is_file() else path
        return MapPhotos(found, folder, split, transforms=options.transforms, where=where)

    @abstractmethod
    def declare(self, path: Path) -> MapDeclaration | None:
        """Return the declaration of the dataset at a path; None if it is of another format.

        Raises:
            DatasetError: the dataset is of this format, but broken.
        """


class DeclaredMaps(MapFormat):
    """Images with maps, declared by ``segpaste.yaml``."""

    name = "maps"
    title = "Declared maps"
    files = f"{DECLARATION_FILE}, or FILE.{DECLARATION_FILE}"
    gives = "what the declaration names: masks, semantic and panoptic maps, crowds, depth, normals, intrinsics"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Read the declaration."""
        if path.is_file():
            is_one = path.name == DECLARATION_FILE or path.name.endswith(f".{DECLARATION_FILE}")
            return read_declaration(path) if is_one else None
        return read_declaration(path / DECLARATION_FILE) if (path / DECLARATION_FILE).is_file() else None


class Cityscapes(MapFormat):
    """Cityscapes, see `segpaste.datasets.formats.maps.known.cityscapes`."""

    name = "cityscapes"
    title = "Cityscapes"
    files = "leftImg8bit/ and gtFine/ or gtCoarse/"
    gives = "masks, semantic and panoptic maps, crowds; or semantic maps only; depth with disparity/ and camera/"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        return declare_cityscapes(path)


class Ade20k(MapFormat):
    """ADE20K's scene parsing dataset, see `segpaste.datasets.formats.maps.known.ade20k`."""

    name = "ade20k"
    title = "ADE20K, scene parsing"
    files = "images/training/ and annotations/training/"
    gives = "semantic maps"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        return declare_ade20k(path)


class Ade20kFull(MapFormat):
    """Full ADE20K, see `segpaste.datasets.formats.maps.known.ade20k`."""

    name = "ade20k-full"
    title = "ADE20K, full"
    files = "images/ADE/training/ with NAME_seg.png"
    gives = "masks"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        return declare_ade20k_full(path)


class LabelMaps(MapFormat):
    """Label maps as this package writes them, see `segpaste.datasets.formats.maps.known.label_maps`."""

    name = "label-maps"
    title = "Label maps"
    files = "images/SPLIT/, semantic/SPLIT/ and classes.txt"
    gives = "semantic maps; masks, depth, normals and intrinsics if their folders exist"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        return declare_label_maps(path)


class CamVid(MapFormat):
    """CamVid, see `segpaste.datasets.formats.maps.known.camvid`."""

    name = "camvid"
    title = "CamVid"
    files = "SPLIT/ and SPLITannot/, or SPLIT/, SPLIT_labels/ and class_dict.csv"
    gives = "semantic maps"

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the folders of images with maps."""
        return camvid_splits(path) or None

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        return declare_camvid(path)


class UndeclaredMaps(Format):
    """Folders of masks, depth or normals without a declaration; the error shows one."""

    name = "masks"
    title = "Folders of masks, depth or normals"
    files = "images/ with masks/, depth/ or the like"
    gives = f"nothing without {DECLARATION_FILE}, which declares the values; the error shows one"

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return None, or raise an error with a declaration that fits."""
        if path.is_dir() and (text := missing_declaration(path)) is not None:
            raise DatasetError(text)
        return None

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedPhotos:
        """Raise an error; not reached, because `splits` raises."""
        raise DatasetError(f"{path}: expected {DECLARATION_FILE}, found none; write it")
