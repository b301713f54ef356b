"""Findings about annotations: empty masks, boxes that do not fit their masks, repeated and near-identical masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from segpaste.datasets.health.listing import Box, ListedObject, ListedPhoto
from segpaste.datasets.health.regions import Region, near_pairs, region_of
from segpaste.datasets.health.report import Finding
from segpaste.types.sampling import Size, outward_box

TINY_PX = 16
"""Number of pixels below which a mask is tiny."""

NEAR_IOU = 0.9
"""Intersection over union from which masks are near-identical."""

_BOX_TOLERANCE_PX, _BOX_TOLERANCE_FRAC = 2.0, 0.05
_OUTSIDE_TOLERANCE_PX = 1.0

Regions = Mapping[int, Region]


@dataclass
class Measured:
    """Sizes of objects, and findings about annotations.

    Attributes:
        findings: findings in the order of the dataset.
        areas_px: pixels of each object that has a mask or a box.
        areas_frac: the same as a fraction of the image.
    """

    findings: list[Finding] = field(default_factory=list)
    areas_px: list[float] = field(default_factory=list)
    areas_frac: list[float] = field(default_factory=list)


class ObjectCheck:
    """Check of annotations, image by image, that adds its findings to a `Measured`.

    Args:
        measured: receives the findings.
        expects_masks: True if an annotation without a mask is an error.
    """

    def __init__(self, measured: Measured, *, expects_masks: bool) -> None:
        self._measured, self._expects_masks = measured, expects_masks

    def add(self, photo: ListedPhoto, size: Size, objects: Sequence[ListedObject], of_map: Regions | None) -> None:
        """Check the annotations of an image of (H, W); ``of_map`` has the masks of its label map, by id."""
        masked: list[tuple[ListedObject, Region]] = []
        boxed: list[tuple[ListedObject, Box]] = []
        for found in objects:
            if found.id == 0 and not found.is_crowd:
                self._find("zero_id", photo, found, "its id is 0, by which pycocotools marks what was not found")
            region = self._region(photo, size, found) if of_map is None else of_map.get(found.id)
            box = found.box_px(size)
            if box is not None:
                self._check_inside(photo, size, found, box)
            if region is not None:
                masked.append((found, region))
                self._check_region(photo, found, region, box)
            elif box is not None:
                boxed.append((found, box))
            self._measure(size, found, region, box)
        self._find_repeated(photo, masked, boxed)

    def _find(self, kind: str, photo: ListedPhoto, found: ListedObject, text: str) -> None:
        text = f"{found.place(photo)}: {text}"
        self._measured.findings.append(Finding.at(photo.file, kind, text, photo.name, found.id))

    def _region(self, photo: ListedPhoto, size: Size, found: ListedObject) -> Region | None:
        if found.segmentation is None:
            if self._expects_masks and not found.is_crowd and not found.is_stuff:
                has_box = _area(found.box_px(size), size) > 0
                self._find("boxed_object" if has_box else "missing_mask", photo, found, "no segmentation")
            return None
        segmentation = found.segmentation(size)
        if isinstance(segmentation, list) and [] in segmentation:
            self._find("empty_polygon", photo, found, "a polygon without points; write [] for no mask")
        try:
            return region_of(segmentation, size)
        except ValueError as error:
            self._find("broken_crowd" if found.is_crowd else "broken_mask", photo, found, str(error))
            return None

    def _check_inside(self, photo: ListedPhoto, size: Size, found: ListedObject, box: Box) -> None:
        beyond = max(-box[0], -box[1], box[2] - size[1], box[3] - size[0])
        if beyond > _OUTSIDE_TOLERANCE_PX:
            text = f"its box {_rounded(box)} extends beyond {size[1]} x {size[0]} pixels"
            self._find("outside_photo", photo, found, text)

    def _check_region(self, photo: ListedPhoto, found: ListedObject, region: Region, box: Box | None) -> None:
        if not region.area_px:
            self._find("empty_mask", photo, found, "its mask has no pixel")
            return
        if region.area_px < TINY_PX:
            self._find("tiny_mask", photo, found, f"its mask has {region.area_px} pixels")
        if box is None or found.is_crowd:
            return
        longer = max(region.box[2] - region.box[0], region.box[3] - region.box[1])
        if photo.sample_size is not None and not _encloses(box, region.box):
            text = f"its box {_rounded(box)} does not enclose that of its mask, {_rounded(region.box)}"
            self._find("broken_box", photo, found, text)
            return
        tolerance = max(_BOX_TOLERANCE_PX, _BOX_TOLERANCE_FRAC * longer)
        if max(abs(edge - other) for edge, other in zip(box, region.box, strict=True)) > tolerance:
            text = f"its box is {_rounded(box)}, that of its mask {_rounded(region.box)}"
            self._find("box_disagrees", photo, found, text)

    def _measure(self, size: Size, found: ListedObject, region: Region | None, box: Box | None) -> None:
        if found.is_crowd or found.is_stuff or (region is None and box is None):
            return
        area = region.area_px if region is not None else _area(box, size)
        if area > 0:
            self._measured.areas_px.append(area)
            self._measured.areas_frac.append(area / (size[0] * size[1]))

    def _find_repeated(
        self, photo: ListedPhoto, masked: list[tuple[ListedObject, Region]], boxed: list[tuple[ListedObject, Box]]
    ) -> None:
        shown = [(found, region) for found, region in masked if region.runs and not found.is_crowd]
        for first, second, iou in near_pairs([region for _, region in shown], NEAR_IOU):
            (one, its), (other, theirs) = shown[first], shown[second]
            if its.runs == theirs.runs and one.label == other.label:
                self._find("duplicate_annotation", photo, other, f"the same class and mask as {photo.entry} {one.id}")
                continue
            classes = "of the same class" if one.label == other.label else "of another class"
            text = f"its mask and that of {photo.entry} {one.id}, {classes}, overlap by {iou:.0%}"
            self._find("near_identical_masks", photo, other, text)
        seen: dict[tuple[int | None, Box], int] = {}
        for found, box in boxed:
            if not found.is_crowd and (first := seen.setdefault((found.label, box), found.id)) != found.id:
                self._find("duplicate_annotation", photo, found, f"the same class and box as {photo.entry} {first}")


def _encloses(box: Box, other: Box) -> bool:
    """Tell whether a box, rounded outwards to whole pixels, encloses another one."""
    x1, y1, x2, y2 = outward_box(box)
    return x1 <= other[0] and y1 <= other[1] and x2 >= other[2] and y2 >= other[3]


def _area(box: Box | None, size: Size) -> float:
    """Return the area of a box inside an image of (H, W)."""
    if box is None:
        return 0.0
    width = min(box[2], size[1]) - max(box[0], 0)
    height = min(box[3], size[0]) - max(box[1], 0)
    return max(width, 0.0) * max(height, 0.0)


def _rounded(box: Box) -> str:
    return f"({', '.join(f'{edge:.4g}' for edge in box)})"
