"""Formats of datasets of maps: declared datasets, and those whose declaration is known.

`segpaste.datasets.formats.maps.hints` recognises the others and shows a declaration that fits.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._pixels import IGNORE_INDEX
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import files_below, folders_in
from segpaste.datasets.formats.format import NO_SPLIT, Format, ReadOptions
from segpaste.datasets.formats.maps.cityscapes import declare_cityscapes
from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE, MapDeclaration, read_declaration
from segpaste.datasets.formats.maps.decoding import ade20k_objects, read_class_list
from segpaste.datasets.formats.maps.files import splits_of
from segpaste.datasets.formats.text_files import read_lines

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages
    from segpaste.datasets.formats.maps.dataset import MapPhotos

_NUM_CLASSES_150 = 150
_INFO_150 = "objectInfo150.txt"
_CLASSES_FILE = "classes.txt"
_IN_ONE = "{folders}{name}"
_BELOW = f"{{split}}/{_IN_ONE}"
_CAMVID_CLASSES = (
    *("sky", "building", "pole", "road", "pavement", "tree", "sign symbol", "fence", "car", "pedestrian"),
    "bicyclist",
)
_CAMVID_LISTS = ("classes.txt", "class_names.txt")
_CAMVID_COLORS = "class_dict.csv"
_CAMVID_ANNOT, _CAMVID_LABELS = "annot", "_labels"
_CAMVID_VOID = ("void", "unlabelled", "unlabeled")


class MapFormat(Format):
    """Format whose datasets have a declaration."""

    def photos(self) -> type[MapPhotos]:
        """Return the class of its datasets."""
        from segpaste.datasets.formats.maps.dataset import MapPhotos  # with torch, for samples

        return MapPhotos

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

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split."""
        found = self.declare(path)
        assert found is not None
        folder = path.parent if path.is_file() else path
        where = path / DECLARATION_FILE if (path / DECLARATION_FILE).is_file() else path
        return self.photos()(found, folder, split, transforms=options.transforms, where=where)

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
    """Cityscapes, see `segpaste.datasets.formats.maps.cityscapes`."""

    name = "cityscapes"
    title = "Cityscapes"
    files = "leftImg8bit/ and gtFine/ or gtCoarse/"
    gives = "masks, semantic and panoptic maps, crowds; or semantic maps only; depth with disparity/ and camera/"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        return declare_cityscapes(path)


class Ade20k(MapFormat):
    """Scene parsing dataset of ADE20K, 150 classes: https://groups.csail.mit.edu/vision/datasets/ADE20K.

        images/SPLIT/NAME.jpg    annotations/SPLIT/NAME.png    objectInfo150.txt    sceneCategories.txt

    Values are classes from 1; 0 is other.
    """

    name = "ade20k"
    title = "ADE20K, scene parsing"
    files = "images/training/ and annotations/training/"
    gives = "semantic maps"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        folders = [path / kind / "training" for kind in ("images", "annotations")]
        if not all(folder.is_dir() for folder in folders):
            return None
        names = _names_150(path)
        return MapDeclaration.model_validate(
            {
                "photos": "images/{split}/{name}.jpg",
                "classes": [{"name": name, "id": number} for number, name in enumerate(names, start=1)],
                "semantic": {"files": "annotations/{split}/{name}.png", "void": [0]},
            }
        )


def _names_150(root: Path) -> list[str]:
    """Return the names of the classes; numbered names if the list is missing or has another number of lines."""
    try:
        lines = read_lines(root / _INFO_150)[1:]
    except OSError:
        lines = []
    rows = [line.split("\t") for line in lines if line.strip()]
    if len(rows) == _NUM_CLASSES_150 and all(len(row) > 1 for row in rows):
        return [row[-1].split(",")[0].strip() for row in rows]
    return [f"class_{number}" for number in range(1, _NUM_CLASSES_150 + 1)]


