"""Parts and holes of a mask, from the runs of pixels within its rows.

Pixels that touch, also diagonally, belong to one part. A hole is background that the mask encloses; background that
touches only diagonally is separate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class MaskRuns(NamedTuple):
    """Runs of pixels within the rows of a mask, in reading order.

    Attributes:
        rows: row of each run.
        starts: first column of each run.
        ends: column after the last one of each run.
    """

    rows: Ints
    starts: Ints
    ends: Ints


def runs_of(mask: NDArray[np.bool_]) -> MaskRuns:
    """Return the runs of a mask [H, W]."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), bool)  # so that a run ends in its row
    padded[:, 1:-1] = mask
    flat = padded.reshape(-1)
    edges = np.flatnonzero(flat[1:] != flat[:-1])  # a run begins and ends, in turn
    rows, starts = np.divmod(edges[::2], width + 2)
    return MaskRuns(rows, starts, edges[1::2] % (width + 2))


def parts_of(runs: MaskRuns, width: int, *, diagonal: bool = True) -> Ints:
    """Return the part of each run, from 0, in the order of their first runs.

    Args:
        runs: runs of a mask.
        width: width of the mask, or more.
        diagonal: True if pixels that touch at a corner belong to one part.
    """
    rows, starts, ends = runs
    stride = width + 2  # so that runs of two rows are never neighbours on the line
    below = (rows + 1) * stride
    at_start, at_end = ("left", "right") if diagonal else ("right", "left")
    first = np.searchsorted(rows * stride + ends, below + starts, at_start)  # type: ignore[call-overload]
    last = np.searchsorted(rows * stride + starts, below + ends, at_end)  # type: ignore[call-overload]
    num = np.maximum(last - first, 0)
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


def num_parts(mask: NDArray[np.bool_]) -> int:
    """Return the number of parts of a mask [H, W]."""
    return int(parts_of(runs_of(mask), mask.shape[1]).max(initial=-1)) + 1


def num_holes(mask: NDArray[np.bool_]) -> int:
    """Return the number of holes of a mask [H, W]."""
    background = np.pad(~mask, 1, constant_values=True)
    return int(parts_of(runs_of(background), background.shape[1], diagonal=False).max())
