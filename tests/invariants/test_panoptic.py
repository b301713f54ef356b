"""The invariants of panoptic maps, on random batches of every subset of modalities that has them."""

from __future__ import annotations

import pytest
from invariant_cases import Subset, assert_holds, subsets_with

from segpaste import invariants
from segpaste.types import Modality


@pytest.mark.parametrize("subset", subsets_with(Modality.PANOPTIC))
def test_panoptic_thing_stuff_consistent(subset: Subset) -> None:
    assert_holds(invariants.panoptic_thing_stuff_consistent, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.PANOPTIC))
def test_panoptic_pixel_bijection(subset: Subset) -> None:
    assert_holds(invariants.panoptic_pixel_bijection, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_panoptic_fresh_instance_ids(subset: Subset) -> None:
    assert_holds(invariants.panoptic_fresh_instance_ids, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.PANOPTIC))
def test_panoptic_stuff_area_threshold(subset: Subset) -> None:
    assert_holds(invariants.panoptic_stuff_area_threshold, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.PANOPTIC, Modality.INSTANCE))
def test_panoptic_contact_priority(subset: Subset) -> None:
    assert_holds(invariants.panoptic_contact_priority, subset)
