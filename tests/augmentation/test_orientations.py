"""Flips and quarter turns: exact, by every CPU backend, of every field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from paste_cases import placed
from torch import Tensor

from samples import CPU_BACKENDS, POINTS, Sampled, make_batch, paste
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, Placement, PlacementConfig
from segpaste.augmentation.sources.strategies import PlacementRequest
from segpaste.engine.schema import PlacementCounts
from segpaste.types import Modality, PaddedBatchedDenseSample

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)
MODALITIES = (Modality.INSTANCE, Modality.SEMANTIC, Modality.DEPTH, Modality.NORMALS)
PLANES = ("images", "semantic_maps", "depth", "depth_valid", "normals")
SIZE = (19, 31)

QUARTERS = {1: (False, True, True), 2: (True, True, False), 3: (True, False, True)}
"""By the number of quarters, anticlockwise: the flips, and whether the axes are swapped before."""
FLIPS = {"left to right": (True, False, False), "upside down": (False, True, False)}


class Oriented:
    """Source that pastes slot 0 of every row of a batch over the target's row, as it turns and flips it."""

    def __init__(self, source: PaddedBatchedDenseSample, orientation: tuple[bool, bool, bool]) -> None:
        self.source, self.orientation = source, orientation

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        b, k = self.source.labels.shape
        rows, one = torch.arange(b)[:, None], torch.ones(b, 1, 2, dtype=torch.int64)
        hflip, vflip, swap_axes = (torch.full((b, 1), flag) for flag in self.orientation)
        carried = torch.zeros(b, 1, k, dtype=torch.bool)
        carried[..., 0] = True
        flags = {"hflip": hflip, "vflip": vflip, "swap_axes": swap_axes}
        valid = torch.ones(b, 1, dtype=torch.bool)
        placement = Placement(rows, valid, one, one.clone(), 0 * one, carried=carried, **flags)
        zero = torch.zeros(b, dtype=torch.int64)
        return self.source, placement, PlacementCounts(zero + 1, zero, zero, zero)


def canvas(size: tuple[int, int], seed: int, num_instances: int, **options: Any) -> PaddedBatchedDenseSample:
    """Two images with valid depth and no void; with an instance, it fills its image."""
    options = {"modalities": MODALITIES, "keypoints": True, **options}
    batch = make_batch(2, size=size, num_instances=num_instances, max_instances=2, seed=seed, **options)
    height, width = size
    changed: dict[str, Any] = {"semantic_maps": torch.full_like(batch.semantic_maps, 11)}
    changed |= {"depth": batch.depth.nan_to_num(1) + 1 + 50 * (1 - num_instances)}
    changed |= {"depth_valid": torch.ones_like(batch.depth_valid)}
    if num_instances:
        masks, boxes = torch.zeros_like(batch.instance_masks), torch.zeros_like(batch.boxes)
        masks[:, 0], boxes[:, 0] = True, torch.tensor([0.0, 0, width, height])
        changed |= {"instance_masks": masks, "boxes": boxes}
        places = torch.rand(2, 2, len(POINTS.names), 2) * torch.tensor([width, height])
        points = torch.cat([places, torch.full((*places.shape[:3], 1), 2.0)], -1)
        changed["keypoints"] = points * batch.instance_valid[..., None, None]
    return batch.derived(**changed)


def pasted(
    kernels: str, source: PaddedBatchedDenseSample, orientation: tuple[bool, bool, bool], *, inplace: bool = False
) -> PaddedBatchedDenseSample:
    """What covers a whole canvas, which is as large as the oriented source."""
    height, width = source.canvas_size
    options = {"image_dtype": source.images.dtype}
    target = canvas((width, height) if orientation[2] else (height, width), 5, 0, **options)
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source={"whole_only": False})
    out, report = paste(target, config, Oriented(source, orientation), backend=kernels, inplace=inplace)
    assert (report.visible_layer == 0).all()
    return out


def turned(batch: PaddedBatchedDenseSample, quarters: int) -> dict[str, Tensor]:
    """The planes of a batch, turned anticlockwise by torch; vectors turn with their image."""
    planes = {name: torch.rot90(getattr(batch, name), quarters, (-2, -1)) for name in PLANES}
    x, y, z = planes["normals"].unbind(1)
    for _ in range(quarters):
        x, y = y, -x
    return {**planes, "normals": torch.stack([x, y, z], 1)}


def mirrored(batch: PaddedBatchedDenseSample, name: str) -> dict[str, Tensor]:
    axis = {"left to right": 0, "upside down": 1}[name]
    planes = {plane: getattr(batch, plane).flip(-1 - axis) for plane in PLANES}
    sign = torch.ones(3)
    sign[axis] = -1
    return {**planes, "normals": planes["normals"] * sign[:, None, None]}


