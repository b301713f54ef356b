"""The program of hostile plans: some of its plans on every run of the tests; and they cover the hard cases."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Literal

import pytest
import torch

from samples import CPU_BACKENDS, assert_same, make_batch
from script_modules import script
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig
from segpaste.engine import use_backend


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("hostile_plans")


@pytest.mark.slow
def test_nothing_is_wrong(program: ModuleType) -> None:
    found = list(program.run(range(150)))
    assert {seed: wrong for seed, _, wrong in found if wrong} == {}
    happened = Counter(what for _, what, _ in found)
    assert all(
        happened[what] >= 3 for what in ("drawn pasted", "honest pasted", "careless refused", "unchecked refused")
    )


def test_the_library_itself_refuses(program: ModuleType) -> None:
    """The checks of sources are off, as in compiled code."""
    seeds = [seed for seed in range(300) if program.hostile_plan(seed).kind == "unchecked"]
    found = list(program.run(seeds))
    assert {seed: wrong for seed, _, wrong in found if wrong} == {}
    assert sum(what == "unchecked refused" for _, what, _ in found) > 10


@pytest.mark.parametrize("grouping", ["image", "instance"])
def test_boxes_without_end_are_equal_to_the_reference(grouping: Literal["image", "instance"]) -> None:
    """The sum of their overlaps exceeds 64 bits; places are farther away than a custom source may state."""
    batch = make_batch(4, size=(24, 31), max_instances=12, num_instances=6, modalities={"instance"})
    batch.boxes[batch.instance_valid] = torch.tensor([-1e30, -1e30, 1e30, 1e30])
    placement = PlacementConfig(
        paste_prob=1.0,
        partial="clip",
        min_visible_frac=0.0,
        max_attempts=8,
        layers=3,
        scale_range=(0.5, 64.0),
        grouping=grouping,
    )
    outcomes = []
    for kernels in CPU_BACKENDS:
        with use_backend(kernels), pytest.warns(UserWarning, match="could paste nothing"):
            outcomes.append(BatchCopyPaste(BatchCopyPasteConfig(placement=placement))(batch))
    for other in outcomes[1:]:
        assert_same(other, outcomes[0])
