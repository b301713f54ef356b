"""Content of a dataset for a check: all images and annotations that its files list, valid or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from segpaste.datasets.health.report import Finding
from segpaste.types.sampling import Size

Box = tuple[float, float, float, float]


class ListedPhoto(NamedTuple):
    """Listed image of a dataset.

    Attributes:
        name: name in the dataset.
        path: path of its file; None if samples do not come from files.
        size: (H, W) of its annotations; None if these follow the image, rotated by its EXIF orientation.
        map_path: path of its label map; None without a map.
        any_mode: True if its reader accepts more than 8 bits per channel.
        drawn_upright: see `AnnotatedPhotos`.
        sample_size: (H, W) of its sample, if the sample was read.
        sample_form: dtype and channels of its sample, such as ``uint8 [3, H, W]``, if the sample was read.
        other_paths: further maps, such as depth, which may be in the folder of the images.
    """

    name: str
    path: Path | None
    size: Size | None
    map_path: Path | None = None
    any_mode: bool = False
    drawn_upright: bool = False
    sample_size: Size | None = None
    sample_form: str | None = None
    other_paths: tuple[Path, ...] = ()


class ListedObject(NamedTuple):
    """Annotation of a listed image.

    Attributes:
        id: id in its file, or line of its label file.
        photo: position of its image.
        label: its class; None if the category is unknown.
        segmentation: function of (H, W) that returns a segmentation for `segpaste.datasets.formats.rle`; None without
            a mask.
        box: function of (H, W) that returns the box in the file, (x1, y1, x2, y2) in pixels; None without a box.
        is_crowd: True for a crowd or ignored region.
        has_keypoints: True if a keypoint is labelled.
        is_stuff: True for a segment of stuff.
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
    """Images and annotations of a dataset, and the problems found while listing them.

    Attributes:
        photos: images in the order of the dataset.
        objects: annotations in the order of the dataset.
        class_names: names of the classes.
        findings: problems of the tables.
        has_masks: True if annotations are expected to have masks.
        has_annotations: True if annotations were listed; else ``objects`` is empty.
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
