"""Content of a dataset as a check sees it: all photos and annotations that its files list, right or wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from segpaste.datasets.health.report import Finding
from segpaste.types.sampling import Size

Box = tuple[float, float, float, float]


class ListedPhoto(NamedTuple):
    """Photo that a dataset lists.

    Attributes:
        name: as the dataset has it.
        path: of its file; None where samples come from elsewhere.
        size: (H, W) of its annotations; None where these follow the photo, rotated by its EXIF orientation.
        map_path: of its map of labels; None without.
        any_mode: its reader takes more than 8 bits per channel, too.
        drawn_upright: see `AnnotatedPhotos`.
        sample_size: (H, W) of its sample, where that was read.
        other_paths: its further maps, such as depth, which may lie in the folder of the photos.
    """

    name: str
    path: Path | None
    size: Size | None
    map_path: Path | None = None
    any_mode: bool = False
    drawn_upright: bool = False
    sample_size: Size | None = None
    other_paths: tuple[Path, ...] = ()


class ListedObject(NamedTuple):
    """Annotation of a listed photo.

    Attributes:
        id: in its file, or the line of its label file.
        photo: position of its photo.
        label: its class; None where the category is unknown.
        segmentation: of (H, W), in a form that `segpaste.datasets.formats.rle` decodes; None without a mask.
        box: of (H, W), as the file says, (x1, y1, x2, y2) in pixels; None without.
        is_crowd: a crowd or ignored region.
        has_keypoints: some are labelled.
        is_stuff: a segment of stuff.
    """

    id: int
    photo: int
    label: int | None
    segmentation: Callable[[Size], object] | None = None
    box: Callable[[Size], Box] | None = None
    is_crowd: bool = False
    has_keypoints: bool = False
    is_stuff: bool = False


@dataclass
class Listing:
    """Photos and annotations of a dataset, and what was found to be wrong while they were listed.

    Attributes:
        photos: in the order of the dataset.
        objects: in the order of the dataset.
        class_names: of each class.
        findings: of the tables.
        has_masks: annotations of this dataset are expected to have masks.
        has_annotations: annotations were listed; without, ``objects`` is empty and says nothing.
    """

    photos: list[ListedPhoto] = field(default_factory=list)
    objects: list[ListedObject] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    has_masks: bool = True
    has_annotations: bool = True

    def find(self, kind: str, message: str, photo: str | None = None, annotation: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(kind, message, photo, annotation))
