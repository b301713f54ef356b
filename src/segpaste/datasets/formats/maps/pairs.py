"""Path patterns of images and their maps, found by words in names, such as ``train_masks/1_mask.png``.

A file whose name or folders have a word of `WORDS`, such as ``mask``, is a map. Without that word, and without a word
for images such as ``rgb``, its path equals that of its image; so the words are what the patterns differ in. The
patterns that pair the most files are returned if a dataset declared by them has images.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES
from segpaste.datasets.formats.maps.declaration import MapDeclaration
from segpaste.datasets.formats.maps.files import MapFiles, splits_of

MAP_SUFFIXES = (".png", ".tif", ".tiff", ".bmp", ".npy", ".npz", ".exr", ".gif", ".pbm", ".pgm", ".ppm", ".pnm")
LOSSY_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")
"""Suffixes of JPEG, whose pixels near edges are not those that were saved."""
WORDS: Mapping[str, str] = {
    "semantic": "masks?|labels?|lbls?|labelids|segs?|segm|segmaps?|segmentations?|gts?|ground[-_ ]?truths?|annots?|"
    "annotations?|anns?|annos?|targets?|semantic|instances?|semseg|mattes?",
    "depth": "depths?",
    "normals": "normals?",
}
_OF_IMAGES = "images?|imgs?|jpegimages|photos?|pictures?|rgb|colou?rs?|inputs?|originals?|orig|raw|frames?|left"
_SPLIT = re.compile("train|val|test|valid|dev|eval", re.IGNORECASE)
_MAX_DEPTH, _MANY_FILES = 5, 20_000


class _Shape(NamedTuple):
    """Form of the paths of one kind of file: folders and name, with holes for what differs between images."""

    folders: tuple[tuple[str, str] | str, ...]
    stem: tuple[str, str]
    suffix: str


class Pairs(NamedTuple):
    """Patterns of the images and maps of a folder.

    Attributes:
        images: pattern of the images.
        maps: pattern of the maps of each role.
        files: the maps that were found, by role.
        is_each: True if each object has a map of its own.
    """

    images: str
    maps: dict[str, str]
    files: dict[str, list[Path]]
    is_each: bool = False


_Key = tuple[tuple[str, ...], str]
_Found = dict[_Shape, dict[_Key, list[str]]]


def find_pairs(root: Path, suffixes: Sequence[str] = MAP_SUFFIXES) -> Pairs | None:
    """Return the patterns for a folder with maps of these suffixes; None if no image has a map."""
    paths = list(islice(_paths(root), _MANY_FILES))
    is_map = {path: role for path in paths if (role := _role(path, suffixes)) is not None}
    others = [path for path in paths if path not in is_map and PurePosixPath(path).suffix.lower() in IMAGE_SUFFIXES]
    by_role: dict[str, list[str]] = defaultdict(list)
    for path, role in is_map.items():
        by_role[role].append(path)
    for of_name in (True, False):
        for words in ("(?!)", _OF_IMAGES):
            if (found := _matched(root, _shapes(others, words), by_role, of_name=of_name)) is not None:
                return found
    return _same_names(root, _shapes(others, _OF_IMAGES))


def _matched(root: Path, images: _Found, by_role: Mapping[str, Sequence[str]], *, of_name: bool) -> Pairs | None:
    """Return the patterns of the image shape with the most maps; maps have its name, or are several in its folder."""
    counts = Counter[tuple[_Shape, str, _Shape]]()
    files: dict[tuple[_Shape, str, _Shape], list[Path]] = {}
    for role in ("semantic",) if not of_name else by_role:
        for shape, maps in _shapes(by_role.get(role, ()), WORDS[role]).items():
            for image, own in images.items():
                if not of_name and not _is_alone(own):
                    continue
                known = {_folded(key) if of_name else key[0] for key in own}
                paired = [key for key in maps if (_folded(key) if of_name else key[0]) in known]
                if paired and len({len(key[0]) for key in (*own, *paired)}) == 1:
                    counts[image, role, shape] = len({_folded(key) for key in paired})
                    files[image, role, shape] = [root / path for key in paired for path in maps[key]]
    for (image, _, _), _ in counts.most_common():
        best: dict[str, _Shape] = {}
        for (other, role, shape), _ in counts.most_common():
            if other == image:
                best.setdefault(role, shape)
        words = _words([key[0] for key in images[image]], has_split=of_name)
        patterns = {role: _pattern(shape, words) if of_name else _each(shape, words) for role, shape in best.items()}
        has_same_name = any(shape.folders == image.folders for shape in best.values())
        pattern = _pattern(image, words, any_suffix=not has_same_name)
        if _opens(root, pattern, patterns, is_each=not of_name):
            return Pairs(
                pattern, patterns, {role: files[image, role, shape] for role, shape in best.items()}, not of_name
            )
    return None


def _same_names(root: Path, shapes: _Found) -> Pairs | None:
    """Return the patterns of images with a map of the same name and another suffix beside them."""
    for image, images in shapes.items():
        for other, maps in shapes.items():
            same = [key for key in maps if key in images]
            if image.suffix.lower() in (".jpg", ".jpeg") and other == image._replace(suffix=".png") and same:
                words = _words([key[0] for key in images], has_split=True)
                pattern, maps_pattern = _pattern(image, words), {"semantic": _pattern(other, words)}
                if _opens(root, pattern, maps_pattern, is_each=False):
                    return Pairs(pattern, maps_pattern, {"semantic": [root / p for key in same for p in maps[key]]})
    return None


def _paths(root: Path) -> Iterator[str]:
    """Yield the picture and array files below a folder, relative to it."""
    for here, folders, names in os.walk(root, followlinks=True):
        below = Path(here).relative_to(root)
        folders[:] = sorted(name for name in folders if name[0] != ".") if len(below.parts) < _MAX_DEPTH else []
        for name in sorted(names):
            suffix = PurePosixPath(name).suffix.lower()
            if name[0] != "." and (suffix in IMAGE_SUFFIXES or suffix in MAP_SUFFIXES):
                yield (below / name).as_posix()


def _role(path: str, suffixes: Sequence[str]) -> str | None:
    """Return the role of a map by the words in its path, those of its name first; None for other files."""
    file = PurePosixPath(path)
    if file.suffix.lower() not in suffixes:
        return None
    for part in (file.stem, *reversed(file.parent.parts)):
        if re.fullmatch(_OF_IMAGES, part, re.IGNORECASE):
            return None
        for role, words in WORDS.items():
            if _cut(part, words) != ("", part, "") or re.fullmatch(words, part, re.IGNORECASE):
                return role
    return None


def _cut(part: str, words: str) -> tuple[str, str, str]:
    """Return a name without a word at its start or end, and with what was cut off there."""
    if match := re.fullmatch(f"((?:{words})(?:[-_. ]+|(?=\\d)))(.+)", part, re.IGNORECASE):
        return match[1], match[2], ""
    if match := re.fullmatch(f"(.+?)((?:[-_. ]+|(?<=\\d))(?:{words}))", part, re.IGNORECASE):
        return "", match[1], match[2]
    return "", part, ""


def _shapes(paths: Sequence[str], words: str) -> _Found:
    """Return the paths by their shape, and then by what differs: parts of folders, and of the name."""
    found: _Found = defaultdict(lambda: defaultdict(list))
    for path in paths:
        file = PurePosixPath(path)
        folders: list[tuple[str, str] | str] = []
        differing = []
        for part in file.parent.parts:
            if re.fullmatch(f"{words}|{_OF_IMAGES}", part, re.IGNORECASE):
                folders.append(part)
            else:
                before, core, after = _cut(part, words)
                folders.append((before, after))
                differing.append(core)
        before, core, after = _cut(file.stem, words)
        found[_Shape(tuple(folders), (before, after), file.suffix)][tuple(differing), core].append(path)
    return found


def _folded(key: _Key) -> _Key:
    """Return a key without the case of its name."""
    return key[0], key[1].casefold()


def _is_alone(keys: Mapping[_Key, Sequence[str]]) -> bool:
    """Return whether every image has a folder of its own, of its name."""
    return all(name in folders for folders, name in keys)


def _words(folders: Sequence[tuple[str, ...]], *, has_split: bool) -> list[str]:
    """Return the placeholder of each part of a folder: the first one that looks like a split, or the only one.

    A part that all images share is no placeholder, unless it looks like a split.
    """
    columns = [sorted(set(column)) for column in zip(*set(folders), strict=True)]
    places = [i for i, column in enumerate(columns) if all(_SPLIT.search(name) for name in column)]
    split = places[0] if places else 0 if len(columns) == 1 and has_split else None
    return [
        column[0] if len(column) == 1 and i not in places else "{split}" if i == split else f"{{folder_{i + 1}}}"
        for i, column in enumerate(columns)
    ]


def _pattern(shape: _Shape, words: Sequence[str], *, any_suffix: bool = False) -> str:
    left = iter(words)
    parts = [part if isinstance(part, str) else f"{part[0]}{next(left)}{part[1]}" for part in shape.folders]
    return "/".join([*parts, f"{shape.stem[0]}{{name}}{shape.stem[1]}{'.*' if any_suffix else shape.suffix}"])


def _each(shape: _Shape, words: Sequence[str]) -> str:
    return f"{_pattern(shape, words).rpartition('/')[0]}/*{shape.suffix}"


def _opens(root: Path, images: str, maps: Mapping[str, str], *, is_each: bool) -> bool:
    """Return whether a dataset declared by these patterns has images with all their maps."""
    more: dict[str, dict[str, Any]] = {
        "semantic": {},
        "depth": {"unit": "mm"},
        "normals": {"axes": ["right", "up", "backward"]},
        "instances": {"encoding": "mask", "class": "object"},
    }
    roles = {"instances": maps["semantic"]} if is_each else maps
    values = {role: {"files": pattern, **more[role]} for role, pattern in roles.items()}
    try:
        declared = MapDeclaration.model_validate({"photos": images, "classes": ["object"], **values})
        names = splits_of(root, declared)
        return all(MapFiles(root, declared).records(name)[0] for name in (names or ("",))[:1])
    except (DatasetError, ValueError):
        return False
