"""Traits of the files of YOLO datasets: where the data YAML leads, and how images and label files are named.

A tool takes the YAML, or the folder, and searches the images on its own ways. The YAML is read again here, as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from typing import Any

from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject, Listing
from segpaste.datasets.checking.tools.trait import ListedSplit, Place, Trait
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.formats.yolo.data import listed_images, read_yaml

_YAML_NAMES = ("data.yaml", "data.yml")
_UP, _HERE = "../", "./"


@dataclass(frozen=True, slots=True)
class _Declared:
    """Data YAML of a split: its file, its keys, and the images that it names for the split."""

    file: Path
    keys: Mapping[str, Any]
    sources: Sequence[str]
    is_list: bool

    @property
    def path(self) -> str:
        """The folder under the key ``path``; empty without one."""
        return str(self.keys.get("path") or "")

    @property
    def folder(self) -> Path:
        """The folder that ``path`` names, from that of the YAML."""
        return self.file.parent / self.path

    @property
    def lists(self) -> list[Path]:
        """The text files among the sources."""
        return [self.folder / source for source in self.sources if (self.folder / source).is_file()]


def _declared(listing: Listing) -> _Declared | None:
    """Return the data YAML of a split; None without one."""
    if listing.format != "yolo" or listing.file is None or not listing.file.is_file():
        return None
    with suppress(DatasetError):
        keys = read_yaml(listing.file)
        value = keys.get(listing.split) or keys.get("validation")
        sources = value if isinstance(value, list) else [value]
        return _Declared(listing.file, keys, [str(source) for source in sources], isinstance(value, list))
    return None


def _declares(split: ListedSplit, holds: Callable[[_Declared], bool]) -> Iterator[Place]:
    """Yield the images with objects of a split, if its data YAML has a property."""
    found = _declared(split.listing)
    if found is not None and holds(found):
        yield from _with_objects(split.listing)


def _with_objects(listing: Listing) -> Iterator[Place]:
    yield from (Place(image) for image in sorted({of.image for of in listing.objects}))


def _no_yaml(split: ListedSplit) -> Iterator[Place]:
    """Yield the images with objects of a folder that has no data YAML."""
    listing = split.listing
    if listing.format == "yolo" and listing.file is not None and listing.file.is_dir():
        yield from _with_objects(listing)


def _is_missing(found: _Declared) -> bool:
    return bool(found.path) and not found.folder.is_dir()


def _is_relative(found: _Declared) -> bool:
    return bool(found.path) and not PurePath(found.path).is_absolute()


def _is_stale(found: _Declared) -> bool:
    return _is_missing(found) and not _is_relative(found)


def _leads_up(found: _Declared) -> bool:
    """Whether a folder is named as if the YAML were in one beside it, as exports of Roboflow do."""
    return any(
        source.startswith(_UP) and not (found.folder / source).exists() and (found.folder / source[3:]).exists()
        for source in found.sources
    )


def _has_bare_lines(found: _Declared) -> bool:
    """Whether a list has relative paths that do not begin with ``./``."""
    names = (name for file in found.lists for _, name in listed_images(file))
    return any(not PurePosixPath(name).is_absolute() and not name.startswith(_HERE) for name in names)


_OF_YAML: Mapping[str, tuple[str, Callable[[_Declared], bool]]] = {
    "other_yaml": ("images of a YAML that is not named data.yaml", lambda found: found.file.name not in _YAML_NAMES),
    "no_path": ("images of a data YAML without the key path", lambda found: found.keys.get("path") is None),
    "empty_path": (
        "images of a data YAML with the key path and nothing after it",
        lambda found: "path" in found.keys and found.keys["path"] is None,
    ),
    "relative_path": ("images of a data YAML whose path is relative", _is_relative),
    "named_path": (
        "images of a data YAML whose relative path is not a folder beside it",
        lambda found: _is_missing(found) and _is_relative(found),
    ),
    "stale_path": ("images of a data YAML whose path does not exist", _is_stale),
    "stale_alone": (
        "images of a data YAML whose path does not exist, and that are not in train/images",
        lambda found: _is_stale(found) and not (found.file.parent / "train" / "images").is_dir(),
    ),
    "names_list": (
        "images of a data YAML whose names are a list",
        lambda found: isinstance(found.keys.get("names"), list),
    ),
    "listed": ("images that a text file lists", lambda found: bool(found.lists)),
    "listed_bare": ("images of a text file with relative paths that do not begin with ./", _has_bare_lines),
    "folder_list": ("images of a split that is a list in the data YAML", lambda found: found.is_list),
    "missing_test": (
        "images of a data YAML that names a split to test on of which there is no file",
        lambda found: bool(found.keys.get("test")) and not (found.folder / str(found.keys["test"])).exists(),
    ),
    "folder_above": ("images of folders that the data YAML names one folder too high", _leads_up),
}


def _is_beside(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether the label file is in the folder of the image."""
    if image.path is None or image.label_file is None or image.entry != "line":
        return False
    return image.label_file.parent == image.path.parent and bool(objects)


def _images_above(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether the path has more than one folder ``images``."""
    parts = () if image.path is None or image.entry != "line" else PurePath(os.path.abspath(image.path)).parts
    return parts[:-1].count("images") > 1 and bool(objects)


def _upper_label(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return (
        image.entry == "line" and image.label_file is not None and image.label_file.suffix == ".TXT" and bool(objects)
    )


def _has_suffix(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject], suffix: str) -> bool:
    return PurePosixPath(image.name).suffix.lower() == suffix and bool(objects)


def _gif_named_jpg(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether a file is a GIF and has another suffix; files of other modes than a GIF's are not opened."""
    if image.path is None or head is None or not objects or head.mode not in ("P", "L", "RGB", "RGBA"):
        return False
    with suppress(OSError), open(image.path, "rb") as file:
        return file.read(4) == b"GIF8" and image.path.suffix.lower() != ".gif"
    return False


OF_LAYOUTS: Mapping[str, Trait] = MappingProxyType(
    {
        "no_yaml": Trait("images of a folder without a data YAML", of_split=_no_yaml),
        **{name: Trait(text, of_split=partial(_declares, holds=holds)) for name, (text, holds) in _OF_YAML.items()},
        "labels_beside": Trait("images with their label file beside them", of_image=_is_beside),
        "images_above": Trait("images in a folder images that is below another one", of_image=_images_above),
        "label_suffix": Trait("images whose label file has the suffix .TXT", of_image=_upper_label),
        **{
            name: Trait(f"images with the suffix .{name}", of_image=partial(_has_suffix, suffix=f".{name}"))
            for name in ("avif", "jp2", "mpo")
        },
        "gif_named_jpg": Trait("GIFs under another suffix", of_image=_gif_named_jpg),
    }
)
"""Traits of the files of YOLO datasets."""

OF_DATA_YAML = frozenset({"no_yaml", *_OF_YAML})
"""Those of the file that a tool is started from; of a tool with a file of its own they are not told."""
