"""The invariants of instances, on random batches of every subset of modalities that has them."""

from __future__ import annotations

import pytest
from invariant_cases import Subset, assert_holds, subsets_with

from segpaste import invariants
from segpaste.types import Modality


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_instance_identity_preserved(subset: Subset) -> None:
    assert_holds(invariants.instance_identity_preserved, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_instance_target_masks_subtract_paste_union(subset: Subset) -> None:
    assert_holds(invariants.instance_target_masks_subtract_paste_union, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_instance_bbox_recomputed_from_mask(subset: Subset) -> None:
    assert_holds(invariants.instance_bbox_recomputed_from_mask, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_instance_small_area_dropped(subset: Subset) -> None:
    assert_holds(invariants.instance_small_area_dropped, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_instance_hidden_area_limited(subset: Subset) -> None:
    assert_holds(invariants.instance_hidden_area_limited, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_instance_no_same_class_overlap(subset: Subset) -> None:
    assert_holds(invariants.instance_no_same_class_overlap, subset)


WITHOUT_MASKS = [subset for subset in subsets_with() if Modality.INSTANCE not in subset.values[0]]


@pytest.mark.parametrize("subset", WITHOUT_MASKS)
def test_instance_given_bbox_kept(subset: Subset) -> None:
    assert_holds(invariants.instance_given_bbox_kept, subset)
