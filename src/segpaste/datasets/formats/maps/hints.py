"""Declarations that fit a folder whose layout shows where maps are, for the user to complete.

The names of classes, units and axes are not in the files, so the declaration is shown and not used.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES, folders_in
from segpaste.datasets.formats.format import Format, ReadOptions
from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE
from segpaste.datasets.formats.maps.pairs import LOSSY_SUFFIXES, MAP_SUFFIXES, Pairs, find_pairs
from segpaste.datasets.formats.stored_pixels import color_of, distinct, one_channel, read_array
from segpaste.extras import MissingPackageError

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages

_IMAGES = ("images", "image", "imgs", "img", "rgb", "color", "JPEGImages", "photos")
_MASKS = (
    *("masks", "mask", "labels", "label", "annotations", "segmentation", "segmentations", "gt", "semantic"),
    *("SegmentationClass", "instances"),
)
_DEPTH, _NORMALS = ("depth", "depths"), ("normals", "normal")
_MANY_MAPS, _MANY_VALUES, _MANY_FOLDERS = 200, 255, 50
_MANY_IMAGES = 10_000


@dataclass(frozen=True)
class _Layout:
    """Folders of a dataset.

    Attributes:
        base: the folder with those of images and maps; of one split if the splits are the outer folders.
        before: pattern of the folders before those of images and maps.
        images: name of the folder of the images.
        image: path of an image.
    """

    base: Path
    before: str
    images: str
    image: Path

    @property
    def inner(self) -> tuple[str, ...]:
        """Folders of the image within that of the images."""
        return self.image.parent.relative_to(self.base / self.images).parts

    @property
    def below(self) -> str:
        """Pattern of these folders."""
        return "" if not self.inner else "{split}/" if len(self.inner) == 1 and not self.before else "{folders}"

    def folder(self, names: Collection[str]) -> str | None:
        """Return the first existing folder of these names; None without one."""
        return next((name for name in names if (self.base / name).is_dir()), None)

    def pattern(self, folder: str, first: Path) -> str | None:
        """Return the pattern of maps like ``first`` in a folder; None if it has no image of its name."""
        stems = (path.stem for path in islice(self.image.parent.iterdir(), _MANY_IMAGES))
        stem = max((stem for stem in stems if stem and stem in first.stem), key=len, default=None)
        parts = first.parent.relative_to(self.base / folder).parts
        if stem is None:
            return None
        inner = self.below if parts == self.inner else "".join(f"{part}/" for part in parts)
        return f"{self.before}{folder}/{inner}{first.stem.replace(stem, '{name}', 1)}{first.suffix}"


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

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Raise an error; not reached, because `splits` raises."""
        raise DatasetError(f"{path}: expected {DECLARATION_FILE}, found none; write it")


def missing_declaration(root: Path) -> str | None:
    """Return the error for a folder of maps without a declaration; None for other folders."""
    if (root / "state.json").is_file() and (root / "dataset_info.json").is_file():
        return _saved_by_datasets(root)
    if (root / "dataset_dict.json").is_file():
        return _saved_by_datasets(root)
    layout = _layout(root)
    lines = [] if layout is None else list(_lines(layout))
    if not lines and (pairs := find_pairs(root)) is not None:
        lines = list(_lines_of_pairs(pairs))
    if not lines:
        return _lossy_maps(root)
    doubt = ", with what it calls void as a class if it is one" if any(", void: [" in line for line in lines) else ""
    return (
        f"{root}: expected {DECLARATION_FILE} with folders of maps, since it declares the meaning of their values, "
        f"found none; write it{doubt}, for example: {{{', '.join(lines)}}}"
    )


def _lossy_maps(root: Path) -> str | None:
    """Return the error for a folder of maps in JPEG; None for other folders."""
    if (pairs := find_pairs(root, LOSSY_SUFFIXES)) is None:
        return None
    first = next(iter(pairs.files.values()))[0].relative_to(root).as_posix()
    return (
        f"{root}: expected maps whose values are stored exactly, got JPEG such as {first}, which changes values near "
        "edges; save the maps as PNG from their source, or with each value set to that of the nearest class, and "
        f"declare them in {DECLARATION_FILE} (docs/guide/maps.md)"
    )


def _saved_by_datasets(root: Path) -> str:
    return (
        f"{root}: expected files of images and annotations, got a dataset that Hugging Face datasets saved, whose "
        "columns have no fixed meaning; open it in Python with segpaste.integrations.huggingface.HubSamples, "
        "which takes their names"
    )


def _layout(root: Path) -> _Layout | None:
    """Return the folders of images at a root, or in the first of its subfolders; None without images."""
    for base, before in [(root, ""), *((path, "{split}/") for path in folders_in(root))]:
        for name in _IMAGES:
            if (base / name).is_dir() and (image := _first(base / name, IMAGE_SUFFIXES)) is not None:
                return _Layout(base, before, name, image)
    return None


def _lines(layout: _Layout) -> Iterator[str]:
    """Yield the keys of a declaration that fits the folders, with names and units for the user to correct."""
    found = [
        *_of_masks(layout),
        *_of_geometry(layout, _DEPTH, "depth", {"f": "unit: m"}, "unit: mm"),
        *_of_geometry(layout, _NORMALS, "normals", {}, "axes: [right, up, backward]"),
    ]
    if found:
        yield f"photos: '{layout.before}{layout.images}/{layout.below}{{name}}.*'"
        yield from found


