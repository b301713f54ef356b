"""Codes compared bit by bit in loops."""

from __future__ import annotations

import numpy as np
import pytest
from encoder_cases import labelled_codes
from hypothesis import given
from hypothesis import strategies as st

from segpaste.encoder.codes import (
    attribute_shares,
    hamming,
    near_duplicate_codes,
    nearest,
    pack,
    unpack,
)


def distance(one: np.ndarray, other: np.ndarray) -> int:
    return sum(bool(a) != bool(b) for a, b in zip(one, other, strict=True))


class TestPacked:
    @given(labelled_codes())
    def test_there_and_back(self, drawn: tuple[np.ndarray, np.ndarray]) -> None:
        codes, _ = drawn
        assert pack(codes).shape == (len(codes), -(-codes.shape[1] // 8))
        assert (unpack(pack(codes), codes.shape[1]) == codes).all()

    @given(labelled_codes(), st.integers(0, 12))
    def test_distances_and_neighbours(self, drawn: tuple[np.ndarray, np.ndarray], num: int) -> None:
        codes, _ = drawn
        queries, num = codes[: len(codes) // 2], min(num, len(codes))
        expected = [[distance(one, other) for other in codes] for one in queries]
        assert hamming(pack(queries), pack(codes)).tolist() == expected
        indices, distances = nearest(pack(queries), pack(codes), num)
        order = [sorted(range(len(codes)), key=row.__getitem__)[:num] for row in expected]
        assert indices.tolist() == order
        assert distances.tolist() == [[row[i] for i in found] for row, found in zip(expected, order, strict=True)]

    def test_more_than_there_are(self) -> None:
        with pytest.raises(ValueError, match="expected num from 0 to 3"):
            nearest(np.zeros((2, 1), np.uint8), np.zeros((3, 1), np.uint8), 4)

    @pytest.mark.parametrize(("mine", "theirs"), [(1, 2), (2, 1)])
    def test_codes_of_other_lengths(self, mine: int, theirs: int) -> None:
        one, other = np.zeros((2, mine), np.uint8), np.zeros((3, theirs), np.uint8)
        with pytest.raises(ValueError, match=f"expected codes of one length in bytes, got {mine} and {theirs}"):
            hamming(one, other)
        with pytest.raises(ValueError, match="expected codes of one length in bytes"):
            nearest(one, other, 1)

    def test_more_queries_than_are_compared_at_once(self) -> None:
        codes = np.random.default_rng(0).random((2500, 40)) < 0.5
        indices, distances = nearest(pack(codes), pack(codes), 1)
        assert (indices[:, 0] == np.arange(2500)).all()
        assert not distances.any()


class TestNearDuplicates:
    @given(labelled_codes(), st.integers(0, 5))
    def test_in_loops(self, drawn: tuple[np.ndarray, np.ndarray], most: int) -> None:
        codes, labels = drawn
        kept: list[int] = []
        for i in range(len(codes)):
            if all(labels[i] != labels[j] or distance(codes[i], codes[j]) > most for j in kept):
                kept.append(i)
        found = near_duplicate_codes(pack(codes), labels, most).tolist()
        assert found == [i for i in range(len(codes)) if i not in kept]

    def test_what_is_near_a_duplicate_only_is_kept(self) -> None:
        codes = pack(np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1]], bool))
        assert near_duplicate_codes(codes, np.zeros(3, np.int64), 1).tolist() == [1]

    def test_negative(self) -> None:
        with pytest.raises(ValueError, match="max_distance from 0, got -1"):
            near_duplicate_codes(np.zeros((2, 1), np.uint8), np.zeros(2, np.int64), -1)


def test_shares() -> None:
    codes = np.array([[1, 0], [1, 1], [0, 0], [1, 0]], bool)
    shares = attribute_shares(codes, np.array([0, 0, 2, 2]), 3)
    assert shares[[0, 2]].tolist() == [[1, 0.5], [0.5, 0]]
    assert np.isnan(shares[1]).all()
