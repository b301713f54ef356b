"""Removal of strays: small parts of a mask far from the object, a few wrong pixels that would make its crop tiny.

Pixels that touch, also diagonally, belong to one part. A part is a stray if it has less than a given fraction of the
pixels of the mask and its box does not meet the box of the larger parts. So objects that fences, spokes or leaves cut
into pieces stay as they are, and a mask with only small parts has no strays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.bank.building.cropping import PixelBox, box_of

Ints = NDArray[np.int64]


def without_strays(mask: Tensor, min_part_frac: float, box: PixelBox | None = None) -> Tensor:
    """Remove the strays of a mask.

    Args:
        mask: [H, W] bool, not empty.
        min_part_frac: minimum fraction of the pixels of the mask for a part that is no stray; 0 removes none.
        box: its tight box, xyxy; by default it is measured.

    Returns:
        [H, W] bool; ``mask`` itself if nothing is removed.
    """
    left, top, right, bottom = box or box_of(mask)
    inner = mask[top:bottom, left:right]
    rows, starts, ends = _runs(inner.numpy())
    if len(rows) == bottom - top and (starts[1:] <= ends[:-1]).all() and (ends[1:] >= starts[:-1]).all():
        return mask  # one run in each row, which touches that of the row above
    parts = _parts(rows, starts, ends, right - left)
    areas = np.bincount(parts, ends - starts)
    is_large = areas >= min_part_frac * areas.sum()
    if is_large.all() or not is_large.any():
        return mask
    low = np.full((len(areas), 2), max(inner.shape))
    high = np.zeros((len(areas), 2), np.int64)
    np.minimum.at(low, parts, np.stack([starts, rows], 1))
    np.maximum.at(high, parts, np.stack([ends, rows + 1], 1))
    first, last = low[is_large].min(0), high[is_large].max(0)
    is_stray = ~is_large & ((low >= last) | (high <= first)).any(1)
    if not is_stray.any():
        return mask
    kept = mask.clone()
    for run in np.flatnonzero(is_stray[parts]).tolist():
        kept[top + rows[run], left + starts[run] : left + ends[run]] = False
    return kept


def _runs(mask: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Return row, first column and end of each run of pixels within a row, in reading order."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), bool)  # so that a run ends in its row
    padded[:, 1:-1] = mask
    flat = padded.reshape(-1)
    edges = np.flatnonzero(flat[1:] != flat[:-1])  # a run begins and ends, in turn
    rows, starts = np.divmod(edges[::2], width + 2)
    return rows, starts, edges[1::2] % (width + 2)


def _parts(rows: Ints, starts: Ints, ends: Ints, width: int) -> Ints:
    """Return the part of each run, from 0, in the order of their first runs."""
    stride = width + 2  # so that runs of two rows are never neighbours on the line
    below = (rows + 1) * stride
    first = np.searchsorted(rows * stride + ends, below + starts, "left")
    num = np.maximum(np.searchsorted(rows * stride + starts, below + ends, "right") - first, 0)
    one = np.repeat(np.arange(len(rows)), num)
    other = np.arange(num.sum()) + np.repeat(first - (np.cumsum(num) - num), num)
    label = np.arange(len(rows))
    while True:  # each run takes the lowest label among its neighbours', then the label of that label
        lower = label.copy()
        least = np.minimum(label[one], label[other])
        np.minimum.at(lower, label[one], least)
        np.minimum.at(lower, label[other], least)
        lower = lower[lower]
        if (lower == label).all():
            parts: Ints = np.unique(label, return_inverse=True)[1]
            return parts
        label = lower