def _lines_of_pairs(pairs: Pairs) -> Iterator[str]:
    """Yield the keys of a declaration for files that are paired by the words in their names."""
    found: list[str] = []
    for role, pattern in pairs.maps.items():
        if pairs.is_each:
            found += ["classes: [object]", f"instances: {{files: '{pattern}', encoding: mask, class: object}}"]
        elif role == "semantic":
            found += _of_values(pattern, _Values.of(pairs.files[role]))
        else:
            values = _read(pairs.files[role][0])
            unit = "unit: m" if values is not None and values.dtype.kind == "f" else "unit: mm"
            more = unit if role == "depth" else "axes: [right, up, backward]"
            found.append(f"{role}: {{files: '{pattern}', {more}}}")
    if found:
        yield f"photos: '{pairs.images}'"
        yield from found


def _of_masks(layout: _Layout) -> Iterator[str]:
    name = layout.folder(_MASKS)
    first = None if name is None else _first(layout.base / name, MAP_SUFFIXES, depth=3)
    if name is None or first is None:
        return
    if any(first.parent.name == path.stem for path in layout.image.parent.iterdir()):
        yield "classes: [object]"
        yield f"instances: {{files: '{layout.before}{name}/{layout.below}{{name}}/*', encoding: mask, class: object}}"
    elif (pattern := layout.pattern(name, first)) is not None:
        paths = sorted(path for path in (layout.base / name).rglob(f"*{first.suffix}") if path.name[0] != ".")
        yield from _of_values(pattern, _Values.of(paths))


@dataclass
class _Values:
    """Values of the maps of a folder: whole numbers, or colours as R * 65536 + G * 256 + B."""

    ids: set[int]
    colors: set[int]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> _Values:
        found = cls(set(), set())
        for path in paths[:: max(1, len(paths) // _MANY_MAPS)]:
            if (values := _read(path)) is not None:
                found.add(values)
        return found

    def add(self, values: NDArray[Any]) -> None:
        if values.ndim == 2 and (values.dtype.kind in "iub" or np.array_equal(values, np.floor(values))):
            self.ids.update(distinct(values.astype(np.int64)))
        elif values.ndim == 3 and values.dtype == np.uint8 and len(self.colors) <= _MANY_VALUES:
            wide = values[..., :3].astype(np.int64)
            self.colors.update(np.unique((wide << [16, 8, 0][: wide.shape[2]]).sum(-1)).tolist())


def _of_values(pattern: str, values: _Values) -> Iterator[str]:
    """Yield the classes and maps for some values; nothing for pictures of many colours."""
    if values.colors:
        grey = {value * 0x10101 for value in values.ids}  # maps without another colour
        colors = sorted(values.colors | grey)
        if len(colors) <= _MANY_VALUES:
            rows = [f"{{name: class_{i}, color: {[*color_of(code)]}}}" for i, code in enumerate(colors)]
            yield f"classes: [{', '.join(rows)}]"
            yield f"semantic: {{files: '{pattern}', encoding: color}}"
    elif len(values.ids) > _MANY_VALUES or max(values.ids, default=0) > _MANY_VALUES:
        yield "classes: [object]"
        yield f"instances: {{files: '{pattern}', encoding: number, class: object}}"
    elif values.ids:
        is_void = {value for value in values.ids if value < 0 or (value == 255 and not _is_spread(values.ids))}
        names = {value: "background" if value == 0 else f"class_{value}" for value in sorted(values.ids - is_void)}
        yield f"classes: {{{', '.join(f'{value}: {name}' for value, name in names.items())}}}"
        void = f", void: {sorted(is_void)}" if is_void else ""
        yield f"semantic: {{files: '{pattern}'{void}}}"


def _is_spread(ids: Collection[int]) -> bool:
    """Return whether values are evenly from 0 to 255, as classes are drawn to be seen, so that 255 is one of them."""
    steps = len(ids) - 1
    return all(abs(value * steps - 255 * i) <= steps for i, value in enumerate(sorted(ids)))


def _of_geometry(
    layout: _Layout, names: Collection[str], key: str, by_kind: dict[str, str], more: str
) -> Iterator[str]:
    name = layout.folder(names)
    first = None if name is None else _first(layout.base / name, MAP_SUFFIXES)
    if name is not None and first is not None and (pattern := layout.pattern(name, first)) is not None:
        values = _read(first)
        if values is not None and (values.ndim == 3) == (key == "normals"):
            yield f"{key}: {{files: '{pattern}', {by_kind.get(values.dtype.kind, more)}}}"


def _read(path: Path) -> NDArray[Any] | None:
    """Return the array of a file; None if it cannot be read without more than its path."""
    try:
        values = read_array(path)
    except (DatasetError, MissingPackageError):
        return None
    return values if path.parent.name in _NORMALS else one_channel(values)


def _first(folder: Path, suffixes: Collection[str], depth: int = 2) -> Path | None:
    """Return a file with one of these suffixes, in the folder or a few levels below."""
    for here, folders, names in islice(os.walk(folder), _MANY_FOLDERS):
        folders.sort()
        folders[:] = (name for name in folders if name[0] != ".")
        found = sorted(name for name in names if Path(name).suffix.lower() in suffixes and name[0] != ".")
        if found:
            return Path(here) / found[0]
        if len(Path(here).relative_to(folder).parts) >= depth:
            folders.clear()
    return None
