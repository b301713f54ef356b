"""Names of images and of classes in a written dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePosixPath

from segpaste.datasets.formats.coco import CocoDetectionV2
from segpaste.datasets.formats.coco_panoptic import CocoPanoptic
from segpaste.datasets.formats.records import AnnotatedPhotos, DatasetError
from segpaste.datasets.formats.written.format import WrittenFormat


def photo_names(photos: AnnotatedPhotos, form: WrittenFormat, taken: set[str]) -> list[str]:
    """Return the file name of each image, relative to the folder of images of its split.

    Names of a COCO file do not change. For other datasets, leading folders that all images share are left out. A format
    with a flat folder joins folders by underscores. If label files are named after images, two images that differ only
    in their suffix get different names.

    Args:
        photos: one split.
        form: format of the written dataset.
        taken: names of other splits in the same folder; the names of this split are added.
    """
    given = [_inside(photos.file_name(index)) for index in range(len(photos))]
    if not isinstance(photos, CocoDetectionV2 | CocoPanoptic):
        shared = os.path.commonpath([name.parent for name in given]) if given else ""
        given = [name.relative_to(shared) if shared else name for name in given]
    if not form.by_stem:
        return [name.as_posix() for name in given]
    names = []
    for name in given:
        wanted = PurePosixPath("_".join(name.parts)) if form.flat else name
        free = wanted
        number = 1
        while free.with_suffix("").as_posix() in taken:
            number += 1
            free = wanted.with_stem(f"{wanted.stem}_{number}")
        taken.add(free.with_suffix("").as_posix())
        names.append(free.as_posix())
    return names


def _inside(name: str) -> PurePosixPath:
    """Return a path that stays in its folder, without a root, a drive, and parts that lead out of it."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    return PurePosixPath(*(part.replace(":", "_") for part in parts))


class ClassList:
    """The classes of a dataset whose splits share one list, joined by name in the order of their first occurrence.

    Attributes:
        names: names of the classes.
    """

    def __init__(self, splits: Sequence[AnnotatedPhotos]) -> None:
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
