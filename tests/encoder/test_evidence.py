"""Evidence counted pair by pair, and its calibration."""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np
import pytest
from encoder_cases import labelled_codes
from hypothesis import given

from segpaste.encoder.calibration import cllr
from segpaste.encoder.evidence import AttributeEvidence, pairs_of


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

    def test_pairs_row_by_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        codes = rng.random((30, 12)) < 0.4
        evidence = AttributeEvidence.of(codes, np.repeat(np.arange(6), 5))
        one, other = rng.integers(0, 30, (2, 50))
        monkeypatch.setattr("segpaste.encoder.evidence._NUM_PAIRS", 7)
        assert np.allclose(evidence.pair_scores(codes[one], codes[other]), evidence.scores(codes, codes)[one, other])

    def test_sums_that_mislead_are_calibrated(self) -> None:
        """Each attribute ten times: the sums overstate the evidence, and mislead about other samples."""
        rng = np.random.default_rng(0)
        likely = rng.random((40, 12)) * 0.8 + 0.1

        def drawn(num: int) -> tuple[np.ndarray, np.ndarray]:
            labels = np.repeat(np.arange(40), num)
            return np.repeat(rng.random((len(labels), 12)) < likely[labels], 10, axis=1), labels

        evidence = AttributeEvidence.of(*drawn(5))
        with pytest.raises(ValueError, match="expected a calibration, got none"):
            evidence.log_likelihood_ratios(*(drawn(1)[0],) * 2)
        calibrated = evidence.calibrated(*drawn(5))
        assert calibrated.calibration is not None
        assert calibrated.calibration.scale < 0.5
        codes, labels = drawn(5)
        target, nontarget = pairs_of(labels)
        before = [evidence.pair_scores(codes[one], codes[other]) for one, other in (target, nontarget)]
        ratios = calibrated.log_likelihood_ratios(codes, codes)
        assert cllr(*before) > 1
        assert cllr(ratios[tuple(target)], ratios[tuple(nontarget)]) < 0.98

    @pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]])
    def test_calibration_takes_both_kinds(self, labels: list[int]) -> None:
        codes = np.random.default_rng(0).random((4, 3)) < 0.5
        evidence = AttributeEvidence.of(codes, np.array([0, 0, 1, 1]))
        with pytest.raises(ValueError, match="at least one target and one nontarget pair"):
            evidence.calibrated(codes, np.array(labels))

    def test_a_rare_attribute_says_more(self) -> None:
        """Two classes of ten share one attribute, nine the other; all samples of a class have it or none has."""
        labels = np.repeat(np.arange(10), 4)
        codes = np.stack([labels < 1, labels < 9], 1)
        ratios = AttributeEvidence.of(codes, labels).log_ratios
        assert ratios[0, 1, 1] > 5 * ratios[1, 1, 1] > 0
        assert (ratios[:, 0, 1] < -1).all()


def share_of(pairs: list[tuple[bool, bool]], a: int, b: int) -> float:
    """Return the fraction of unordered pairs that are (a, b) when the order of the two is drawn."""
    return sum(((x, y) == (a, b)) + ((y, x) == (a, b)) for x, y in pairs) / (2 * len(pairs))
