"""Parts and holes of masks equal those of SciPy's labelling."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from segpaste.datasets.mask_parts import num_holes, num_parts, parts_of, runs_of

SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (5, 7), (17, 11), (33, 64)]
DENSITIES = [0.0, 0.1, 0.4, 0.6, 0.9, 1.0]
CROSS, SQUARE = ndimage.generate_binary_structure(2, 1), np.ones((3, 3), bool)


def _masks(size: tuple[int, int], density: float) -> list[NDArray[np.bool_]]:
    rng = np.random.default_rng(size[0] * 100 + size[1])
    return [rng.random(size) < density for _ in range(20)]


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
        assert not diagonal or num_parts(mask) == num


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_holes_are_the_enclosed_background_of_scipy(size: tuple[int, int], density: float) -> None:
    for mask in _masks(size, density):
        _, num = ndimage.label(np.pad(~mask, 1, constant_values=True), CROSS)
        assert num_holes(mask) == num - 1


def test_runs_cover_the_mask() -> None:
    for mask in _masks((17, 11), 0.5):
        painted = np.zeros_like(mask)
        for row, start, end in zip(*runs_of(mask), strict=True):
            assert not painted[row, start:end].any()
            painted[row, start:end] = True
        assert (painted == mask).all()


def test_shapes_by_hand() -> None:
    ring = np.ones((5, 5), bool)
    ring[2, 2] = False
    assert (num_parts(ring), num_holes(ring)) == (1, 1)
    ring[1, 1] = False  # touches the hole at a corner only, and is a hole of its own
    assert num_holes(ring) == 2
    corners = np.eye(3, dtype=bool)
    assert (num_parts(corners), num_holes(corners)) == (1, 0)
    spiral = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]], bool)
    assert (num_parts(spiral), num_holes(spiral)) == (1, 0)
