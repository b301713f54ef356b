"""Parts and holes of masks equal those of SciPy's labelling."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from segpaste.datasets.mask_parts import column_runs, num_parts_and_holes, parts_of, runs_of

SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (5, 7), (17, 11), (33, 64)]
DENSITIES = [0.0, 0.1, 0.4, 0.6, 0.9, 1.0]
CROSS, SQUARE = ndimage.generate_binary_structure(2, 1), np.ones((3, 3), bool)


def _masks(size: tuple[int, int], density: float) -> list[NDArray[np.bool_]]:
    rng = np.random.default_rng(size[0] * 100 + size[1])
    return [rng.random(size) < density for _ in range(20)]


def counts(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the number of parts and of holes."""
    return num_parts_and_holes(runs_of(mask), mask.shape[1])


def _lengths(mask: NDArray[np.bool_]) -> list[int]:
    """Return run lengths down the columns, background first, pixel by pixel."""
    lengths, is_inside = [0], False
    for pixel in mask.T.reshape(-1).tolist():
        if pixel != is_inside:
            lengths.append(0)
            is_inside = pixel
        lengths[-1] += 1
    return lengths


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_parts_are_those_of_scipy(size: tuple[int, int], density: float, diagonal: bool) -> None:
    for mask in _masks(size, density):
        labels, num = ndimage.label(mask, SQUARE if diagonal else CROSS)
        runs = runs_of(mask)
        parts = parts_of(runs, mask.shape[1], diagonal=diagonal)
        of_scipy = labels[runs.rows, runs.starts] - 1  # SciPy numbers parts by their first pixels, too
        assert parts.tolist() == of_scipy.tolist()
        assert not diagonal or counts(mask)[0] == num


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_holes_are_the_enclosed_background_of_scipy(size: tuple[int, int], density: float) -> None:
    for mask in _masks(size, density):
        _, num = ndimage.label(np.pad(~mask, 1, constant_values=True), CROSS)
        assert counts(mask)[1] == counts(mask.T)[1] == num - 1


def test_runs_cover_the_mask() -> None:
    for mask in _masks((17, 11), 0.5):
        painted = np.zeros_like(mask)
        for row, start, end in zip(*runs_of(mask), strict=True):
            assert not painted[row, start:end].any()
            painted[row, start:end] = True
        assert (painted == mask).all()


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_runs_down_the_columns_are_those_of_the_transposed_mask(size: tuple[int, int], density: float) -> None:
    """Also if run lengths of zero divide the runs."""
    for mask in _masks(size, density):
        lengths = _lengths(mask)
        divided = [part for length in lengths for part in ((1, 0, length - 1) if length > 1 else (length,))]
        for told in (lengths, divided):
            found = column_runs(np.array(told, np.int64), size[0])
            assert [of.tolist() for of in found] == [of.tolist() for of in runs_of(mask.T)]


def test_shapes_by_hand() -> None:
    ring = np.ones((5, 5), bool)
    ring[2, 2] = False
    assert counts(ring) == (1, 1)
    ring[1, 1] = False  # touches the hole at a corner only, and is a hole of its own
    assert counts(ring) == (1, 2)
    corners = np.eye(3, dtype=bool)
    assert counts(corners) == (1, 0)
    spiral = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]], bool)
    assert counts(spiral) == (1, 0)
    stairs = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]], bool)
    assert counts(stairs) == (2, 0)
