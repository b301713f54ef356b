"""Codes compared bit by bit in loops, and evidence counted pair by pair."""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segpaste.encoder.codes import (
    AttributeEvidence,
    attribute_shares,
    hamming,
    near_duplicate_codes,
    nearest,
    pack,
    unpack,
)


@st.composite
def labelled_codes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    num, num_attributes = draw(st.integers(1, 12)), draw(st.sampled_from([1, 3, 8, 9, 17]))
    likely = rng.random(num_attributes)
    return rng.random((num, num_attributes)) < likely, rng.integers(0, 4, num)


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
        with pytest.raises(ValueError, match=f"expected codes of as many bytes, got {mine} and {theirs}"):
            hamming(one, other)
        with pytest.raises(ValueError, match="expected codes of as many bytes"):
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


class TestEvidence:
    @given(labelled_codes())
    def test_counted_pair_by_pair(self, drawn: tuple[np.ndarray, np.ndarray]) -> None:
        codes, labels = drawn
        classes = sorted(set(labels.tolist()))
        members = {c: codes[labels == c] for c in classes}
        if len(classes) < 2 or all(len(rows) < 2 for rows in members.values()):
            with pytest.raises(ValueError, match="at least two classes"):
                AttributeEvidence.of(codes, labels)
            return
        evidence = AttributeEvidence.of(codes, labels)
        for k in range(codes.shape[1]):
            mean = np.mean([rows[:, k].mean() for rows in members.values()])
            assert np.isclose(evidence.shares[k], mean)
            for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                same = np.mean([share_of(list(combinations(r[:, k], 2)), a, b) for r in members.values() if len(r) > 1])
                pairs = [(members[c][:, k], members[d][:, k]) for c, d in combinations(classes, 2)]
                other = np.mean([share_of([(x, y) for x in one for y in two], a, b) for one, two in pairs])
                free = (mean if a else 1 - mean) * (mean if b else 1 - mean)
                num, paired = len(classes), sum(len(rows) > 1 for rows in members.values())
                drawn_same, drawn_other = (paired * same + free) / (paired + 1), (num * other + free) / (num + 1)
                expected = log(drawn_same / drawn_other) if 0 < mean < 1 else 0.0
                assert np.isclose(evidence.log_ratios[k, a, b], expected), (k, a, b)

    def test_scores_add_up(self) -> None:
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(6), 5)
        codes = rng.random((30, 12)) < np.repeat(rng.random((6, 12)), 5, 0)
        evidence = AttributeEvidence.of(codes, labels)
        scores = evidence.scores(codes[:7], codes)
        assert scores.shape == (7, 30)
        for i in range(7):
            for j in range(30):
                parts = evidence.explain(codes[i], codes[j])
                assert np.isclose(scores[i, j], parts.sum())
        same = labels[:7, None] == labels
        off = ~np.eye(7, 30, dtype=bool)
        assert scores[same & off].mean() > 0.5 > -0.5 > scores[~same].mean()

    def test_a_rare_attribute_says_more(self) -> None:
        """Two classes of ten share one attribute, nine the other; all samples of a class have it or none has."""
        labels = np.repeat(np.arange(10), 4)
        codes = np.stack([labels < 1, labels < 9], 1)
        ratios = AttributeEvidence.of(codes, labels).log_ratios
        assert ratios[0, 1, 1] > 5 * ratios[1, 1, 1] > 0
        assert (ratios[:, 0, 1] < -1).all()


def share_of(pairs: list[tuple[bool, bool]], a: int, b: int) -> float:
    """Of unordered pairs the share that is (a, b) where the order of the two is drawn."""
    return sum(((x, y) == (a, b)) + ((y, x) == (a, b)) for x, y in pairs) / (2 * len(pairs))