def assert_planes(out: PaddedBatchedDenseSample, expected: dict[str, Tensor]) -> None:
    for name, plane in expected.items():
        torch.testing.assert_close(getattr(out, name), plane, rtol=0, atol=0, msg=lambda m, n=name: f"{n}: {m}")
    assert out.instance_masks[:, 0].all()


@KERNELS
class TestExact:
    @pytest.mark.parametrize("quarters", QUARTERS)
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16], ids=str)
    @pytest.mark.parametrize("inplace", [False, True])
    def test_a_turn_is_that_of_torch(self, kernels: str, quarters: int, dtype: torch.dtype, inplace: bool) -> None:
        source = canvas(SIZE, 3, 1, image_dtype=dtype)
        out = pasted(kernels, source, QUARTERS[quarters], inplace=inplace)
        assert_planes(out, turned(source, quarters))

    @pytest.mark.parametrize("name", FLIPS)
    def test_a_flip_is_that_of_torch(self, kernels: str, name: str) -> None:
        source = canvas(SIZE, 3, 1)
        assert_planes(pasted(kernels, source, FLIPS[name]), mirrored(source, name))

    def test_channels_last(self, kernels: str) -> None:
        source = canvas(SIZE, 3, 1)
        source = source.derived(images=source.images.contiguous(memory_format=torch.channels_last))
        assert_planes(pasted(kernels, source, QUARTERS[1]), turned(source, 1))

    def test_four_turns_are_none(self, kernels: str) -> None:
        source = batch = canvas(SIZE, 3, 1)
        for _ in range(4):
            batch = pasted(kernels, batch, QUARTERS[1])
        assert_planes(batch, {name: getattr(source, name) for name in PLANES})
        torch.testing.assert_close(batch.keypoints[:, 0], source.keypoints[:, 0], rtol=0, atol=1e-5)

    def test_both_flips_are_two_turns(self, kernels: str) -> None:
        source = canvas(SIZE, 3, 1)
        twice = pasted(kernels, pasted(kernels, source, QUARTERS[1]), QUARTERS[1])
        flipped = pasted(kernels, pasted(kernels, source, FLIPS["left to right"]), FLIPS["upside down"])
        for name in (*PLANES, "boxes", "keypoints"):
            assert torch.equal(getattr(twice, name), getattr(flipped, name)), name

    @pytest.mark.parametrize("orientation", [*QUARTERS.values(), *FLIPS.values(), (False, False, True)])
    def test_points_swap_in_a_mirror_only(self, kernels: str, orientation: tuple[bool, bool, bool]) -> None:
        source = canvas(SIZE, 3, 1)
        out = pasted(kernels, source, orientation)
        order = POINTS.flip_order if sum(orientation) % 2 else range(len(POINTS.names))
        x, y = source.keypoints[:, 0, list(order), :2].unbind(-1)
        x, y = (y, x) if orientation[2] else (x, y)
        height, width = out.canvas_size
        x, y = width - x if orientation[0] else x, height - y if orientation[1] else y
        torch.testing.assert_close(out.keypoints[:, 0, :, :2], torch.stack([x, y], -1), rtol=0, atol=1e-5)


@KERNELS
class TestDraws:
    def test_every_turn_is_as_likely(self, kernels: str) -> None:
        placement = orientations(kernels, quarter_turn_probability=0.75)
        flags = torch.stack([*placement.orientation], -1).flatten(0, 1).tolist()
        kinds = [(False, False, False), *QUARTERS.values()]
        assert_uniform(np.bincount([kinds.index(tuple(flag)) for flag in flags], minlength=4))

    def test_turns_and_flips_are_all_eight(self, kernels: str) -> None:
        options = {"hflip_probability": 0.5, "quarter_turn_probability": 0.75}
        hflip, vflip, swap_axes = orientations(kernels, **options).orientation
        assert_uniform(np.bincount((hflip + 2 * vflip + 4 * swap_axes).flatten().numpy(), minlength=8))

    def test_none_changes_no_other_draw(self, kernels: str) -> None:
        without, turns = (orientations(kernels, quarter_turn_probability=p, num=40) for p in (0.0, 1.0))
        assert not without.swap_axes.any()
        assert not without.vflip.any()
        for name in ("source_idx", "scale_num"):
            assert torch.equal(getattr(without, name), getattr(turns, name)), name


def orientations(kernels: str, num: int = 300, **options: Any) -> Placement:
    """What is drawn for many images with one object each."""
    batch = make_batch(num, size=(9, 9), num_instances=1, max_instances=3, modalities=[Modality.INSTANCE])
    config = PlacementConfig(**{"paste_prob": 1.0, "hflip_probability": 0.0, "layers": 2, **options})
    return placed(kernels, batch, BatchCopyPaste(BatchCopyPasteConfig(placement=config, source={"whole_only": False})))
