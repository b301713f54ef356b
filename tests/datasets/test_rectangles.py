"""The least rectangle around a mask, compared with a search over angles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from on_disk import Mask, rectangle
from segpaste.datasets.formats.yolo.outlines import least_rectangle

masks = arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 11))).filter(np.any)


def corners_of(mask: Mask) -> np.ndarray:
    return np.array([(x + dx, y + dy) for y, x in np.argwhere(mask) for dx in (0, 1) for dy in (0, 1)], float)


def area_of(corners: np.ndarray) -> float:
    sides = np.linalg.norm(corners[1] - corners[0]), np.linalg.norm(corners[2] - corners[1])
    return float(sides[0] * sides[1])


@given(mask=masks)
def test_it_is_a_rectangle_in_the_photo_around_all_pixels(mask: Mask) -> None:
    found = least_rectangle(mask)
    first, second = found[1] - found[0], found[2] - found[1]
    assert abs(first @ second) < 1e-6
    np.testing.assert_allclose(found[0] + found[2], found[1] + found[3], atol=1e-6)
    for direction, start, length in ((first, found[0], first @ first), (second, found[1], second @ second)):
        along = (corners_of(mask) - start) @ direction
        assert along.min() > -1e-6
        assert along.max() < length + 1e-6
    assert found.min() >= 0
    assert (found <= mask.shape[::-1]).all()


@given(mask=masks)
def test_no_angle_gives_a_lesser_one(mask: Mask) -> None:
    """The photo has a wide margin, so that the rectangle of every angle lies inside it."""
    mask = np.pad(mask, 20)
    points, least = corners_of(mask), np.inf
    for angle in np.linspace(0, np.pi / 2, 91):
        turned = points @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        least = min(least, float(np.prod(np.ptp(turned, 0))))
    assert area_of(least_rectangle(mask)) <= least + 1e-6


def test_a_turned_square() -> None:
    y, x = np.mgrid[:41, :41]
    mask = abs(x - 20) + abs(y - 20) <= 12
    assert area_of(least_rectangle(mask)) < 0.65 * 25 * 25


@pytest.mark.parametrize("mask", [rectangle((7, 5), 0, 0, 7, 5), rectangle((7, 5), 3, 2, 4, 3)])
def test_upright_ones(mask: Mask) -> None:
    ys, xs = np.nonzero(mask)
    found = least_rectangle(mask)
    assert found.min(0).tolist() == [xs.min(), ys.min()]
    assert found.max(0).tolist() == [xs.max() + 1, ys.max() + 1]
    assert area_of(found) == mask.sum()


def test_one_that_would_reach_beyond_the_photo_is_upright() -> None:
    mask = np.tri(9, dtype=bool)[:, ::-1]
    found = least_rectangle(mask)
    assert sorted(found.tolist()) == [[0, 0], [0, 9], [9, 0], [9, 9]]
