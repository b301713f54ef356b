"""Annotation files, images and maps below the folder of a dataset that none of its splits reads.

Files are known by suffix, annotation files also by their first bytes. Files that this package writes beside a dataset,
the maps of an annotation file, which are in the folder of its name, and augmented datasets, which have replay records,
are not counted. Files of another dataset, in the form in which this package writes one, are named as such. Images
directly in the folder of a dataset are those of a description, unless it has its images there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES, files_below
from segpaste.datasets.formats.image_annotations import ImageAnnotations
from segpaste.datasets.formats.text_files import head_of

UNREAD_LABELS = "annotation files that no split reads"
UNREAD_IMAGES = "image files that no split reads"
UNREAD_MAPS = "maps that no split reads"
NAMED = (UNREAD_LABELS, UNREAD_IMAGES, UNREAD_MAPS)
IMAGE_FILES = IMAGE_SUFFIXES | {".gif", ".jfif", ".jpe"}
_HEAD_BYTES = 1 << 14
_TABLES = ".json", re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
_HEADS: Mapping[str, tuple[str, re.Pattern[bytes]]] = {
    **dict.fromkeys(("coco", "lvis", "coco-panoptic", "roboflow"), _TABLES),
    "labelme": (".json", re.compile(rb'"(shapes|imagePath|imageData)"\s*:')),
    "voc": (".xml", re.compile(rb"<annotation[\s>]")),
    "cvat": (".xml", re.compile(rb"<annotations[\s>]")),
    "yolo": (".txt", re.compile(rb"\A\s*\d+(\s+[-+]?[\d.]+([eE][-+]?\d+)?){4,}\s*(\n|\Z)")),
}
"""Suffix of the annotation files of each format, and what is in their first bytes."""
_OF_MAPS = ("SegmentationObject", "SegmentationClass")
_NOT_SEARCHED = ("depth", "depth_valid", "normals", "intrinsics", "semantic", "instances", "panoptic", "gallery")
"""Folders of maps and of reports, in the folder of a dataset."""
_OF_BOTH = ("annotations.json", "panoptic.json")
"""Tables of the same images in the folder of a dataset; one of them is read."""
_RECORDS = "replay.jsonl"
_OF_WRITTEN = (
    *(("annotations.json", "images"), ("panoptic.json", "images"), ("data.yaml", "labels")),
    *(("class_names.txt", "JPEGImages"), ("classes.txt", "images")),
    *((f"annotations/{kind}_*.json",) for kind in ("instances", "lvis", "panoptic")),
    ("*/_annotations.coco.json",),
)
"""Files and folders that are together in the folder of a written dataset."""
Opener = Callable[[], ImageAnnotations]


def unread_below(
    root: Path,
    format: str,
    photos: ImageAnnotations,
    others: Sequence[tuple[Sequence[Path], Opener]],
) -> dict[str, str]:
    """Return the paths of the files that no split reads, with words for their kind.

    Args:
        root: the folder of the dataset.
        format: the name of its format.
        photos: a split.
        others: of each other split the files and folders that it reads, if they are known, and a function that opens
            it; called only if files are left.
    """
    if format not in _HEADS or photos.declared_maps is not None:
        return {}
    read, whole = _Read(root), os.path.normpath(root)
    read.add_split(photos)
    covered = tuple(read.known(place) for places, _ in others for place in places)
    left = dict(_candidates(whole, format, read))
    left = {path: left[path] for path in left if not read.is_below(path, covered)}
    for places, opener in others if left else ():
        try:
            if not places:
                read.add_split(opener())
        except DatasetError:
            return {}  # named when that split is opened
    return dict(_told({path: kind for path, kind in sorted(left.items()) if path not in read}, whole))


def _told(left: Mapping[str, str], whole: str) -> Iterator[tuple[str, str]]:
    """Yield unread files with words for their kind; those of augmented datasets are left out."""
    written = dict[PurePosixPath, bool | None]()
    for path, kind in left.items():
        above = [*PurePosixPath(os.path.relpath(path, whole).replace(os.sep, "/")).parents][-2::-1]
        for folder in (folder for folder in above if folder not in written):
            written[folder] = _written_kind(Path(whole, folder))
        found = next((folder for folder in above if written[folder] is not None), None)
        if found is None:
            yield path, kind
        elif written[found] is False:
            yield path, f"files of another dataset in '{found}', which is not read"


def _written_kind(folder: Path) -> bool | None:
    """Return whether a folder is an augmented dataset; None if it is none in the form in which we write one."""
    if not any(all(any(folder.glob(name)) for name in names) for names in _OF_WRITTEN):
        return None
    return (folder / _RECORDS).is_file()


class _Read:
    """The files that splits read or name, and the folders of their maps; links to folders are followed."""

    def __init__(self, root: Path) -> None:
        self.maps = set[str]()
        self._root, self._paths, self._folders = root, set[str](), dict[str, str]()

    def __contains__(self, path: str) -> bool:
        return self.known(path) in self._paths

    def known(self, path: str | os.PathLike[str]) -> str:
        """Return the path that all names of a file have in common."""
        folder, name = os.path.split(os.path.normpath(path))
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)

    def is_below(self, path: str, places: Collection[str]) -> bool:
        """Return whether a file is one of some files, or in one of some folders."""
        known = self.known(path)
        return any(known == place or known.startswith(f"{place}{os.sep}") for place in places)

    def is_map(self, path: str) -> bool:
        """Return whether a file is in a folder of maps."""
        return os.path.dirname(self.known(path)) in self.maps

    def add_split(self, dataset: ImageAnnotations) -> None:
        """Add the files of a split."""
        self._paths.add(self.known(dataset.annotations_file))
        self._paths.update(self.known(self._root / name) for name in dataset.unread_files)
        self._paths.update(map(self.known, dataset.stray_files()))
        for index in range(len(dataset)):
            self._paths.add(self.known(dataset.path_of(index)))
            files = [self.known(path) for path in dataset.files_of(index)]
            self._paths.update(files)
            self.maps.update(os.path.dirname(path) for path in files if Path(path).suffix.lower() in IMAGE_FILES)


def _candidates(whole: str, format: str, read: _Read) -> Iterator[tuple[str, str]]:
    suffix, head = _HEADS[format]
    names = files_below(whole)
    tables = {name.removesuffix(".json") for name in names if name.endswith(".json")}
    is_of_both = any(os.path.join(whole, name) in read for name in _OF_BOTH)
    for name in names:
        path, pure = os.path.join(whole, *name.split("/")), PurePosixPath(name)
        own = pure.suffix.lower()
        if path in read or (own != suffix and own not in IMAGE_FILES) or any(_is_unfinished(at) for at in pure.parts):
            continue
        if own == suffix:
            if not (is_of_both and name in _OF_BOTH) and _begins_with(Path(path), head):
                yield path, UNREAD_LABELS
        elif len(pure.parts) == 1 or pure.parts[0] in _NOT_SEARCHED or not Path(path).is_file():
            continue
        elif read.is_map(path):
            yield path, UNREAD_MAPS
        elif pure.parts[0] not in _OF_MAPS and not any(str(above) in tables for above in pure.parents):
            yield path, UNREAD_IMAGES


def _is_unfinished(folder: str) -> bool:
    """Return whether a folder is that of a dataset that is being written, see `segpaste.workspace`."""
    return folder.endswith(".partial")


def _begins_with(path: Path, head: re.Pattern[bytes]) -> bool:
    try:
        return path.is_file() and head.search(head_of(path, _HEAD_BYTES)) is not None
    except OSError:
        return False


def of_annotation(path: str, kinds: Mapping[str, str]) -> bool:
    """Return whether an annotation file that no split reads is beside an image, with its name."""
    stem = os.path.splitext(path)[0]
    return any(kinds.get(f"{stem}{suffix}") == UNREAD_LABELS for suffix in (".json", ".xml"))


def named_kind(kind: str, root: Path, paths: Iterable[Path]) -> str:
    """Return the words for a kind with its first files, relative to ``root``."""
    names = [os.path.relpath(path, root).replace(os.sep, "/") for path in paths]
    return f"{kind}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
