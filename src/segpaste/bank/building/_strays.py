"""Removal of strays: small parts of a mask far from the object, a few wrong pixels that would make its crop tiny.

Pixels that touch, also diagonally, belong to one part. A part is a stray if it has less than a given fraction of the
pixels of the mask and its box does not meet the box of the larger parts. So objects that fences, spokes or leaves cut
into pieces stay as they are, and a mask with only small parts has no strays.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from segpaste.bank.building.cropping import PixelBox, box_of
from segpaste.datasets.mask_parts import parts_of, runs_of


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
    rows, starts, ends = runs = runs_of(inner.numpy())
    if len(rows) == bottom - top and (starts[1:] <= ends[:-1]).all() and (ends[1:] >= starts[:-1]).all():
        return mask  # one run in each row, which touches that of the row above
    parts = parts_of(runs, right - left)
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
