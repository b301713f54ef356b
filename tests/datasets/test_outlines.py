"""Outlines of masks: drawn again they are the mask, whatever parts and holes it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from on_disk import Mask
from segpaste.datasets.formats.rle import decode_segmentation
from segpaste.datasets.formats.yolo import outlines
from segpaste.datasets.formats.yolo.labels import LabelFormat, label_text, parse_labels, polygon_px
from segpaste.datasets.formats.yolo.outlines import outline


def drawn(points: np.ndarray, size: tuple[int, int]) -> Mask:
    """The pixels whose centre lies inside, by the even-odd rule: a ray to the right crosses the line an odd number."""
    mask = np.zeros(size, bool)
    ends = np.roll(points, -1, 0)
    for row in range(size[0]):
        for col in range(size[1]):
            x, y = col + 0.5, row + 0.5 + 1e-7  # no corner has such a y
            crossings = 0
            for (x1, y1), (x2, y2) in zip(points, ends, strict=True):
                crossings += (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1)
            mask[row, col] = crossings % 2
    return mask


def through_a_file(mask: Mask) -> Mask:
    """The mask after a way through the text of a label file."""
    height, width = mask.shape
    text = label_text(0, (outline(mask) / (width, height)).ravel().tolist())
    ((row,), _) = parse_labels(Path("labels.txt"), text, LabelFormat(1))
    return decode_segmentation([polygon_px(row["values"], mask.shape)], mask.shape)


class TestLabelText:
    @given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([-0.0, -4e-7, 0.1, 1.0, 10.0, 1e5, float("nan")])))
    def test_numbers_have_six_decimals_without_trailing_zeros(self, values: list[float]) -> None:
        text = label_text(7, values)
        label, *words = text.removesuffix("\n").split(" ")
        assert text.endswith("\n")
        assert label == "7"
        for word, value in zip(words, values, strict=True):
            assert float(word) == (0 if value != value else float(f"{value:.6f}"))
            assert word == "0" or not ("." in word and word.endswith("0"))
            assert word not in ("-0", "nan")
            assert not word.endswith(".")


@st.composite
def masks(draw: st.DrawFn) -> Mask:
    size = draw(st.integers(1, 13)), draw(st.integers(1, 17))
    bits = draw(st.lists(st.booleans(), min_size=size[0] * size[1], max_size=size[0] * size[1]))
    return np.array(bits, bool).reshape(size)


class TestOutline:
    @given(masks())
    def test_pixel_centres_are_inside_where_the_mask_is(self, mask: Mask) -> None:
        np.testing.assert_array_equal(drawn(outline(mask), mask.shape), mask)

    @given(masks())
    def test_a_label_file_gives_the_mask_back(self, mask: Mask) -> None:
        if mask.any():
            np.testing.assert_array_equal(through_a_file(mask), mask)

    @pytest.mark.parametrize("size", [(1, 1), (480, 640), (1080, 1920), (7, 6001)])
    def test_blobs_with_holes_at_the_size_of_photos(self, size: tuple[int, int]) -> None:
        rng = np.random.default_rng(3)
        rows, cols = np.mgrid[: size[0], : size[1]]
        mask = np.zeros(size, bool)
        for i in range(9):
            y, x, radius = rng.integers(size[0]), rng.integers(size[1]), rng.integers(1, max(2, min(size) // 3))
            inside = (rows - y) ** 2 + (cols - x) ** 2 <= radius**2
            mask = mask | inside if i % 3 else mask & ~inside
        mask[0, 0] = True
        np.testing.assert_array_equal(through_a_file(mask), mask)

    def test_an_empty_mask_has_no_points(self) -> None:
        assert outline(np.zeros((3, 4), bool)).shape == (0, 2)

    def test_straight_and_slanting_edges_have_two_points(self) -> None:
        mask = np.zeros((40, 50), bool)
        mask[5:20, 10:40] = True
        assert len(outline(mask)) == 8  # a short slanting edge at each corner
        assert len(outline(np.tri(30, 30, dtype=bool))) <= 8

    def test_points_lie_in_the_pixels_of_the_mask(self) -> None:
        """Cut to whole numbers they are pixels of the mask: what draws the outline too adds nothing."""
        mask = np.random.default_rng(0).random((20, 30)) < 0.5
        x, y = np.floor(outline(mask)).astype(int).T
        assert mask[y, x].all()

    def test_many_parts_are_joined_without_a_search(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mask = np.random.default_rng(1).random((15, 19)) < 0.4
        monkeypatch.setattr(outlines, "_MANY_POINTS", 10)
        monkeypatch.setattr(outlines, "_nearest", None)
        np.testing.assert_array_equal(through_a_file(mask), mask)

    def test_nearest_points_are_found_in_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(2)
        one, other = rng.integers(0, 99, (31, 2)), rng.integers(0, 99, (17, 2))
        whole = outlines._nearest(one, other)
        monkeypatch.setattr(outlines, "_BLOCK_SIZE", 40)
        assert outlines._nearest(one, other) == whole
        i, j, squared = whole
        assert squared == min(((p - q) ** 2).sum() for p in one for q in other) == ((one[i] - other[j]) ** 2).sum()

    def test_pixels_that_touch_at_a_corner_are_one_part(self) -> None:
        assert len(outlines._loops(np.eye(5, dtype=bool))) == 1
        assert len(outlines._loops(~np.eye(5, dtype=bool))) == 4  # around all, and around each of three holes

    @pytest.mark.parametrize("seed", range(5))
    def test_bridges_are_as_short_as_can_be(self, seed: int) -> None:
        """Together as long as a minimum spanning tree of the loops, made edge by edge (Kruskal)."""
        loops = outlines._loops(np.random.default_rng(seed).random((17, 23)) < 0.2)
        points = np.concatenate(loops)
        edges = sorted(
            (min(((p - q) ** 2).sum() for p in one for q in other), i, j)
            for i, one in enumerate(loops)
            for j, other in enumerate(loops[:i])
        )
        group = list(range(len(loops)))
        lengths = []
        for squared, i, j in edges:
            if group[i] != group[j]:
                lengths.append(squared)
                group = [group[j] if g == group[i] else g for g in group]
        bridges = outlines._bridges(loops)
        assert sorted(lengths) == sorted(((loops[i][own] - points[other]) ** 2).sum() for i, own, other in bridges)
        assert len(lengths) == len(loops) - 1 > 9

    def test_parts_are_joined_where_they_are_nearest(self) -> None:
        mask = np.zeros((9, 60), bool)
        mask[2:7, 2:20] = mask[2:7, 24:58] = True
        points = outline(mask)
        steps = np.hypot(*(np.roll(points, -1, 0) - points).T)
        is_bridge = (np.minimum(points[:, 0], np.roll(points[:, 0], -1)) < 20.5) & (
            np.maximum(points[:, 0], np.roll(points[:, 0], -1)) > 23.5
        )
        assert is_bridge.sum() == 2
        assert steps[is_bridge].max() < 5
