"""Checksums of masks: of the pixels where a run begins or ends, counted down the columns as in run lengths of COCO.

The ledger makes them from masks, the comparison from what was written, without decoding it. They take the time of the
runs, not that of the pixels. Polygons that are written as they were read have the checksum of their numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.entries import JsonRow, has_segmentation
from segpaste.datasets.formats.rle import decode_segmentation

FILLED_BOX = -1
"""In place of the checksum of a region that has no mask: that of its filled box."""
_MORE, _SIGN, _DIGIT, _BITS = 32, 16, 31, 5
"""Bits of a character of compressed run lengths: it has a successor; it is negative; its digits; their number."""


def mask_sum(mask: NDArray[np.bool_], box: Sequence[float]) -> int:
    """Return the checksum of a mask.

    Args:
        mask: [H, W] bool.
        box: [x, y, width, height] in pixel edges that encloses the mask; the pixels outside of it are not read.
    """
    x, y, width, height = box
    left, top, right, bottom = max(int(x), 0), max(int(y), 0), int(x + width) + 1, int(y + height) + 1
    columns = mask[top:bottom, left:right].T
    padded = np.zeros((columns.shape[0], columns.shape[1] + 2), np.int8)
    padded[:, 1:-1] = columns
    column, row = np.divmod(np.flatnonzero(np.diff(padded)), columns.shape[1] + 1)
    return _sum_of((left + column) * mask.shape[0] + top + row)


def runs_sum(counts: str | bytes | Sequence[int]) -> int:
    """Return the checksum of the mask of run lengths, which are the ``counts`` of COCO, compressed or not."""
    if isinstance(counts, str):
        counts = counts.encode()
    lengths = _lengths(counts) if isinstance(counts, bytes) else np.array(counts, np.int64)
    edges = lengths.cumsum()
    return _sum_of(edges[:-1] if len(edges) % 2 else edges)  # after the last pixel begins no run


def segmentation_sum(segmentation: Any) -> int:
    """Return the checksum of a segmentation of COCO: that of its mask, or of the numbers of its polygons."""
    if isinstance(segmentation, dict):
        return runs_sum(segmentation["counts"])
    found = 0
    for part in segmentation:
        found = zlib.crc32(np.array([len(part), *part], np.float64).tobytes(), found)
    return found


def measure(segmentation: Any, size: tuple[int, int]) -> tuple[list[float], int]:
    """Return box and area of a segmentation of COCO, by pycocotools."""
    from pycocotools import mask as coco_mask

    if isinstance(segmentation, list):
        runs = coco_mask.merge(coco_mask.frPyObjects([part for part in segmentation if len(part) >= 6], *size))
    elif isinstance(segmentation["counts"], list):
        runs = coco_mask.frPyObjects(segmentation, *size)
    else:
        runs = segmentation
    return coco_mask.toBbox(runs).tolist(), int(coco_mask.area(runs))


def has_pixels(row: JsonRow, size: tuple[int, int]) -> bool:
    """Return whether the segmentation of an entry can be read, and has a pixel."""
    if not has_segmentation(row):
        return False
    try:
        if isinstance(row["segmentation"], dict):
            return measure(row["segmentation"], size)[1] > 0
        return bool(decode_segmentation(row["segmentation"], size).any())
    except ValueError:
        return False


def fills_box(segmentation: Any, box: Sequence[float] | None, size: tuple[int, int]) -> bool:
    """Return whether a segmentation is a whole box in an image of (H, W), to the pixel on each side."""
    if not segmentation:
        return False
    (x, y, width, height), area = measure(segmentation, size)
    if box is None:
        return area == 0
    low = [min(max(edge, 0), side) for edge, side in zip(box[:2], size[::-1], strict=True)]
    high = [min(max(box[i] + box[i + 2], 0), side) for i, side in enumerate(size[::-1])]
    if not area:
        return any(two - one < 1 for one, two in zip(low, high, strict=True))
    edges = zip((x, y, x + width, y + height), (*low, *high), strict=True)
    return area == width * height and all(abs(one - other) <= 1 for one, other in edges)


def _lengths(counts: bytes) -> NDArray[np.int64]:
    """Return compressed run lengths as numbers: characters of five bits; from the fourth on, differences."""
    values = np.frombuffer(counts, np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(values & _MORE == 0)
    starts = np.append(0, ends[:-1] + 1)
    digits = ends - starts + 1
    places = np.arange(len(values)) - np.repeat(starts, digits)
    found: NDArray[np.int64] = np.add.reduceat((values & _DIGIT) << _BITS * places, starts)
    found -= (values[ends] & _SIGN > 0).astype(np.int64) << _BITS * digits
    for first in (1, 2):
        found[first::2] = found[first::2].cumsum()
    return found


def _sum_of(edges: NDArray[np.int64]) -> int:
    """Return the checksum of the edges of runs; a run that ends where the next one begins goes on."""
    is_same = edges[1:] == edges[:-1]
    if is_same.any():
        edges = edges[~(np.append(is_same, False) | np.append(False, is_same))]
    return zlib.crc32(edges.astype(np.int64).tobytes()) or 1
