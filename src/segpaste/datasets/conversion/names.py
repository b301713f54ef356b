"""Names of images and of classes in a written dataset."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.views import SelectedSamples
from segpaste.datasets.writers.format import WrittenFormat

_JPEG = frozenset({".jfif", ".jif", ".jpe"})
"""Suffixes of JPEG files that get the usual one."""
_PICTURES = frozenset({".apng", ".avif", ".bmp", ".gif", ".heic", ".heif", ".ico", ".j2k", ".jp2", ".jpeg", ".jpg"})
_PICTURES |= {".jpx", ".mpo", ".pbm", ".pcx", ".pgm", ".png", ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp"}
"""Suffixes of images, which are replaced; to any other end of a name a suffix is added."""
_LONGEST_NAME, _LONGEST_SUFFIX = 255, 8  # bytes
_NOT_IN_LISTS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ENDS = re.compile(r"^[\s.]+|\s+$")


@dataclass(frozen=True, slots=True)
class PhotoNames:
    """Names of the images of a split, relative to the folder of its images.

    Attributes:
        copied: name of each image if its file is copied.
        drawn: name of each image if it is encoded again, as PNG.
        is_readable: for each image, True if readers of the format look for files of its suffix.
        is_changed: for each image, True if its copy does not have the name that it had, apart from leading folders that
            all images share.
    """

    copied: Sequence[str]
    drawn: Sequence[str]
    is_readable: Sequence[bool]
    is_changed: Sequence[bool]


class TakenNames:
    """Names in one folder. Two names are taken for one if some file system takes them for one."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._stems: set[str] = set()
        self._folders: set[str] = set()

    def take(self, names: Iterable[PurePosixPath], *, by_stem: bool) -> PurePosixPath:
        """Return the first name that is free, and take it.

        Args:
            names: names in the order of preference.
            by_stem: True if names must differ without their suffixes.
        """
        for name in map(shortened, names):
            free = shortened(PurePosixPath("_".join(name.parts))) if self._files & _folders(name) else name
            key, stem = _key(free), _key(free.with_suffix(""))
            if not (key in self._files or key in self._folders or (by_stem and stem in self._stems)):
                self._files.add(key)
                self._stems.add(stem)
                self._folders |= _folders(free)
                return free
        raise AssertionError("names have no end")


def photo_names(
    photos: AnnotatedDataset, form: WrittenFormat, taken: TakenNames, *, by_stem: bool | None = None
) -> PhotoNames:
    """Return the file names of the images.

    Names of a COCO file do not change. For other datasets, leading folders that all images share are left out. A format
    with a flat folder joins folders by underscores. If files are named after images, two images that differ only in
    their suffix get different names, and so do two that differ in case only. If readers search for images, a name has
    no character that a list in a text file cannot hold, and no leading dot.

    Args:
        photos: one split.
        form: format of the written dataset.
        taken: names of other splits in the same folder; the names of this split are added.
        by_stem: True if files are named after the images; by default as in ``form``.
    """
    by_stem = form.by_stem if by_stem is None else by_stem
    given = [photos.file_name(index) for index in range(len(photos))]
    inside = list(map(_inside, given))
    if not isinstance(photos, CocoDetectionV2 | CocoPanoptic):
        shared = os.path.commonpath([name.parent for name in inside]) if inside else ""
        inside = [name.relative_to(shared) if shared else name for name in inside]
        given = [name.as_posix() for name in inside]
    copied: list[PurePosixPath] = []
    same: dict[str, PurePosixPath] = {}
    is_readable = []
    for old, name in zip(given, inside, strict=True):
        wanted, is_read = _suffixed(name if form.suffixes is None else _plain(name, form), form)
        is_readable.append(is_read)
        if by_stem or old not in same:
            same[old] = taken.take(_numbered(wanted), by_stem=by_stem)
        copied.append(same[old])
    drawn = [_drawn(name, taken, by_stem) for name in copied]
    is_changed = [name != PurePosixPath(old) for name, old in zip(copied, given, strict=True)]
    return PhotoNames([name.as_posix() for name in copied], drawn, is_readable, is_changed)


def shortened(name: PurePosixPath) -> PurePosixPath:
    """Return a path whose parts fit into a file system: the digest of a long part ends what is left of it.

    The stem of the last one leaves room for the suffix of another file that is named after the image.
    """
    return PurePosixPath(*(_short(part) for part in name.parts[:-1]), _short(name.name, of_file=True))


