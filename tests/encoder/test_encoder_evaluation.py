"""Figures of a test set, against slow ones; the same whatever order the rows are in."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from encoder_cases import clusters

from segpaste.encoder import (
    BinaryAttributeEncoder,
    cosine_rows,
    hamming_rows,
    mean_average_precision,
    validate,
)
from segpaste.encoder.evaluation import is_better


def slow_map(distances: list[list[float]], labels: list[int]) -> float:
    """Go through the distances at which something is found."""
    found = []
    for i, row in enumerate(distances):
        others = [j for j in range(len(row)) if j != i]
        wanted = [j for j in others if labels[j] == labels[i]]
        precisions = []
        for j in wanted:
            near = [k for k in others if row[k] <= row[j]]
            precisions.append(sum(labels[k] == labels[i] for k in near) / len(near))
        if wanted:
            found.append(sum(precisions) / len(precisions))
    return sum(found) / len(found)


class TestAveragePrecision:
    def test_by_hand(self) -> None:
        """From 0: 1 at 1, then 2 and 3 at 2, of which 3 is of its class. So 1/1 and 2/3; from 1 and 3 likewise."""
        distances = torch.tensor([[0.0, 1, 2, 2], [1, 0, 9, 9], [2, 9, 0, 9], [2, 9, 9, 0]])
        for given in (distances, distances.long()):
            found = mean_average_precision(lambda rows, given=given: given[rows], torch.tensor([0, 0, 1, 0]))
            assert found == pytest.approx(5 / 6)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
    @pytest.mark.parametrize("num_pairs", [1, 100, 1 << 21])
    @pytest.mark.parametrize("num_levels", [2, 5, 1000])
    def test_against_the_slow_one(self, num_levels: int, num_pairs: int, dtype: torch.dtype) -> None:
        rng = np.random.default_rng(num_levels)
        distances = rng.integers(0, num_levels, (23, 23)).astype(np.float32)
        labels = rng.integers(0, 6, 23)
        labels[0] = 77
        given = torch.from_numpy(distances).to(dtype)
        found = mean_average_precision(lambda rows: given[rows], torch.from_numpy(labels), num_pairs)
        assert found == pytest.approx(slow_map(distances.tolist(), labels.tolist()), abs=1e-12)

    def test_nobody_to_be_found(self) -> None:
        assert math.isnan(mean_average_precision(hamming_rows(torch.eye(3).bool()), torch.arange(3)))

    def test_hamming_is_exact(self) -> None:
        codes = torch.rand(9, 37, generator=torch.Generator().manual_seed(0)) < 0.5
        expected = (codes[:, None] != codes[None]).sum(-1)
        assert torch.equal(hamming_rows(codes)(slice(2, 7)), expected[2:7])

    def test_cosine(self) -> None:
        distances = cosine_rows(torch.tensor([[1.0, 0], [0, 3], [-2, 0], [5, 0]]))(slice(0, 1))
        assert distances.tolist() == [[0, 1, 2, 0]]


class TestValidate:
    def test_all_rows_in_whatever_order(self) -> None:
        data = clusters(9, seed=2, noise=1.5)
        torch.manual_seed(1)
        encoder = BinaryAttributeEncoder(data.vectors.shape[1], 16, 13)
        vectors, labels = torch.from_numpy(data.vectors), torch.from_numpy(data.labels)
        encoder.fit_standardisation(vectors)
        figures = validate(encoder, vectors, labels)
        for seed in range(3):
            order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
            other = validate(encoder, vectors[order], labels[order])
            assert other.map_codes == pytest.approx(figures.map_codes, rel=1e-12)
            assert other.map_vectors == pytest.approx(figures.map_vectors, rel=1e-12)
            assert other.active_frac == figures.active_frac
            assert other.mse == pytest.approx(figures.mse, rel=1e-6)
        assert validate(encoder, vectors, labels) == figures
        with torch.no_grad():
            out = encoder(vectors)
        assert figures.active_frac == pytest.approx(float(out.codes.mean()))
        assert figures.mse == pytest.approx(float((out.reconstruction - encoder.standardise(vectors)).square().mean()))
        assert validate(encoder, vectors[1:], labels[1:]) != figures


def test_the_better_epoch() -> None:
    """Retrieval first; the reconstruction where that is equal, or where no class has two vectors."""
    worse = {"map_codes": 0.5, "mse": 0.2}
    better = [{"map_codes": 0.6, "mse": 0.9}, {"map_codes": 0.5, "mse": 0.1}]
    for row in better:
        assert is_better(row, worse)
        assert not is_better(worse, row)
    assert not is_better(worse, worse)
    assert is_better(worse, None)
    unknown = [{"map_codes": math.nan, "mse": mse} for mse in (0.3, 0.2)]
    assert is_better(unknown[1], unknown[0])
    assert not is_better(unknown[0], unknown[1])
