"""Folders of images, and of annotation files beside them.

    images/0001.jpg          images/train/0001.jpg          train/images/0001.jpg
    labels/0001.json         labels/train/0001.json         train/labels/0001.json

The folder of annotations may have another of the names in `LABELS`. Folders of YOLO are found by
`segpaste.datasets.formats.yolo.data`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import NO_SPLIT
from segpaste.datasets.formats.image_annotations import expect_folder

IMAGES = ("images", "image", "imgs", "img", "photos")
LABELS = ("labels", "label", "annotations", "Annotations", "annotation", "ann", "annots", "json", "xml")
IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".dng", ".heic", ".heif", ".jp2", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"}
)
"""Suffixes of image files, in lower case."""
_MANY_FOLDERS = 10_000
_NOT_LABELS = ("classes.txt", "obj.names", "notes.json", "predefined_classes.txt", "Thumbs.db", "desktop.ini")
_TEXTS = ("readme", "license", "licence")
_NOT_FOLDERS = "__MACOSX"
_MAPS = (".png", ".tif", ".tiff", ".bmp", ".npy", ".npz", ".exr", ".jpg", ".jpeg", ".gif", ".webp", ".pgm", ".pfm")
_KINDS = {".json": "JSON", ".xml": "XML", **dict.fromkeys(_MAPS, "maps of pixels")}


def paired_folders(root: Path, is_one: Callable[[Path], bool]) -> dict[str, tuple[Path, Path]]:
    """Return the folders of images and of annotations by split; empty if there are none.

    Args:
        root: the folder of the dataset.
        is_one: function that returns True for a folder with annotation files of the format.
    """
    for images in (root / name for name in IMAGES):
        for labels in (root / name for name in LABELS):
            if not images.is_dir() or not labels.is_dir():
                continue
            if is_one(labels):
                return {NO_SPLIT: (images, labels)}
            inside = [path.name for path in folders_in(images)]
            if found := {name: (images / name, labels / name) for name in inside if is_one(labels / name)}:
                return found
    pairs = {
        folder.name: (folder / "images", folder / labels)
        for folder in folders_in(root)
        for labels in LABELS
        if (folder / "images").is_dir() and is_one(folder / labels)
    }
    return dict(sorted(pairs.items()))


def folders_in(folder: Path) -> list[Path]:
    """Return the folders directly in a folder, sorted, except hidden ones; none without the folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name[0] != "." and path.is_dir())


def files_with(folder: Path, *suffixes: str) -> list[Path]:
    """Return the files of a folder with one of these suffixes in upper or lower case, sorted, except hidden ones."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.name[0] != ".")
    return sorted(path for path in found if path.is_file())


def other_labels(folders: Iterable[Path]) -> str | None:
    """Return in words the files below folders of labels, if none is a text file; None also for empty folders.

    Caches of trainers, hidden files, those of operating systems, lists of classes and descriptions are no labels.
    """
    found: Counter[str] = Counter()
    for folder in folders:
        for _, inside, names in islice(os.walk(folder, followlinks=True), _MANY_FOLDERS):
            inside[:] = (name for name in inside if name[0] != "." and name != _NOT_FOLDERS)
            found.update(Path(name).suffix.lower() for name in names if may_be_labels(name))
            if found[".txt"]:
                return None
    return named_files(found)


def named_files(suffixes: Counter[str]) -> str | None:
    """Return in words the most frequent of the suffixes of files; None without a file."""
    found = Counter({suffix: num for suffix, num in suffixes.items() if num})
    if not found:
        return None
    suffix, num = found.most_common(1)[0]
    named = f"{num} {suffix} files" if suffix else f"{num} files without a suffix"
    return f"{named} ({_KINDS[suffix]})" if suffix in _KINDS else named


def may_be_labels(name: str) -> bool:
    """Return whether a file may have labels, by its name: no cache, list of classes or description is one."""
    path = Path(name.lower())
    is_cache = path.suffix == ".cache" or name.endswith(".cache.npy")
    return not (name[0] == "." or name in _NOT_LABELS or is_cache or path.suffix == ".md" or path.stem in _TEXTS)


def files_below(folder: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder and its subfolders, sorted, as relative paths with ``/``.

    Hidden files and folders, whose names begin with a dot, are left out. Links are followed, except to folders that
    contain them.

    Raises:
        DatasetError: the folder is missing or cannot be listed.
    """
    root = expect_folder(folder)
    found: list[str] = []

    def refuse(error: OSError) -> None:
        raise DatasetError(f"{error.filename}: expected a readable folder, got {error.strerror}") from error

    for parent, folders, names in os.walk(root, followlinks=True, onerror=refuse):
        if _lies_in_itself(Path(parent), root):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        where = Path(parent).relative_to(root)
        found += [(where / name).as_posix() for name in names if not name.startswith(".")]
    return sorted(found)


def _lies_in_itself(path: Path, root: Path) -> bool:
    """Return whether a path is a link to a folder that contains it."""
    if path == root:
        return False
    target, above = path.resolve(), path.parent
    while True:
        if above.resolve() == target:
            return True
        if above == root:
            return False
        above = above.parent