def _short(part: str, *, of_file: bool = False) -> str:
    stem, suffix = os.path.splitext(part) if of_file else (part, "")
    if len(os.fsencode(suffix)) > _LONGEST_SUFFIX:
        stem, suffix = part, ""
    room = _LONGEST_NAME - max(len(os.fsencode(suffix)), len(".png") if of_file else 0)
    if len(content := os.fsencode(stem)) <= room:
        return part
    digest = hashlib.sha256(content).hexdigest()[:16]
    return content[: room - len(digest) - 1].decode(errors="ignore") + f"-{digest}{suffix}"


def _inside(name: str) -> PurePosixPath:
    """Return a path that stays in its folder, without a root, a drive, and parts that lead out of it."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "//", "..", ".")]
    return PurePosixPath(*(part.replace(":", "_") for part in parts or ["image"]))


def _plain(name: PurePosixPath, form: WrittenFormat) -> PurePosixPath:
    """Return a name that lists of a line each can hold, and that no reader takes for a hidden file."""
    parts = [_NOT_IN_LISTS.sub("_", part) for part in name.parts]
    stem, suffix = PurePosixPath(parts[-1]).stem, PurePosixPath(parts[-1]).suffix
    parts = [_ENDS.sub("_", part) for part in (*parts[:-1], stem)]
    parts[-1] += suffix
    return PurePosixPath("_".join(parts)) if form.flat else PurePosixPath(*parts)


def _suffixed(name: PurePosixPath, form: WrittenFormat) -> tuple[PurePosixPath, bool]:
    """Return a name with a suffix that readers of the format look for, and whether the file can be copied."""
    suffix = name.suffix.lower()
    if form.suffixes is None or suffix in form.suffixes:
        return name, True
    if suffix in _JPEG:
        return name.with_suffix(".jpg"), True
    return (name.with_suffix(".png") if suffix in _PICTURES else name.with_name(f"{name.name}.png")), False


def _numbered(name: PurePosixPath) -> Iterable[PurePosixPath]:
    yield name
    number = 1
    while True:
        number += 1
        yield name.with_stem(f"{name.stem}_{number}")


def _drawn(name: PurePosixPath, taken: TakenNames, by_stem: bool) -> str:
    """Return the name of an image as PNG."""
    if name.suffix.lower() == ".png":
        return name.as_posix()
    wanted = name.with_suffix(".png") if name.suffix.lower() in _PICTURES else name.with_name(f"{name.name}.png")
    if by_stem:
        return wanted.as_posix()
    return taken.take(_numbered(wanted), by_stem=False).as_posix()


def _folders(name: PurePosixPath) -> set[str]:
    return {_key(parent) for parent in list(name.parents)[:-1]}


def _key(name: PurePosixPath) -> str:
    """Return what names that some file system takes for one have in common: case and Unicode's form are equal."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name.as_posix()).casefold())


class ClassList:
    """The classes of a dataset whose splits share one list, joined by name in the order of their first occurrence.

    Attributes:
        names: names of the classes.
    """

    def __init__(self, splits: Sequence[AnnotatedDataset]) -> None:
        lists = [tuple(photos.class_names) for photos in splits]
        same = len(set(lists)) == 1
        self.names: list[str] = list(lists[0] if same else dict.fromkeys(name for names in lists for name in names))
        for photos, names in zip(splits, lists, strict=True):
            if not same and len(set(names)) < len(names):
                raise DatasetError(
                    f"{photos.annotations_file}: expected a unique name for each class, since splits with different "
                    f"classes are joined by name, got {len(names)} classes with {len(set(names))} names; rename some"
                )
        label_of = {name: label for label, name in enumerate(self.names)}
        self._maps = [list(range(len(names))) if same else [label_of[name] for name in names] for names in lists]

    def labels_of(self, split: int) -> list[int]:
        """Return the joined class of each class of a split."""
        return self._maps[split]


def without_repeats(
    names: Sequence[str], opened: Sequence[AnnotatedDataset]
) -> tuple[tuple[str, ...], list[AnnotatedDataset]]:
    """Return splits whose lists may name the same images, each with the images of its own, and without empty ones.

    An image is in the first of train, val, test and the others that names it, so ``trainval`` adds nothing to both.
    """
    rank = {name: number for number, name in enumerate(("train", "val", "test"))}
    taken: set[str] = set()
    kept: dict[str, AnnotatedDataset] = {}
    for name, photos in sorted(zip(names, opened, strict=True), key=lambda pair: rank.get(pair[0], len(rank))):
        paths = [os.path.normpath(photos.path_of(index)) for index in range(len(photos))]
        own = [index for index, path in enumerate(paths) if path not in taken]
        taken.update(paths)
        if own or not paths:
            kept[name] = photos if len(own) == len(paths) else SelectedSamples(photos, own)
    left = tuple(name for name in names if name in kept)
    return left, [kept[name] for name in left]
