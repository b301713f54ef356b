"""Findings of a check: their kinds, and the records that listings fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "remark"]


_ERRORS = {
    "missing_file": "image or label map that does not exist",
    "broken_file": "file that is not an image, or is truncated",
    "wrong_size": "image of another size than in its annotations",
    "many_bits": "image of more than 8 bits per channel",
    "broken_entry": "invalid entry of a table, or invalid line of a label file",
    "duplicate_id": "id of two entries of a table",
    "unknown_reference": "id of an image or category that is not in its table",
    "unknown_class": "label without a class: negative, or beyond the last class name",
    "broken_mask": "segmentation that cannot be decoded",
    "broken_box": "box of a sample that does not enclose its mask",
    "broken_keypoints": "keypoints of another number or form than in their category",
    "missing_mask": "object without a mask, among annotations with masks",
    "broken_map": "map of classes, objects, depth or normals whose values cannot be used",
    "map_mismatch": "segment that is only in the table or only in the label map",
    "sample_mismatch": "sample that cannot share a batch with the first one, such as one with other fields",
    "unreadable": "other reason why the dataset, an image or a sample cannot be read",
}
_REMARKS = {
    "boxes_alone": "no annotation has a mask: objects are pasted with source.mask_from only",
    "boxed_object": "object with a box only, among objects with masks; it is not pasted, and written as a box",
    "empty_mask": "mask without a pixel; not pasted, written as a box if it has one (augment: and no outline)",
    "empty_polygon": "polygon without points, [[]], at which other readers stop",
    "zero_id": "annotation with id 0, which COCO's evaluation never counts as found",
    "repeated_id": "annotation of COCO without an id of its own, for which --repeated-ids was given",
    "broken_crowd": "crowd or ignored region that cannot be decoded; its box is used instead",
    "tiny_mask": "mask of very few pixels",
    "box_disagrees": "box that is far from the box of its mask",
    "outside_photo": "box that extends beyond the image",
    "duplicate_annotation": "annotation that repeats another one of its image, class and pixels",
    "near_identical_masks": "two masks of an image that are almost the same",
    "duplicate_photo": "image with the same bytes as another one",
    "duplicate_entry": "image that is listed twice",
    "duplicate_name": "name of two categories",
    "invalid_surface": "depth or normals without a valid pixel",
    "no_annotation": "image without annotations",
    "left_out": "image or shape that readers leave out, such as an image without a map, or a line",
    "unlisted_photo": "folder with image files that the annotations do not list, such as those of another split",
    "stray_labels": "label file or map without an image, or that no split reads, or file of another dataset below",
    "unused_category": "category without an annotation",
    "orientation_applied": "image that is rotated or flipped by its EXIF orientation, like its annotations",
    "orientation_ignored": "image whose EXIF orientation is ignored, since its annotations are on stored pixels",
}
KINDS: Mapping[str, tuple[Severity, str]] = MappingProxyType(
    {kind: ("error", text) for kind, text in _ERRORS.items()}
    | {kind: ("remark", text) for kind, text in _REMARKS.items()}
)
"""Severity and description of each kind of finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a dataset.

    Attributes:
        kind: a key of `KINDS`.
        message: one line that describes the problem, with the file, names and ids.
        photo: file name of the image; None if the problem belongs to no image.
        annotation: id of the annotation in its file; None if the problem belongs to no annotation.
        file: path of the file with the problem, such as the annotation file, a label file or the image; a folder if it
            belongs to no single file, None for samples without files.
    """

    kind: str
    message: str
    photo: str | None = None
    annotation: int | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Finding: expected a kind of {', '.join(KINDS)}, got {self.kind!r}")

    @classmethod
    def at(
        cls, file: Path | None, kind: str, text: str, image: str | None = None, annotation: int | None = None
    ) -> Finding:
        """Return a finding in a file; its message starts with the file."""
        if file is not None and not text.startswith(f"{file}"):
            text = f"{file}: {text}"
        return cls(kind, text, image, annotation, None if file is None else str(file))

    @property
    def severity(self) -> Severity:
        """``error`` or ``remark``."""
        return KINDS[self.kind][0]


@dataclass(frozen=True, slots=True)
class Spread:
    """Smallest, median and largest of some numbers; all None if there are no numbers."""

    min: float | None = None
    median: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the spread of numbers; the median is one of them."""
        ordered = sorted(values)
        return cls(ordered[0], ordered[len(ordered) // 2], ordered[-1]) if ordered else cls()


@dataclass(frozen=True, slots=True)
class SurfaceHealth:
    """Depth or normals of a dataset.

    Attributes:
        unit: unit of the values, ``m`` for metres; None if it is unknown or there is none.
        num_images: images whose maps were read; 0 if pixels were not read.
        values: smallest and largest valid value of all images, and the median of the images' medians; None for normals.
        invalid_frac: share of invalid pixels in all images; None if no map was read.
        num_without: images without a valid pixel.
    """

    unit: str | None = None
    num_images: int = 0
    values: Spread = Spread()
    invalid_frac: float | None = None
    num_without: int = 0
