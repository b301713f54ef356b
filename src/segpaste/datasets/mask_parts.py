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


def column_runs(lengths: Ints, height: int) -> MaskRuns:
    """Return the runs of a mask down its columns, from run lengths; ``rows`` are columns then.

    Args:
        lengths: run lengths down the columns, background first, see `segpaste.datasets.formats.rle`.
        height: height of the mask.
    """
    edges = np.cumsum(lengths)
    ends = edges[1::2]
    starts = edges[::2][: ends.size]
    if not lengths[1:].all():  # runs without a pixel, and runs that touch
        starts, ends = starts[starts < ends], ends[starts < ends]
        is_first = np.ones(starts.size, bool)
        is_first[1:] = starts[1:] != ends[:-1]
        starts, ends = starts[is_first], ends[np.roll(is_first, -1)]
    first, last = starts // height, (ends - 1) // height
    num = last - first + 1  # columns that a run goes through
    columns = np.repeat(first, num) + np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)
    tops = columns * height
    return MaskRuns(
        columns, np.maximum(np.repeat(starts, num), tops) - tops, np.minimum(np.repeat(ends, num), tops + height) - tops
    )


def touching(runs: MaskRuns, width: int, *, diagonal: bool = True) -> tuple[Ints, Ints]:
    """Return the pairs of runs of neighbouring rows that touch; arguments as for `parts_of`."""
    rows, starts, ends = runs
    stride = width + 2  # so that runs of two rows are never neighbours on the line
    below = (rows + 1) * stride
    at_start, at_end = ("left", "right") if diagonal else ("right", "left")
    first = np.searchsorted(rows * stride + ends, below + starts, at_start)  # type: ignore[call-overload]
    last = np.searchsorted(rows * stride + starts, below + ends, at_end)  # type: ignore[call-overload]
    num = np.maximum(last - first, 0)
    one = np.repeat(np.arange(len(rows)), num)
    return one, np.arange(num.sum()) + np.repeat(first - (np.cumsum(num) - num), num)


def parts_of(runs: MaskRuns, width: int, *, diagonal: bool = True) -> Ints:
    """Return the part of each run, from 0, in the order of their first runs.

    Args:
        runs: runs of a mask.
        width: width of the mask, or more.
        diagonal: True if pixels that touch at a corner belong to one part.
    """
    parts: Ints = np.unique(_joined(len(runs.rows), *touching(runs, width, diagonal=diagonal)), return_inverse=True)[1]
    return parts


def num_parts_and_holes(runs: MaskRuns, width: int) -> tuple[int, int]:
    """Return the number of parts of a mask, and of its holes, from its runs.

    The runs that touch are a graph with a cycle around each hole, so parts - holes = runs - pairs (Euler).

    Args:
        runs: runs of a mask.
        width: width of the mask, or more.
    """
    one, other = touching(runs, width)
    without_holes = len(runs.rows) - len(one)
    if np.all(runs.rows[1:] != runs.rows[:-1]):  # one run in each row, so nothing is between two
        return without_holes, 0
    label = _joined(len(runs.rows), one, other)
    num_parts = int(np.count_nonzero(label == np.arange(len(label))))
    return num_parts, num_parts - without_holes


def _joined(num: int, one: Ints, other: Ints) -> Ints:
    """Return the lowest number of those that pairs join, directly or through others, for each number below ``num``."""
    label = np.arange(num)
    while True:  # each run takes the lowest label among its neighbours', then the label of that label
        lower = label.copy()
        least = np.minimum(label[one], label[other])
        np.minimum.at(lower, label[one], least)
        np.minimum.at(lower, label[other], least)
        lower = lower[lower]
        if (lower == label).all():
            return label
        label = lower