class Ade20kFull(MapFormat):
    """Full ADE20K, thousands of classes, with the objects in the colours of ``NAME_seg.png``.

        images/ADE/SPLIT/FOLDERS/NAME.jpg    NAME_seg.png    NAME_parts_1.png    NAME.json

    The class is R // 10 * 256 + G, the object B. The names of classes are in ``NAME.json``, or one per line in
    ``classes.txt``, the first for class 1. Parts use the same colours as objects; a declaration with ``_parts_1.png``
    reads them. Parts, attributes and masks of whole objects are counted as unread.
    """

    name = "ade20k-full"
    title = "ADE20K, full"
    files = "images/ADE/training/ with NAME_seg.png"
    gives = "masks"

    def photos(self) -> type[MapPhotos]:
        """Return the class that knows the files that are not read."""
        from segpaste.datasets.formats.maps.dataset import FullAde20kPhotos  # with torch, for samples

        return FullAde20kPhotos

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder, with all class names."""
        above = next((part for part in ("images/ADE", "images") if _has_segments(path / part)), None)
        if above is None:
            return None
        stem = f"{above}/{{split}}/{{folders}}{{name}}"
        return MapDeclaration.model_validate(
            {
                "photos": f"{stem}.jpg",
                "classes": [{"name": name, "id": number} for number, name in sorted(_names_full(path, above).items())],
                "instances": {"files": f"{stem}_seg.png", "encoding": "ade20k", "void": [0]},
            }
        )


def _has_segments(folder: Path) -> bool:
    """Return whether a file ``*_seg.png`` is in the first folder with files."""
    if not (folder / "training").is_dir():
        return False
    for _, _, names in os.walk(folder / "training"):
        if names:
            return any(name.endswith("_seg.png") for name in names)
    return False


def _names_full(root: Path, above: str) -> dict[int, str]:
    """Return the name of each class id, from a list or from the files of all images.

    Raises:
        DatasetError: there are no names.
    """
    if (path := root / _CLASSES_FILE).is_file():
        return {number: entry.name for number, entry in enumerate(read_class_list(path), start=1)}
    paths = [root / above / name for name in files_below(root / above) if name.endswith(".json")]
    found: dict[int, str] = {}
    with ThreadPoolExecutor(8) as pool:
        for names in pool.map(_names_in, sorted(paths)):
            for number, name in names.items():
                found.setdefault(number, name)
    if not found:
        raise DatasetError(
            f"{root}: expected the names of the classes in {_CLASSES_FILE}, the first line for class 1, or in "
            "NAME.json of the images, found neither; add the list"
        )
    return found


def _names_in(path: Path) -> dict[int, str]:
    """Return the class ids and names of one image's objects and parts."""
    try:
        return {int(row["name_ndx"]): str(row["name"]) for row in ade20k_objects(path)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{path}: expected objects with name and name_ndx, could not read them ({error!r}); replace the file"
        ) from error


