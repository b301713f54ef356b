"""Formats of COCO: an annotation file beside a folder of images, and folders that hold both.

FILE.json                              COCO or LVIS instances, COCO panoptic; the images are given beside it
images/ and annotations.json           as `segpaste augment` writes them
annotations/instances_train2017.json   with the images in train2017/ or images/train2017/; or in images/, as of CVAT
annotations/lvis_train.json            with the images in train/ or train2017/; also lvis_v1_train.json
annotations/panoptic_train2017.json    with its PNG files in annotations/panoptic_train2017/, the images in train2017/
images/, panoptic/ and panoptic.json   as `segpaste augment` writes them, preferred to an annotations.json beside them
train/_annotations.coco.json           Roboflow: the images of a split beside its annotations

The files of splits may also be in the folder of the dataset instead of ``annotations``.
"""

from __future__ import annotations

import json
import mmap
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from segpaste.datasets.entries import file_name_of
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.annotations import CocoAnnotations
from segpaste.datasets.formats.coco.segments import SegmentAnnotations
from segpaste.datasets.formats.format import NO_SPLIT, Format, ReadOptions
from segpaste.datasets.formats.image_annotations import ImageAnnotations, Images, Transforms
from segpaste.datasets.large_json.file import AnnotationFile

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages


ROBOFLOW_FILE = "_annotations.coco.json"
COCO_FILE = "annotations.json"
PANOPTIC_FILE = "panoptic.json"
_KINDS = ("instances", "lvis", "panoptic", "stuff", "person_keypoints", "captions")
"""Starts of the names of annotation files of one split."""


