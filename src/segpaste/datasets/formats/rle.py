"""COCO's segmentations and masks: polygons, compressed and uncompressed run lengths.

Run lengths go down the columns, background first. Their compressed form is text. Characters 48..111 hold 5 bits of a
number and a continuation bit; from the fourth number on, each is the difference to the number two before (pycocotools'
``maskApi.c``). The text is not decoded by pycocotools, because it reads past the end of truncated text. Polygons are
rasterised by pycocotools, so masks equal those of COCO's evaluation.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_COORDINATE_PX = 1e6
_MAX_CHARACTERS = 6
_MAX_PIXELS = 1 << 32  # pycocotools counts pixels in 32 bits


def decode_segmentation(segmentation: object, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Decode the mask of an annotation.

    Args:
        segmentation: a list of polygons [x1, y1, x2, y2, ...], which are united, or ``{"size": [H, W], "counts": text
            or list of run lengths}``. A polygon of fewer than three points encloses nothing.
        size: (H, W) of the image.

    Returns:
        [H, W] bool.

    Raises:
        ValueError: it is neither of these; the message does not name the file.
    """
    runs = decode_runs(segmentation, size)
    height, width = size
    inside = np.arange(runs.size) % 2 == 1
    return np.repeat(inside, runs).reshape(width, height).T


def decode_runs(segmentation: object, size: tuple[int, int]) -> NDArray[np.int64]:
    """Decode the run lengths of an annotation; arguments and errors as for `decode_segmentation`."""
    counts = coded_runs(segmentation, size)
    runs = run_lengths(counts.decode()) if isinstance(counts, bytes) else counts
    expect_filled(runs, size)
    return runs


def encode_mask(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a mask [H, W] as compressed run lengths, ``{"size": [H, W], "counts": text}``."""
    from pycocotools import mask as coco_mask

    height, width = mask.shape
    columns = np.flatnonzero(mask.any(0))
    first, end = (int(columns[0]), int(columns[-1]) + 1) if columns.size else (0, 0)
    inside = np.zeros((end - first) * height + 2, bool)  # of the mask's columns, between two pixels of background
    inside[1:-1].reshape(end - first, height)[...] = mask[:, first:end].T
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + first * height
    runs = np.diff(edges, prepend=0, append=mask.size)
    runs = runs[:-1] if runs.size > 1 and not runs[-1] else runs
    plain = {"size": [height, width], "counts": runs.tolist()}
    return {"size": [height, width], "counts": coco_mask.frPyObjects(plain, height, width)["counts"].decode()}


def expect_filled(runs: NDArray[np.int64], size: tuple[int, int]) -> None:
    """Raise `ValueError` unless the run lengths fill an image of (H, W)."""
    height, width = size
    if (runs < 0).any() or (runs > height * width).any() or runs.sum() != height * width:
        total = sum(runs.tolist())
        raise ValueError(f"expected run lengths that fill {height} x {width} pixels, got a sum of {total}")


def expect_segmentation(segmentation: object, size: tuple[int, int]) -> None:
    """Raise `ValueError` for what `decode_segmentation` refuses; polygons are not filled."""
    if isinstance(segmentation, list):
        for polygon in segmentation:
            _checked_polygon(polygon)
        return
    decode_runs(segmentation, size)


def coded_runs(segmentation: object, size: tuple[int, int]) -> bytes | NDArray[np.int64]:
    """Return the run lengths of an annotation for the native library; arguments as for `decode_segmentation`.

    Returns:
        Compressed text, or numbers; they may be broken, or not fill the image.

    Raises:
        ValueError: it is not a segmentation, its size is not the image's, or the image has 2^32 pixels or more.
    """
    if size[0] * size[1] >= _MAX_PIXELS:
        raise ValueError(f"expected an image of fewer than {_MAX_PIXELS:,} pixels, got {size[0]} x {size[1]}")
    if isinstance(segmentation, list):
        return _polygon_runs(segmentation, size)
    if not isinstance(segmentation, Mapping):
        raise ValueError(
            "expected a segmentation, a list of polygons or an object with 'size' and 'counts', got "
            f"{'none' if segmentation is None else type(segmentation).__name__}; a box does not give a mask"
        )
    if segmentation.get("size") != list(size):
        raise ValueError(f"expected the image's 'size' {list(size)}, got {segmentation.get('size')!r:.40}")
    counts = segmentation.get("counts")
    if isinstance(counts, str):
        return counts.encode()
    if isinstance(counts, list) and set(map(type, counts)) <= {int}:
        too_long = size[0] * size[1] + 1  # a wrong length may exceed int64, and must stay wrong
        try:
            return np.array(counts, np.int64).clip(-1, too_long)
        except OverflowError:
            return np.array([max(-1, min(count, too_long)) for count in counts], np.int64)
    raise ValueError(f"expected 'counts' as text or as a list of integers, got {counts!r:.40}")


def run_lengths(text: str) -> NDArray[np.int64]:
    """Decode the run lengths of compressed text.

    Raises:
        ValueError: the text is truncated or has other characters.
    """
    codes = np.frombuffer(text.encode(), np.uint8).astype(np.int64) - 48
    if not codes.size:
        return codes
    if codes.min() < 0 or codes.max() > 63 or codes[-1] & 32:
        raise ValueError("expected compressed run lengths, got truncated text or invalid characters")
    ends = np.flatnonzero(codes & 32 == 0)
    lengths = np.diff(ends, prepend=-1)
    if lengths.max() > _MAX_CHARACTERS:
        raise ValueError(f"expected compressed run lengths, got a number of {lengths.max()} characters")
    starts = ends - lengths + 1
    place = np.arange(codes.size) - np.repeat(starts, lengths)
    values = np.add.reduceat((codes & 31) << 5 * place, starts)
    values -= np.where(codes[ends] & 16, 1 << 5 * lengths, 0)
    values[1::2] = values[1::2].cumsum()
    values[2::2] = values[2::2].cumsum()
    return values


def _polygon_runs(polygons: Sequence[object], size: tuple[int, int]) -> bytes | NDArray[np.int64]:
    """Return the union of polygons as compressed run lengths; one run of background if they enclose nothing."""
    from pycocotools import mask as coco_mask

    areas = [polygon for polygon in map(_checked_polygon, polygons) if len(polygon) >= 6]
    if not areas:
        return np.array([size[0] * size[1]], np.int64)
    runs = coco_mask.frPyObjects(areas, *size)
    text: bytes = (runs[0] if len(runs) == 1 else coco_mask.merge(runs))["counts"]
    return text


def _are_near(values: list[Any]) -> bool:
    """Return whether values are numbers that the rasteriser takes; all at once, since outlines have many points."""
    try:
        return not values or bool(np.abs(np.frombuffer(array("d", values))).max() <= _MAX_COORDINATE_PX)
    except (TypeError, OverflowError):
        return False


def _checked_polygon(polygon: object) -> list[float]:
    """Return a checked list of coordinate pairs; infinite or distant ones would crash the rasteriser."""
    if not isinstance(polygon, list) or len(polygon) % 2:
        raise ValueError(f"expected each polygon as a list [x1, y1, x2, y2, ...], got {polygon!r:.40}")
    if _are_near(polygon):
        return polygon
    for value in polygon:
        if not isinstance(value, int | float) or not abs(value) <= _MAX_COORDINATE_PX:
            raise ValueError(f"expected polygon coordinates in pixels, got {value!r:.40}")
    return polygon
