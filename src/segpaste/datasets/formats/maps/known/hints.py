"""Hints for the declaration of a folder whose layout shows where maps are, but not the meaning of their values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE
from segpaste.datasets.formats.yolo.data import IMAGE_SUFFIXES

_PHOTOS = ("images", "image", "imgs", "rgb", "color", "JPEGImages", "photos")
_MASKS = ("masks", "mask", "labels", "annotations", "segmentation", "segmentations", "gt", "semantic", "instances")
_DEPTH, _NORMALS = ("depth", "depths"), ("normals", "normal")
_MAP_SUFFIXES = (".png", ".tif", ".tiff", ".bmp", ".npy", ".npz", ".exr")


def missing_declaration(root: Path) -> str | None:
    """Return the error for a folder of maps without a declaration; None for other folders."""
    if (root / "state.json").is_file() and (root / "dataset_info.json").is_file():
        return _saved_by_datasets(root)
    if (root / "dataset_dict.json").is_file():
        return _saved_by_datasets(root)
    lines = list(_lines(root))
    if not lines:
        return None
    text = "".join(f"\n  {line}" for line in lines)
    return (
        f"{root}: expected {DECLARATION_FILE} with folders of maps, since it declares the meaning of their values, "
        f"found none; write it, for example:{text}"
    )


def _saved_by_datasets(root: Path) -> str:
    return (
        f"{root}: expected files of images and annotations, got a dataset that Hugging Face datasets saved, whose "
        "columns have no fixed meaning; open it in Python with segpaste.integrations.huggingface.HubSamples, "
        "which takes their names"
    )


def _lines(root: Path) -> Iterator[str]:
    """Yield the lines of a declaration that fits the folders, with placeholders for the user."""
    photos = _folder(root, _PHOTOS)
    if photos is None or (photo := _first(root / photos, IMAGE_SUFFIXES)) is None:
        return
    split = "{split}/" if photo.parent != root / photos else ""
    found = [
        *_of_masks(root, split),
        *_of_geometry(root, _DEPTH, "depth", "unit: mm", split),
        *_of_geometry(root, _NORMALS, "normals", "axes: [right, up, backward]", split),
    ]
    if found:
        yield f"photos: {photos}/{split}{{name}}.*"
        yield from found


def _of_masks(root: Path, split: str) -> Iterator[str]:
    name = _folder(root, _MASKS)
    first = None if name is None else _first(root / str(name), _MAP_SUFFIXES, depth=3)
    if name is None or first is None:
        return
    yield "classes: [background, NAME, ...]"
    below = first.parent.relative_to(root / name).parts
    is_for_each = len(below) > (1 if split else 0) and _num_files(first.parent) and _is_photo(root, below[-1])
    if is_for_each:
        yield f"instances: {{files: '{name}/{split}{{name}}/*', encoding: mask, class: NAME}}"
    else:
        yield f"semantic: {{files: '{name}/{split}{{name}}{first.suffix}', void: [255]}}"


def _of_geometry(root: Path, names: tuple[str, ...], key: str, more: str, split: str) -> Iterator[str]:
    name = _folder(root, names)
    first = None if name is None else _first(root / str(name), _MAP_SUFFIXES)
    if name is not None and first is not None:
        yield f"{key}: {{files: '{name}/{split}{{name}}{first.suffix}', {more}}}"


def _folder(root: Path, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if (root / name).is_dir()), None)


def _first(folder: Path, suffixes: tuple[str, ...] | frozenset[str], depth: int = 2) -> Path | None:
    """Return a file with one of these suffixes, in the folder or a few levels below."""
    for here, folders, names in islice(os.walk(folder), 50):
        folders.sort()
        found = sorted(name for name in names if Path(name).suffix.lower() in suffixes)
        if found:
            return Path(here) / found[0]
        if len(Path(here).relative_to(folder).parts) >= depth:
            folders.clear()
    return None


def _num_files(folder: Path) -> int:
    return sum(1 for _ in islice(os.scandir(folder), 2))


def _is_photo(root: Path, stem: str) -> bool:
    """Return whether a folder of masks is named after an image."""
    photos = _folder(root, _PHOTOS)
    return photos is not None and any((root / photos).glob(f"{stem}.*"))