class LabelMapFiles(MapFormat):
    """Label maps, as ``segpaste augment`` and ``segpaste convert`` write them.

        images/SPLIT/NAME  semantic/SPLIT/NAME.png  instances/SPLIT/NAME.png  classes.txt
        depth/SPLIT/NAME.npy or .png  depth_valid/SPLIT/NAME.png  normals/SPLIT/NAME.npy  intrinsics/SPLIT/NAME.txt

    Depth, normals and camera matrices of the only split may be in their folders without a subfolder, as in augmented
    datasets. Line i of ``classes.txt`` names the value i; 255 is void, or 65535 with more than 255 lines. An object has
    the class of its pixels in the semantic map. Depth is in metres or, as PNG, in millimetres; normals are
    right-down-forward; pixel i has its centre at i + 0.5.
    """

    name = "label-maps"
    title = "Label maps"
    files = "images/SPLIT/, semantic/SPLIT/ and classes.txt"
    gives = "semantic maps; masks, depth, normals and intrinsics if their folders exist"

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        if not ((path / _CLASSES_FILE).is_file() and (path / "images").is_dir() and (path / "semantic").is_dir()):
            return None
        values: dict[str, Any] = {"photos": f"images/{_BELOW}.*", "classes": _CLASSES_FILE}
        void = 255 if len(read_class_list(path / _CLASSES_FILE)) <= IGNORE_INDEX else 65535
        values["semantic"] = {"files": f"semantic/{_BELOW}.png", "void": [void]}
        if (path / "instances").is_dir():
            values["instances"] = {"files": f"instances/{_BELOW}.png", "encoding": "number"}
        if (path / "depth").is_dir():
            is_png = any(file.name[0] != "." for file in (path / "depth").rglob("*.png"))
            suffix, unit = ("png", "mm") if is_png else ("npy", "m")
            values["depth"] = {"files": f"{_files(path / 'depth')}.{suffix}", "unit": unit}
            if (path / "depth_valid").is_dir():
                values["depth"]["valid"] = f"{_files(path / 'depth_valid')}.png"
        if (path / "normals").is_dir():
            values["normals"] = {"files": f"{_files(path / 'normals')}.npy", "axes": ["right", "down", "forward"]}
        if (path / "intrinsics").is_dir():
            values["camera"] = {"files": f"{_files(path / 'intrinsics')}.txt", "pixel_center": 0.5}
        return MapDeclaration.model_validate(values)


def _files(folder: Path) -> str:
    """Return the pattern of the files of a folder, for each split or for the only one."""
    return f"{folder.name}/{_BELOW if folders_in(folder) else _IN_ONE}"


class CamVid(MapFormat):
    """CamVid and datasets with its folders: a label map for each image in a folder beside it.

        SPLIT/NAME.png    SPLITannot/NAME.png       class ids as in SegNet's tutorial; void is 11
        SPLIT/NAME.png    SPLIT_labels/NAME_L.png   colours, with class_dict.csv

    Names come from ``classes.txt`` or ``class_names.txt``, one per line. Void is then the id after the last class.
    """

    name = "camvid"
    title = "CamVid"
    files = "SPLIT/ and SPLITannot/, or SPLIT/, SPLIT_labels/ and class_dict.csv"
    gives = "semantic maps"

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the folders of images with maps."""
        return _camvid_splits(path) or None

    def declare(self, path: Path) -> MapDeclaration | None:
        """Declare the folder."""
        if not _camvid_splits(path):
            return None
        values: dict[str, Any] = {"photos": "{split}/{name}.*"}
        if (path / _CAMVID_COLORS).is_file():
            entries = read_class_list(path / _CAMVID_COLORS)
            kept = [entry for entry in entries if entry.name.lower() not in _CAMVID_VOID]
            void = [entry.color for entry in entries if entry.name.lower() in _CAMVID_VOID]
            values["classes"] = [entry.model_dump(exclude_none=True) for entry in kept]
            values["semantic"] = {"files": "{split}_labels/{name}_L.png", "encoding": "color", "void": void}
        else:
            listed = next((path / name for name in _CAMVID_LISTS if (path / name).is_file()), None)
            names = _CAMVID_CLASSES if listed is None else tuple(entry.name for entry in read_class_list(listed))
            names = names[:-1] if names[-1].lower() in _CAMVID_VOID else names
            values["classes"] = list(names)
            values["semantic"] = {"files": "{split}annot/{name}.png", "void": [len(names), 255]}
        return MapDeclaration.model_validate(values)


def _camvid_splits(root: Path) -> tuple[str, ...]:
    """Return the folders of images with a folder of maps beside them."""
    if not root.is_dir():
        return ()
    suffix = _CAMVID_LABELS if (root / _CAMVID_COLORS).is_file() else _CAMVID_ANNOT
    names = (folder.name.removesuffix(suffix) for folder in folders_in(root) if folder.name.endswith(suffix))
    return tuple(
        sorted(name for name in names if name and (root / name).is_dir() and (root / (name + suffix)).is_dir())
    )
