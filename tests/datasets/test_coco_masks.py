"""Segmentations of COCO decoded: polygons and run lengths, compressed or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coco_files import compressed, unroll
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from on_disk import rectangle, runs
from segpaste.datasets.formats.rle import decode_segmentation, encode_mask, run_lengths

SIZE = (17, 11)
masks = st.tuples(st.integers(1, 23), st.integers(1, 23)).flatmap(lambda size: arrays(np.bool_, size))


class TestDecodeSegmentation:
    @given(masks)
    def test_run_lengths_in_both_forms(self, mask: Any) -> None:
        for segmentation in (runs(mask), compressed(mask)):
            np.testing.assert_array_equal(decode_segmentation(segmentation, mask.shape), mask)
        assert run_lengths(compressed(mask)["counts"]).tolist() == runs(mask)["counts"]
        np.testing.assert_array_equal(unroll(runs(mask)["counts"], mask.shape), mask)

    @given(masks)
    def test_masks_are_encoded_as_by_pycocotools(self, mask: Any) -> None:
        assert encode_mask(mask) == compressed(mask)

    def test_long_runs_take_several_characters(self) -> None:
        mask = np.zeros((701, 499), bool)
        mask[3:690, 7:9], mask[650, 400], mask[:, 450:] = True, True, True
        assert max(runs(mask)["counts"]) > 2**15
        np.testing.assert_array_equal(decode_segmentation(compressed(mask), mask.shape), mask)

    @given(masks.filter(lambda mask: mask.size > 1), st.data())
    def test_text_that_breaks_off_is_refused(self, mask: Any, data: st.DataObject) -> None:
        whole = compressed(mask)
        end = data.draw(st.integers(0, len(whole["counts"]) - 1))
        with pytest.raises(ValueError, match="expected"):
            decode_segmentation({**whole, "counts": whole["counts"][:end]}, mask.shape)

    @pytest.mark.parametrize(
        "segmentation",
        [
            None,
            "eme31V",
            7,
            {},
            {"size": [17, 11]},
            {"size": [11, 17], "counts": [187]},
            {"size": [17, 11], "counts": [186]},
            {"size": [17, 11], "counts": [188]},
            {"size": [17, 11], "counts": [190, -3]},
            {"size": [17, 11], "counts": [187.0]},
            {"size": [17, 11], "counts": [True] * 187},
            {"size": [17, 11], "counts": [2**62, 2**62, 2**62, 2**62 + 187]},
            {"size": [17, 11], "counts": [2**70]},
            {"size": [17, 11], "counts": [-(2**70), 2**70 + 187]},
            {"size": [17, 11], "counts": "\u00e9"},
            {"size": [17, 11], "counts": "a b"},
            {"size": [17, 11], "counts": "oooooooooooo0"},
            {"size": [17, 11], "counts": None},
            [1.0, 1.0, 5.0, 1.0, 5.0, 5.0],
            [[1.0, 1.0, 5.0, 1.0, 5.0, 5.0, 3.0]],
            [[1.0, 1.0, 5.0, 1.0, 5.0, float("nan")]],
            [[1.0, 1.0, 5.0, 1.0, 5.0, float("inf")]],
            [[1.0, 1.0, 5.0, 1.0, 5.0, 1e300]],
            [[1.0, 1.0, 5.0, 1.0, 5.0, "5"]],
            [{"x": 1}],
        ],
        ids=str,
    )
    def test_what_cannot_be_decoded_is_refused(self, segmentation: Any) -> None:
        with pytest.raises(ValueError, match="expected"):
            decode_segmentation(segmentation, SIZE)

    def test_a_number_that_does_not_end_is_refused(self) -> None:
        assert run_lengths("ooooo0").tolist() == [2**25 - 1]
        with pytest.raises(ValueError, match="a number of 13 characters"):
            run_lengths("oooooooooooo0")

    def test_polygons_of_several_parts_are_united(self) -> None:
        parts = [[1, 1, 6, 1, 6, 8, 1, 8], [4, 5, 9.5, 5, 9.5, 15, 4, 15], [2, 12, 3, 16, 1, 16]]
        whole = decode_segmentation(parts, SIZE)
        each = [decode_segmentation([part], SIZE) for part in parts]
        np.testing.assert_array_equal(whole, np.any(each, axis=0))
        np.testing.assert_array_equal(each[0], rectangle(SIZE, 1, 1, 8, 6))
        assert whole.sum() < sum(part.sum() for part in each)  # they do overlap

    @pytest.mark.parametrize("part", [[], [1, 1], [2, 3, 5, 5]])
    def test_a_polygon_of_fewer_than_three_points_encloses_nothing(self, part: list[int]) -> None:
        # pycocotools takes four numbers for a box
        assert not decode_segmentation([part], SIZE).any()
        good = [1, 1, 6, 1, 6, 8, 1, 8]
        np.testing.assert_array_equal(decode_segmentation([part, good], SIZE), decode_segmentation([good], SIZE))

    def test_a_polygon_over_the_edge_is_clipped(self) -> None:
        mask = decode_segmentation([[-50, -9, 4, -9, 4, 900, -50, 900]], SIZE)
        np.testing.assert_array_equal(mask, rectangle(SIZE, 0, 0, 17, 4))


def test_a_triangle_encloses_something() -> None:
    mask = decode_segmentation([[0, 0, 8, 0, 0, 8]], (10, 10))
    assert mask[1, 1]
    assert not mask[8, 8]
    assert 20 < mask.sum() < 45


@pytest.mark.parametrize("text", ["p", "0p", "/0", "0 0"])
def test_foreign_characters_in_run_lengths(text: str) -> None:
    with pytest.raises(ValueError, match="invalid characters"):
        run_lengths(text)
