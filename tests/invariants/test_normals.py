"""The invariants of normals, on random batches of every subset of modalities that has them."""

from __future__ import annotations

import pytest
from invariant_cases import Subset, assert_holds, subsets_with

from segpaste import invariants
from segpaste.types import Modality


@pytest.mark.parametrize("subset", subsets_with(Modality.NORMALS))
def test_normals_unit_norm_on_valid(subset: Subset) -> None:
    assert_holds(invariants.normals_unit_norm_on_valid, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.NORMALS))
def test_normals_camera_frame_convention(subset: Subset) -> None:
    assert_holds(invariants.normals_camera_frame_convention, subset)