class CocoFile(Format):
    """Annotation file of COCO instances, COCO panoptic or LVIS, recognised by its content."""

    name = "coco-file"
    title = "COCO and LVIS annotation files"
    files = "FILE.json, with the folder of the images"
    gives = "masks, or boxes only; keypoints, crowds; of panoptic files semantic and panoptic maps"
    takes = frozenset({"images_dir", "panoptic_dir", "repeated_ids"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the only split if the path is a JSON file."""
        return (NO_SPLIT,) if path.is_file() and path.suffix.lower() == ".json" else None

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open the file beside ``options.images_dir``."""
        return _beside_images(path, options, _open_instances, _open_panoptic)

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the annotations of the file beside ``options.images_dir``."""
        return _beside_images(path, options, CocoAnnotations, SegmentAnnotations)


def _beside_images(
    path: Path, options: ReadOptions, instances: Callable[..., Images], segments: Callable[..., Images]
) -> Images:
    """Read a file with the function for its content."""
    if options.images_dir is None:
        raise DatasetError(
            f"{path}: expected the folder of the images of an annotation file, got none; give it (images_dir=, "
            "--images)"
        )
    file, transforms = AnnotationFile(path, options.repeated_ids), options.transforms
    if file.is_panoptic:
        if options.repeated_ids is not None:
            raise DatasetError(
                f"{path}: expected no repeated_ids (--repeated-ids) with panoptic segments; leave it out"
            )
        maps = path.with_suffix("") if options.panoptic_dir is None else options.panoptic_dir
        if not maps.is_dir():
            raise DatasetError(
                f"{path}: expected a folder of the PNG files of its panoptic segments, found none at {maps}; give it "
                "(panoptic_dir=, --panoptic-dir)"
            )
        return _where_images_are(lambda folder: segments(folder, file, maps, transforms=transforms), options.images_dir)
    if options.panoptic_dir is not None:
        raise DatasetError(f"{path}: expected panoptic segments with a folder of their PNG files, got instances")
    return _where_images_are(lambda folder: instances(folder, file, transforms=transforms), options.images_dir)


def _where_images_are(opened: Callable[[Path], Images], folder: Path) -> Images:
    """Open a file with the folder of its images, or with the one above if file names begin with the name of a folder.

    Names from the urls of LVIS do, such as ``train2017/000000391895.jpg``. The first image decides.
    """
    dataset, above = opened(folder), folder.absolute().parent
    name = dataset.file_name(0) if len(dataset) else ""
    is_above = "/" in name and not (folder / name).is_file() and (above / name).is_file()
    return opened(above) if is_above else dataset


def _open_instances(images: Path, file: AnnotationFile, *, transforms: Transforms | None) -> AnnotatedImages:
    from segpaste.datasets.formats.coco.dataset import open_instances  # with torch, for samples

    return open_instances(images, file, transforms=transforms)


def _open_panoptic(images: Path, file: AnnotationFile, maps: Path, *, transforms: Transforms | None) -> AnnotatedImages:
    from segpaste.datasets.formats.coco.panoptic import CocoPanoptic  # with torch, for samples

    return CocoPanoptic(images, file, maps, transforms=transforms)


class CocoFolder(Format):
    """Folder of COCO instances with their images.

    Attributes:
        start: start of the names of the annotation files of splits.
        version: expression of what the rest of these names may begin with before the name of the split.
        endings: what the name of the folder of images may have after that of the split.
        file: annotation file of a dataset without splits, beside ``images``; None if the format has none.
    """

    name = "coco"
    title = "COCO folders"
    files = "images/ and annotations.json, or annotations/instances_SPLIT.json and SPLIT/ or images/"
    gives = "masks, or boxes only; keypoints, crowds"
    takes = frozenset({"repeated_ids"})
    start: ClassVar[str] = "instances_"
    version: ClassVar[str] = "^$"
    endings: ClassVar[tuple[str, ...]] = ("",)
    file: ClassVar[str | None] = COCO_FILE

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return ``train`` for a folder of `segpaste augment`, or the splits whose file and images exist."""
        if self._whole(path) is not None:
            return ("train",)
        return tuple(sorted(self._files(path))) or None

    def _files(self, path: Path) -> dict[str, Path]:
        """Return the annotation file of each split whose images exist.

        Raises:
            DatasetError: there are several files of a split.
        """
        found = dict[str, Path]()
        for file in (file for folder in (path / "annotations", path) for file in sorted(folder.glob(f"{self.start}*"))):
            if found and file.parent not in {one.parent for one in found.values()}:
                break  # those in annotations/ are the dataset
            whole = file.name.removeprefix(self.start).removesuffix(".json")
            names = dict.fromkeys((whole, re.sub(self.version, "", whole)) if file.suffix == ".json" else ())
            places = ((name, flat) for flat in (None, file) for name in (names if flat is None else reversed(names)))
            split = next((name for name, flat in places if name and self._images(path, name, flat) is not None), None)
            if split is not None and (other := found.setdefault(split, file)) != file:
                both = " and ".join(one.relative_to(path).as_posix() for one in (other, file))
                raise DatasetError(
                    f"{path}: expected one file of the split {split}, got {both}; give one of them with the folder of "
                    "its images (images_dir=, --images)"
                )
        return found

    def _images(self, path: Path, split: str, file: Path | None) -> Path | None:
        """Return the folder of the images of a split, or that of the images of all if they are of a file's; or None."""
        names = [f"{split}{ending}" for ending in self.endings]
        places = (folder / name for name in names for folder in (path, path / "images"))
        if (found := next(filter(Path.is_dir, places), None)) is not None or file is None:
            return found
        first = _first_name(file)
        return path / "images" if first and (path / "images" / first).is_file() else None

    def is_preferred(self, path: Path) -> bool:
        """Return False for instances beside the panoptic segments of the same images, which hold the stuff too."""
        return self._whole(path) is None or not _has_segments(path / PANOPTIC_FILE)

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split; warn of panoptic segments of the same images, which are not read."""
        transforms = options.transforms
        return self._split(path, split, options, lambda images, file: self._opened(images, file, transforms))

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the annotations of a split, with the same warning."""
        return self._split(path, split, options, self._read)

    def _split(
        self, path: Path, split: str, options: ReadOptions, opened: Callable[[Path, AnnotationFile], Images]
    ) -> Images:
        images, file = self.locate(path, split)
        segments = file.with_name(f"{PanopticFolder.start}{split}.json")
        if file != segments and self._whole(path) is None and _has_segments(segments):
            warnings.warn(
                f"{segments}: the panoptic segments of the images are not read, but only {file.name}; name the other "
                f"format to read them ({PanopticFolder.name!r} as format=, --from)",
                stacklevel=3,
            )
        dataset = opened(images, AnnotationFile(file, options.repeated_ids))
        if self._whole(path) is None:
            others = [file.with_name(f"{kind}_{split}.json") for kind in _KINDS]
            dataset.unread_files = tuple(o.relative_to(path).as_posix() for o in others if o != file and o.is_file())
        return dataset

    def places(self, path: Path, split: str) -> tuple[Path, ...]:
        """Return the folder of the images of a split, and the annotation files of these images."""
        images, file = self.locate(path, split)
        return images, file, *(file.with_name(f"{kind}_{split}.json") for kind in _KINDS)

    def locate(self, path: Path, split: str) -> tuple[Path, Path]:
        """Return the folder of the images of a split, and its annotation file."""
        if (file := self._whole(path)) is not None:
            return path / "images", file
        file = self._files(path).get(split)
        images = self._images(path, split, file) or path
        return images, file or path / "annotations" / f"{self.start}{split}.json"

    def _whole(self, path: Path) -> Path | None:
        """Return the annotation file of a dataset without splits; None if it does not exist."""
        if self.file is None or not ((path / self.file).is_file() and (path / "images").is_dir()):
            return None
        return path / self.file

    def _opened(self, images: Path, file: AnnotationFile, transforms: Transforms | None) -> AnnotatedImages:
        return _open_instances(images, file, transforms=transforms)

    def _read(self, images: Path, file: AnnotationFile) -> ImageAnnotations:
        return CocoAnnotations(images, file)


class LvisFolder(CocoFolder):
    """Folder of LVIS with its images, as `segpaste convert` writes it, or with the folders of COCO 2017."""

    name = "lvis"
    title = "LVIS folders"
    files = "annotations/lvis_SPLIT.json and SPLIT/; or lvis_v1_SPLIT.json and SPLIT2017/"
    gives = "masks, lists of absent and not exhaustive classes"
    start = "lvis_"
    version = r"^v\d+(\.\d+)?_"
    endings = "", "2017"
    file = None

    def places(self, path: Path, split: str) -> tuple[Path, ...]:
        """Return none if the file names the folders of its images: a split of LVIS has images of two of COCO's."""
        return super().places(path, split) if self.locate(path, split)[0] == self._images(path, split, None) else ()

    def locate(self, path: Path, split: str) -> tuple[Path, Path]:
        """Return the folder of the images of a split, or the one above if file names begin with a folder's name."""
        images, file = super().locate(path, split)
        first, _, inside = _first_name(file).rpartition("/")[0].partition("/")
        is_above = first and not inside and not (images / first).is_dir() and (images.parent / first).is_dir()
        return images.parent if is_above else images, file


class PanopticFolder(CocoFolder):
    """Folder of COCO panoptic segments with their images; the PNG files are in a folder named like the JSON."""

    name = "coco-panoptic"
    title = "COCO panoptic folders"
    files = "images/, panoptic/ and panoptic.json, or SPLIT/, annotations/panoptic_SPLIT/ and its .json"
    gives = "masks of things, semantic and panoptic maps, crowds"
    takes = frozenset()
    start = "panoptic_"
    file = PANOPTIC_FILE

    def is_preferred(self, path: Path) -> bool:
        """Return True."""
        return True

    def _opened(self, images: Path, file: AnnotationFile, transforms: Transforms | None) -> AnnotatedImages:
        return _open_panoptic(images, file, file.path.with_suffix(""), transforms=transforms)

    def _read(self, images: Path, file: AnnotationFile) -> ImageAnnotations:
        return SegmentAnnotations(images, file, file.path.with_suffix(""))


class RoboflowFolder(Format):
    """Roboflow's export of COCO, with a folder of images and annotations for each split."""

    name = "roboflow"
    title = "Roboflow's COCO exports"
    files = f"SPLIT/{ROBOFLOW_FILE}"
    gives = "masks, or boxes only; keypoints, crowds"
    takes = frozenset({"repeated_ids"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the folders; for the folder of one split its own name."""
        if (path / ROBOFLOW_FILE).is_file():
            return (path.resolve().name,)
        files = (file for file in path.glob(f"*/{ROBOFLOW_FILE}") if not file.parent.name.startswith("."))
        return tuple(sorted(file.parent.name for file in files)) or None

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split."""
        folder, file = self.locate(path, split)
        return _open_instances(folder, AnnotationFile(file, options.repeated_ids), transforms=options.transforms)

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the annotations of a split."""
        folder, file = self.locate(path, split)
        return CocoAnnotations(folder, AnnotationFile(file, options.repeated_ids))

    def copies(self, path: Path, split: str) -> Iterator[tuple[PurePosixPath, Path]]:
        """Yield all files of the split's folder."""
        folder = self.locate(path, split)[0]
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                yield PurePosixPath(split, file.relative_to(folder).as_posix()), file

    def locate(self, path: Path, split: str) -> tuple[Path, Path]:
        """Return the folder of the images of a split, and its annotation file."""
        folder = path if (path / ROBOFLOW_FILE).is_file() else path / split
        return folder, folder / ROBOFLOW_FILE


def _has_segments(file: Path) -> bool:
    """Return whether a file of panoptic segments exists beside the folder of its PNG files."""
    return file.is_file() and file.with_suffix("").is_dir()


def _first_name(file: Path) -> str:
    """Return the first name of an image in an annotation file; empty without one."""
    with file.open("rb") as opened, suppress(ValueError, DatasetError):
        text = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        if (named := re.search(rb'"(file_name|coco_url)"\s*:', text)) is not None:
            row = json.loads(text[text.rfind(b"{", 0, named.start()) : text.find(b"}", named.end()) + 1])
            return file_name_of(file, row)
    return ""
