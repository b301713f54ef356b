"""The looks of the triton backend decide the same as the reference, to the last bit, without the pixels of a paste.

`test_cuda` runs this file with `cuda_checks`, in a process of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from backend_cases import module
from cuda_cases import (  # noqa: F401
    DEVICE,
    MAPLESS,
    patched_interpreter,
    set_tiles,
    settled_by_kernels,
    settled_by_reference,
    small_batch,
)

from samples import with_overlaps
from segpaste.augmentation.sources.strategies import Placement
from segpaste.engine import Scene
from segpaste.engine.reference import stages
from segpaste.engine.reference.plan import LayerPlan
from segpaste.types import Modality, PaddedBatchedDenseSample


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles whose borders cut through everything; more of them would take longer in the interpreter."""
    if DEVICE.type == "cpu":
        set_tiles(monkeypatch, (16, 32), 2)


def drawn_scene(
    batch: PaddedBatchedDenseSample, seed: int, layers: int = 2, panoptic: dict[str, Any] | None = None, **rules: int
) -> tuple[Scene, Placement]:
    """A scene with maps at random: any scale of each axis, flips, and places beyond the border."""
    generator, b = torch.Generator().manual_seed(seed), batch.batch_size

    def whole(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator).to(DEVICE)

    index = whole(0, b, b, layers)
    placement = Placement(
        source_idx=index,
        layer_valid=torch.ones_like(index, dtype=torch.bool),
        scale_num=whole(30000, 110000, b, layers, 2),
        scale_den=torch.full((b, layers, 2), 65536, device=DEVICE),
        translate=whole(-6, 10, b, layers, 2),
        hflip=whole(0, 2, b, layers) == 1,
        carried=batch.instance_valid[index] & (whole(0, 4, b, layers, batch.max_instances) > 0),
        vflip=whole(0, 2, b, layers) == 1,
        swap_axes=whole(0, 2, b, layers) == 1,
    )
    paste = module(panoptic=panoptic, layers=layers)
    return Scene(batch, batch, paste._tables, paste._rules.paste(torch.device("cpu"))._replace(**rules)), placement


def assert_settled_alike(scene: Scene, placement: Placement) -> tuple[torch.Tensor, ...]:
    """Return what both have found; `num_gone` is last."""
    found, expected = settled_by_kernels(scene, placement), settled_by_reference(scene, placement)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    return found


RULES: dict[str, dict[str, int]] = {
    "residual fraction": {"residual_num": 3, "residual_den": 4},
    "residual pixels": {"residual_px": 60},
    "boxes that stay": {"residual_num": 1, "residual_den": 1, "box_shift_px": 0},
    "hidden objects": {"hidden_num": 1, "hidden_den": 5, "min_area_px": 12},
    "stuff that reverts": {"stuff_px": 60, "min_area_px": 12},
    "stuff and objects": {"stuff_px": 60, "hidden_num": 1, "hidden_den": 3},
    "ignored stuff": {"reverts_stuff": 0, "stuff_px": 1000},
    "large pastes only": {"min_area_px": 40},
    "covered void": {"covers_void": 1},
    "filled depth": {"orders_by_value": 1},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_rules(rules: dict[str, int]) -> None:
    batch = with_overlaps(small_batch(size=(19, 31), max_instances=8, padding=(1, 2)))
    batch = batch.derived(depth=torch.where(batch.depth_valid, batch.depth, 3.0))
    found = assert_settled_alike(*drawn_scene(batch, 3, **rules))
    others = {"residual_num": 1, "residual_den": 1} if "box_shift_px" in rules else {}
    without = settled_by_reference(*drawn_scene(batch, 3, **others))
    assert not all(map(torch.equal, found, without)), "the rule changes nothing here"


def test_rules_of_masks_that_overlap() -> None:
    without_maps = {Modality.INSTANCE, Modality.NORMALS}
    batch = with_overlaps(small_batch(size=(19, 31), modalities=without_maps, max_instances=8, padding=(1, 2)))
    rules = {**RULES["hidden objects"], **RULES["boxes that stay"]}
    assert_settled_alike(*drawn_scene(batch, 3, **rules))


def test_rounds_of_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    """If priorities and depth both decide, a removal may uncover what hides another paste.

    What is seen is the same where masks keep it, though each round sees something else.
    """
    batch = small_batch(size=(15, 17), num_instances=(4, 6), max_instances=8, seed=122)
    rules = {"contact_priority": {1: 2, 2: -3, 12: 1}, "stuff_policy": "ignore"}
    num_carried: list[int] = []
    look = stages._look

    def counted(scene: Scene, plan: LayerPlan, *arguments: Any) -> Any:
        num_carried.append(int(plan.carried.sum()))
        return look(scene, plan, *arguments)

    monkeypatch.setattr(stages, "_look", counted)
    scene, placement = drawn_scene(batch, 122, layers=6, panoptic=rules, min_area_px=20)
    upright = torch.zeros_like(placement.hflip)
    given = scene, replace(placement, vflip=upright, swap_axes=upright)
    found = assert_settled_alike(*given)
    assert len(set(num_carried)) == 3
    for one, other in zip(settled_by_kernels(*given, hides=True), found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_cameras_and_perspective() -> None:
    batch = small_batch(max_instances=8, metric_depth=True)
    found = assert_settled_alike(*drawn_scene(batch, 5, perspective=1))
    assert found[LayerPlan._fields.index("depth_scale")].unique().numel() > 2


def test_boxes_of_any_number() -> None:
    """NaN, infinite, huge, and next to a whole number."""
    batch = small_batch(max_instances=8, modalities=MAPLESS)
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 3e9, -3e9, 1e-42, -1e-42, 4 + 1e-6])
    where = torch.randint(0, 24, batch.boxes.shape, generator=torch.Generator().manual_seed(1))
    boxes = torch.where((where < 8).to(DEVICE), odd[where.clamp(max=7)].to(DEVICE), batch.boxes)
    assert_settled_alike(*drawn_scene(batch.derived(boxes=boxes), 2))


@pytest.mark.parametrize("share", [0.97, 1.0])
def test_pictures_that_are_mostly_padding(share: float) -> None:
    batch = small_batch(max_instances=8, modalities={Modality.INSTANCE}, size=(19, 45), padding=(1, 2))
    chance = torch.rand(batch.padding_mask.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    assert_settled_alike(*drawn_scene(replace(batch, padding_mask=chance < share), 4, min_area_px=1))


def test_ids_that_end() -> None:
    """At the largest that may be fed back, of a slot or of a pixel without one."""
    batch = small_batch(max_instances=8)
    batch.panoptic_maps[0, 0, 0] = 1 << 40
    batch.instance_ids[1, 0] = (1 << 31) - 1
    assert_settled_alike(*drawn_scene(batch, 6))
