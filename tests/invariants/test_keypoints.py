"""The invariants of keypoints and crowds, on random batches of every subset of modalities that has instances."""

from __future__ import annotations

import pytest
import torch
from invariant_cases import EVERYTHING, Subset, assert_holds, cases, run, subsets_with

from segpaste import invariants
from segpaste.engine import use_backend
from segpaste.types import Modality


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_keypoints_visible_only_on_own_pixels(subset: Subset) -> None:
    assert_holds(invariants.keypoints_visible_only_on_own_pixels, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_crowd_never_under_paste(subset: Subset) -> None:
    assert_holds(invariants.crowd_never_under_paste, subset)


@pytest.mark.parametrize("subset", subsets_with(Modality.INSTANCE))
def test_the_reference_gives_the_same(subset: Subset) -> None:
    """Every tenth case is compared."""
    for case in cases(subset)[::10]:
        with use_backend("reference"):
            again = run(case.before, case.config)
        assert torch.equal(again.after.keypoints, case.after.keypoints)
        assert torch.equal(again.after.crowd_mask, case.after.crowd_mask)


@pytest.mark.parametrize("subset", subsets_with(*EVERYTHING))
def test_something_happens(subset: Subset) -> None:
    """Pastes bring visible points and hide those of others; crowds lose pixels."""
    num_pasted = num_hidden = num_covered = 0
    for case in cases(subset):
        before, after = case.before.keypoints, case.after.keypoints
        assert before is not None
        assert after is not None
        num_pasted += int((after[case.is_paste][..., 2] == 2).sum())
        same = after[:, : before.shape[1]][case.kept]
        num_hidden += int((same[..., 2] < before[case.kept][..., 2]).sum())
        num_covered += int((case.before.crowd_mask & ~case.after.crowd_mask).sum())
    assert min(num_pasted, num_hidden, num_covered) > 50
