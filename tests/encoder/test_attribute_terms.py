"""Typicality, drop-out and drop-in counted class by class, beside the ratios of pairs, and their table."""

from __future__ import annotations

import csv
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_cases import clusters, labelled_codes, train_words
from hypothesis import given
from hypothesis import strategies as st

from segpaste.cli import main
from segpaste.encoder import AttributeEvidence, AttributeTerms, load_encoder
from segpaste.encoder.attribute_terms import attribute_columns, columns_csv


def counted(codes: np.ndarray, labels: np.ndarray, k: int, least: float) -> tuple[float, float, float, float]:
    """Return the terms of attribute k in loops over classes, pairs of classes, and samples."""
    samples = {c: [bool(row[k]) for row, label in zip(codes, labels, strict=True) if label == c] for c in set(labels)}
    having = [c for c, bits in samples.items() if sum(bits) > least * len(bits)]
    pairs = list(combinations(samples, 2))
    lost = [sum(not bit for bit in samples[c]) / len(samples[c]) for c in having]
    heard = [sum(bits) / len(bits) for c, bits in samples.items() if c not in having]
    return (
        len(having) / len(samples),
        sum(one in having and other in having for one, other in pairs) / len(pairs),
        sum(lost) / len(lost) if lost else math.nan,
        sum(heard) / len(heard) if heard else math.nan,
    )


class TestTerms:
    @given(labelled_codes(), st.sampled_from([0, 0.3, 0.5, 0.9]))
    def test_class_by_class(self, drawn: tuple[np.ndarray, np.ndarray], least: float) -> None:
        codes, labels = drawn
        if len(set(labels.tolist())) < 2:
            with pytest.raises(ValueError, match=r"AttributeTerms: expected at least two classes, got [01]"):
                AttributeTerms.of(codes, labels, least)
            return
        found = AttributeTerms.of(codes, labels, least)
        for k in range(codes.shape[1]):
            terms = found.class_frac[k], found.typicality[k], found.dropout[k], found.dropin[k]
            assert terms == pytest.approx(counted(codes, labels, k, least), nan_ok=True)

    def test_by_hand(self) -> None:
        """Four speakers of four utterances; two have the attribute, one of them loses it once; one has it by noise."""
        codes = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]], bool).reshape(16, 1)
        found = AttributeTerms.of(codes, np.repeat([7, 3, 5, 9], 4))
        assert found.class_frac.tolist() == [0.5]
        assert found.typicality.tolist() == [1 / 6]
        assert found.dropout.tolist() == [0.125]
        assert found.dropin.tolist() == [0.125]

    def test_one_sample_suffices_for_a_share_of_0(self) -> None:
        codes = np.array([[1], [0], [0], [0]], bool)
        found = AttributeTerms.of(codes, np.array([0, 0, 0, 1]), profile_share=0)
        assert (found.class_frac[0], found.dropin[0]) == (0.5, 0)
        assert found.dropout[0] == pytest.approx(2 / 3)

    def test_evidence_in_these_terms(self) -> None:
        """Many samples of classes that lose an attribute, or have it by noise, with one probability each."""
        rng = np.random.default_rng(0)
        num_classes, num, dropout, dropin = 30, 4000, 0.1, 0.03
        has = np.arange(num_classes) < 6
        labels = np.repeat(np.arange(num_classes), num)
        codes = (rng.random(len(labels)) < np.where(has, 1 - dropout, dropin)[labels])[:, None]
        found = AttributeTerms.of(codes, labels)
        assert found.dropout[0] == pytest.approx(dropout, abs=0.005)
        assert found.dropin[0] == pytest.approx(dropin, abs=0.005)
        f, t, d, i = (float(x[0]) for x in (found.class_frac, found.typicality, found.dropout, found.dropin))
        assert (f, t) == (6 / 30, 15 / 435)
        same = f * (1 - d) ** 2 + (1 - f) * i**2
        other = t * (1 - d) ** 2 + 2 * (f - t) * (1 - d) * i + (1 - 2 * f + t) * i**2
        free = (f * (1 - d) + (1 - f) * i) ** 2  # the table of independent samples has the weight of one class
        expected = math.log((num_classes * same + free) / (num_classes * other + free))
        assert AttributeEvidence.of(codes, labels).log_ratios[0, 1, 1] == pytest.approx(expected, abs=0.01)

    @pytest.mark.parametrize("share", [-0.1, 1, math.nan])
    def test_a_share_out_of_range(self, share: float) -> None:
        with pytest.raises(ValueError, match="AttributeTerms: expected 0 <= profile_share < 1, got "):
            AttributeTerms.of(np.ones((2, 1), bool), np.arange(2), share)


class TestTable:
    def test_of_a_run(self, tmp_path: Path, capsys: Any) -> None:
        """The file has all attributes, and what is printed are its strongest ones."""
        words = [*train_words(tmp_path), "trainer.epochs=3"]
        assert main(words) == 0
        out = capsys.readouterr().out
        with (tmp_path / "run" / "attributes.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        trained = load_encoder(tmp_path / "run")
        assert trained.evidence is not None
        data = clusters(7, seed=1)
        codes = trained.encoder.encode(torch.from_numpy(data.vectors)).numpy()
        for k, row in enumerate(rows):
            assert row.pop("attribute") == str(k)
            names = [
                "share",
                "class_frac",
                "typicality",
                "dropout",
                "dropin",
                "score_both",
                "score_one",
                "score_neither",
            ]
            assert list(row) == names
            found = [float(value or "nan") for value in row.values()]
            ratios = trained.evidence.log_ratios[k]
            expected = [
                codes[:, k].mean(),
                *counted(codes, data.labels, k, 0.5),
                ratios[1, 1],
                ratios[1, 0],
                ratios[0, 0],
            ]
            assert found == pytest.approx(expected, nan_ok=True, abs=1e-7)
        assert len(rows) == 16
        order = sorted(range(16), key=lambda k: -float(rows[k]["score_both"]))[:5]
        lines = out.partition("strongest          5 of 16 attributes, if two samples have them")[2].splitlines()
        assert [int(line.split()[0]) for line in lines[2:7]] == order
        strongest = rows[order[0]]
        assert f"{float(strongest['typicality']):.2%}" == lines[2].split()[1]
        assert f"{float(strongest['score_both']):+.3f}" == lines[2].split()[4]
        before = (tmp_path / "run" / "attributes.csv").read_bytes()
        (tmp_path / "run" / "attributes.csv").unlink()
        assert main(words) == 0
        assert (tmp_path / "run" / "attributes.csv").read_bytes() == before

    def test_a_value_that_is_not_defined_is_empty(self) -> None:
        codes, labels = np.array([[1, 0], [1, 0], [1, 0]], bool), np.array([0, 0, 1])
        text = columns_csv(attribute_columns(AttributeEvidence.of(codes, labels), codes, labels)).decode()
        assert text.splitlines()[1:] == ["0,1,1,1,0,,0,0,0", "1,0,0,0,,0,0,0,0"]
