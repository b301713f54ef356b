"""The invariants of depth, on random batches of every subset of modalities that has them."""

from __future__ import annotations

import pytest
from invariant_cases import Subset, assert_holds, subsets_with

from segpaste import invariants
from segpaste.types import Modality


@pytest.mark.parametrize("subset", subsets_with(Modality.DEPTH))
def test_depth_monotonicity(subset: Subset) -> None:
    assert_holds(invariants.depth_monotonicity, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.DEPTH))
def test_depth_validity_join(subset: Subset) -> None:
    assert_holds(invariants.depth_validity_join, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.DEPTH))
def test_depth_metric_intrinsics_rescale(subset: Subset) -> None:
    assert_holds(invariants.depth_metric_intrinsics_rescale, subset)
