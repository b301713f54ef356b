"""Masks of annotations: as run lengths, with area, box and overlap without decoding pixels; and of panoptic maps.

pycocotools measures compressed run lengths. They are checked first, because it reads past the end of broken ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segpaste.datasets.formats.rle import coded_runs, expect_filled, run_lengths
from segpaste.datasets.formats.segment_ids import read_segment_ids
from segpaste.datasets.health.listing import Box, ListedObject, ListedPhoto
from segpaste.datasets.health.report import Finding
from segpaste.types.sampling import Size

_BLOCK_SIZE = 1 << 20
_MAX_NAMED = 3


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


def mismatches(photo: ListedPhoto, objects: Sequence[ListedObject], regions: dict[int, Region]) -> list[Finding]:
    """Return a finding if the table and the map of an image have different segments."""
    listed = {found.id for found in objects}
    sides = {"the map": sorted(regions.keys() - listed), "the table": sorted(listed - regions.keys())}
    parts = [f"{len(ids)} only in {where} ({_named(ids)})" for where, ids in sides.items() if ids]
    text = f"segments of {photo.name}: {', '.join(parts)}"
    return [Finding.at(photo.map_path, "map_mismatch", text, photo.name)] if parts else []


def _named(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:_MAX_NAMED])) + (", ..." if len(ids) > _MAX_NAMED else "")
