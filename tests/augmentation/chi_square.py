"""Pearson's chi-square test against known probabilities, for draws whose seeds are fixed."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def assert_uniform(counts: Array, probabilities: Array | None = None) -> None:
    """Counts agree with the probabilities (by default equal ones), at about four standard deviations.

    The quantile is Wilson and Hilferty's approximation (PNAS 1931).
    """
    total, num = counts.sum(), len(counts)
    expected = np.full(num, total / num) if probabilities is None else total * probabilities
    assert expected.min() >= 5, f"expected at least 5 in every bin, got {expected.min():.2f}: draw more"
    statistic, freedom = float(((counts - expected) ** 2 / expected).sum()), num - 1
    limit = freedom * (1 - 2 / (9 * freedom) + 4 * sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, f"chi-square {statistic:.1f}, expected at most {limit:.1f}, counts {counts}"
