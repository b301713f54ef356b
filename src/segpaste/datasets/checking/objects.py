"""Findings about annotations: empty masks, boxes that do not fit their masks, repeated and near-identical masks.

Masks are compared as compressed run lengths, so that no full-size mask is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segpaste._pixels import Size, outward_box
from segpaste.datasets.checking.listings.findings import Finding
from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject
from segpaste.datasets.entries import Box
from segpaste.datasets.errors import first_few
from segpaste.datasets.formats.coco.segments import read_segment_ids
from segpaste.datasets.formats.rle import coded_runs, expect_filled, run_lengths

TINY_PX = 16
"""Number of pixels below which a mask is tiny."""

NEAR_IOU = 0.9
"""Intersection over union from which masks are near-identical."""

_BOX_TOLERANCE_PX, _BOX_TOLERANCE_FRAC = 2.0, 0.05
_OUTSIDE_TOLERANCE_PX = 1.0
_BLOCK_SIZE = 1 << 20


class Region(NamedTuple):
    """Mask of an annotation.

    Attributes:
        size: (H, W) of the image.
        runs: compressed run lengths; empty for a mask without a pixel.
        area_px: number of pixels.
        box: (x1, y1, x2, y2), edges of the outermost pixels.
    """

    size: Size
    runs: bytes
    area_px: int
    box: Box


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

    def add(self, image: ListedImage, size: Size, objects: Sequence[ListedObject], of_map: Regions | None) -> None:
        """Check the annotations of an image of (H, W); ``of_map`` has the masks of its label map, by id."""
        masked: list[tuple[ListedObject, Region]] = []
        boxed: list[tuple[ListedObject, Box]] = []
        for found in objects:
            if found.id == 0 and not found.is_crowd:
                self._find("zero_id", image, found, "its id is 0, by which pycocotools marks what was not found")
            region = self._region(image, size, found) if of_map is None else of_map.get(found.id)
            box = found.box_px(size)
            if box is not None:
                self._check_inside(image, size, found, box)
            if region is not None:
                masked.append((found, region))
                self._check_region(image, found, region, box)
            elif box is not None:
                boxed.append((found, box))
            self._measure(size, found, region, box)
        self._find_repeated(image, masked, boxed)

    def _find(self, kind: str, image: ListedImage, found: ListedObject, text: str) -> None:
        text = f"{found.place(image)}: {text}"
        self._measured.findings.append(Finding.at(image.file, kind, text, image.name, found.id))

    def _region(self, image: ListedImage, size: Size, found: ListedObject) -> Region | None:
        if found.segmentation is None:
            if self._expects_masks and not found.is_crowd and not found.is_stuff:
                has_box = _area(found.box_px(size), size) > 0
                self._find("boxed_object" if has_box else "missing_mask", image, found, "no segmentation")
            return None
        segmentation = found.segmentation(size)
        if isinstance(segmentation, list) and [] in segmentation:
            self._find("empty_polygon", image, found, "a polygon without points; write [] for no mask")
        try:
            return region_of(segmentation, size)
        except ValueError as error:
            self._find("broken_crowd" if found.is_crowd else "broken_mask", image, found, str(error))
            return None

    def _check_inside(self, image: ListedImage, size: Size, found: ListedObject, box: Box) -> None:
        beyond = max(-box[0], -box[1], box[2] - size[1], box[3] - size[0])
        if beyond > _OUTSIDE_TOLERANCE_PX:
            text = f"its box {_rounded(box)} extends beyond {size[1]} x {size[0]} pixels"
            self._find("outside_photo", image, found, text)

    def _check_region(self, image: ListedImage, found: ListedObject, region: Region, box: Box | None) -> None:
        if not region.area_px:
            self._find("empty_mask", image, found, "its mask has no pixel")
            return
        if region.area_px < TINY_PX:
            self._find("tiny_mask", image, found, f"its mask has {region.area_px} pixels")
        if box is None or found.is_crowd:
            return
        longer = max(region.box[2] - region.box[0], region.box[3] - region.box[1])
        if image.sample_size is not None and not _encloses(box, region.box):
            text = f"its box {_rounded(box)} does not enclose that of its mask, {_rounded(region.box)}"
            self._find("broken_box", image, found, text)
            return
        tolerance = max(_BOX_TOLERANCE_PX, _BOX_TOLERANCE_FRAC * longer)
        if max(abs(edge - other) for edge, other in zip(box, region.box, strict=True)) > tolerance:
            text = f"its box is {_rounded(box)}, that of its mask {_rounded(region.box)}"
            self._find("box_disagrees", image, found, text)

    def _measure(self, size: Size, found: ListedObject, region: Region | None, box: Box | None) -> None:
        if found.is_crowd or found.is_stuff or (region is None and box is None):
            return
        area = region.area_px if region is not None else _area(box, size)
        if area > 0:
            self._measured.areas_px.append(area)
            self._measured.areas_frac.append(area / (size[0] * size[1]))

    def _find_repeated(
        self, image: ListedImage, masked: list[tuple[ListedObject, Region]], boxed: list[tuple[ListedObject, Box]]
    ) -> None:
        shown = [(found, region) for found, region in masked if region.runs and not found.is_crowd]
        for first, second, iou in near_pairs([region for _, region in shown], NEAR_IOU):
            (one, its), (other, theirs) = shown[first], shown[second]
            if its.runs == theirs.runs and one.label == other.label:
                self._find("duplicate_annotation", image, other, f"the same class and mask as {image.entry} {one.id}")
                continue
            classes = "of the same class" if one.label == other.label else "of another class"
            text = f"its mask and that of {image.entry} {one.id}, {classes}, overlap by {iou:.0%}"
            self._find("near_identical_masks", image, other, text)
        seen: dict[tuple[int | None, Box], int] = {}
        for found, box in boxed:
            if not found.is_crowd and (first := seen.setdefault((found.label, box), found.id)) != found.id:
                self._find("duplicate_annotation", image, found, f"the same class and box as {image.entry} {first}")


def region_of(segmentation: object, size: Size) -> Region:
    """Return the mask of a segmentation.

    Args:
        segmentation: as for `segpaste.datasets.formats.rle.decode_segmentation`.
        size: (H, W) of the image.

    Raises:
        ValueError: it cannot be decoded.
    """
    from pycocotools import mask as coco_mask

    counts = coded_runs(segmentation, size)
    if not isinstance(counts, bytes) or not isinstance(segmentation, list):
        numbers = run_lengths(counts.decode()) if isinstance(counts, bytes) else counts
        expect_filled(numbers, size)
        if not numbers[1::2].sum():
            return Region(size, b"", 0, (0.0, 0.0, 0.0, 0.0))
        plain = {"size": list(size), "counts": numbers.tolist()}
        counts = coco_mask.frPyObjects(plain, *size)["counts"]
    coded: Any = {"size": list(size), "counts": counts}
    area = int(coco_mask.area(coded))
    x, y, width, height = (float(value) for value in coco_mask.toBbox(coded))
    return Region(size, counts if area else b"", area, (x, y, x + width, y + height))


def near_pairs(regions: Sequence[Region], least_iou: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of masks of one image whose intersection over union is at least ``least_iou``.

    Args:
        regions: non-empty masks of one image.
        least_iou: minimum intersection over union, above 0.

    Yields:
        The positions of the pair, the smaller one first, and its intersection over union.
    """
    from pycocotools import mask as coco_mask

    order = sorted(range(len(regions)), key=lambda i: regions[i].area_px)
    areas = np.array([regions[i].area_px for i in order], np.int64)
    coded = [{"size": list(regions[i].size), "counts": regions[i].runs} for i in order]
    start = 0
    while start < len(order) - 1:
        block = max(1, min(len(order) - start, _BLOCK_SIZE // len(order)))
        end = int(np.searchsorted(areas, areas[start + block - 1] / least_iou, "right"))  # of masks of similar area
        overlaps = coco_mask.iou(coded[start : start + block], coded[start:end], [0] * (end - start))
        for one, other in zip(*np.nonzero(np.triu(overlaps >= least_iou, 1)), strict=True):
            first, second = sorted((order[start + int(one)], order[start + int(other)]))
            yield first, second, float(overlaps[one, other])
        start += block


def map_regions(path: Path, size: Size) -> dict[int, Region]:
    """Return the area and box of each segment of a map, by id; the regions have no run lengths.

    Args:
        path: PNG with the id of each pixel in its colors, R + 256 G + 65536 B; 0 is no segment.
        size: (H, W) of the image.

    Raises:
        DatasetError: the file cannot be read.
    """
    ids, places = np.unique(read_segment_ids(path, size), return_inverse=True)
    places = places.reshape(size)
    regions = {}
    for place, segment_id in enumerate(ids.tolist()):
        if segment_id:
            rows, columns = np.nonzero(places == place)
            box = float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1)
            regions[segment_id] = Region(size, b"", len(rows), box)
    return regions


def mismatches(image: ListedImage, objects: Sequence[ListedObject], regions: dict[int, Region]) -> list[Finding]:
    """Return a finding if the table and the map of an image have different segments."""
    listed = {found.id for found in objects}
    sides = {"the map": sorted(regions.keys() - listed), "the table": sorted(listed - regions.keys())}
    parts = [f"{len(ids)} only in {where} ({first_few(ids)})" for where, ids in sides.items() if ids]
    text = f"segments of {image.name}: {', '.join(parts)}"
    return [Finding.at(image.map_path, "map_mismatch", text, image.name)] if parts else []


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
