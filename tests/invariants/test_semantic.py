"""The invariants of semantic maps, on random batches of every subset of modalities that has them."""

from __future__ import annotations

import pytest
from invariant_cases import Subset, assert_holds, subsets_with

from segpaste import invariants
from segpaste.types import Modality


@pytest.mark.parametrize("subset", subsets_with(Modality.SEMANTIC))
def test_semantic_single_class_per_pixel(subset: Subset) -> None:
    assert_holds(invariants.semantic_single_class_per_pixel, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.SEMANTIC))
def test_semantic_ignore_preserved(subset: Subset) -> None:
    assert_holds(invariants.semantic_ignore_preserved, subset)
