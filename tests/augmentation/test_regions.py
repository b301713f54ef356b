"""Regions that pastes may go to: classes of the semantic map, or a mask for each image, by every backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from loop_checks import Recording
from torch import Tensor

import brute_force
import brute_force_draws
from samples import CPU_BACKENDS, make_batch, put_box
from segpaste.augmentation import DROP_REASONS, BatchCopyPaste, BatchCopyPasteConfig, PasteReport, PlacementConfig
from segpaste.engine import use_backend
from segpaste.engine.regions import region_sums
from segpaste.types import PaddedBatchedDenseSample

SIZE = (40, 60)
ROAD, SKY = 11, 12
KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)


def street(num: int = 6) -> PaddedBatchedDenseSample:
    """Sky above, road below, and two objects of 8 x 6 pixels of the classes 1 and 2."""
    batch = make_batch(num, size=SIZE, num_instances=0, max_instances=16, modalities=("instance", "semantic"), seed=5)
    for k, box in enumerate(((10, 4, 18, 10), (30, 30, 38, 36))):
        put_box(batch, slice(None), k, box, k + 1)
    semantic = torch.full((num, *SIZE), SKY)
    semantic[:, 25:] = ROAD
    return replace(batch, semantic_maps=semantic, sample_seeds=torch.arange(num))


def pasted(
    kernels: str, batch: PaddedBatchedDenseSample, mask: Tensor | None = None, **placement: Any
) -> tuple[PaddedBatchedDenseSample, PasteReport]:
    options = {"paste_prob": 1.0, "grouping": "instance", "layers": 8, "scale_range": (0.5, 1.5)} | placement
    module = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(**options)))
    with use_backend(kernels):
        return module(batch, region=mask, return_report=True)


def outside(report: PasteReport) -> int:
    return int(report.num_dropped[:, DROP_REASONS.index("outside_region")].sum())


@KERNELS
class TestClasses:
    def test_every_pixel_of_a_paste_lies_on_its_classes(self, kernels: str) -> None:
        batch = street()
        out, report = pasted(kernels, batch, region={1: (ROAD,), 2: (SKY,)}, max_attempts=8)
        seen = {1: 0, 2: 0}
        for b, k in (report.slot_layer >= 0).nonzero().tolist():
            label = int(out.labels[b, k])
            assert batch.semantic_maps is not None
            assert out.instance_masks is not None
            assert (batch.semantic_maps[b][out.instance_masks[b, k]] == {1: ROAD, 2: SKY}[label]).all()
            seen[label] += 1
        assert min(seen.values()) > 3

    def test_a_class_that_is_not_named_goes_anywhere(self, kernels: str) -> None:
        out, report = pasted(kernels, street(), region={1: (ROAD,)})
        tops = out.boxes[..., 1][(report.slot_layer >= 0) & (out.labels == 2)]
        assert tops.min() < 15
        assert tops.max() > 25

    def test_a_fraction_is_enough(self, kernels: str) -> None:
        """Objects reach over the border of the road by half of their height."""
        out, report = pasted(kernels, street(), region={1: (ROAD,), 2: (ROAD,)}, region_frac=0.5, max_attempts=8)
        boxes = out.boxes[report.slot_layer >= 0]
        on_road = (boxes[:, 3] - boxes[:, 1].clamp(min=25)).clamp(min=0) / (boxes[:, 3] - boxes[:, 1])
        assert len(boxes) > 10
        assert (on_road >= 0.5).all()
        assert (on_road < 1).any()

    def test_rejections_are_counted(self, kernels: str) -> None:
        batch = street()
        _, report = pasted(kernels, batch, region={1: (77,), 2: (77,)})
        assert outside(report) == int(report.num_intended.sum()) > 0
        _, other = pasted(kernels, batch, region={1: (ROAD,), 2: (ROAD,)})
        assert 0 < outside(other) < int(other.num_intended.sum())
        assert (other.num_tried == other.num_placed + other.num_dropped.sum(1)).all()

    def test_more_attempts_are_rejected_less(self, kernels: str) -> None:
        lost = [outside(pasted(kernels, street(), region={1: (ROAD,), 2: (ROAD,)}, max_attempts=n)[1]) for n in (1, 16)]
        assert lost[1] < lost[0] / 4

    def test_objects_that_stay_where_they_are(self, kernels: str) -> None:
        """The object of class 1 stands in the sky, that of class 2 on the road."""
        _, report = pasted(kernels, street(), region={1: (ROAD,), 2: (ROAD,)}, position="keep", hflip_probability=0.0)
        assert not report.drawn[..., 0].any()
        assert report.drawn[..., 1].any()
        assert outside(report) > 0

    def test_batches_have_semantic_maps(self, kernels: str) -> None:
        with pytest.raises(ValueError, match=r"expected semantic_maps in the batch because placement\.region names"):
            pasted(kernels, replace(street(), semantic_maps=None), region={1: (ROAD,)})


@KERNELS
class TestMask:
    def test_no_pixel_is_pasted_outside(self, kernels: str) -> None:
        mask = torch.zeros(6, *SIZE, dtype=torch.bool)
        mask[:, 5:30, 20:50] = True
        mask[0] = False
        for region in (mask, mask[:, None]):
            _, report = pasted(kernels, street(), region, max_attempts=8)
            assert not ((report.visible_layer >= 0) & ~mask).any()
            assert report.num_placed[0] == 0
            assert (report.num_placed[1:] > 0).all()

    def test_it_limits_the_classes_too(self, kernels: str) -> None:
        mask = torch.zeros(6, *SIZE, dtype=torch.bool)
        mask[..., :30] = True
        out, report = pasted(kernels, street(), mask, region={1: (ROAD,)}, max_attempts=16)
        for label, top in ((1, 25), (2, 0)):
            boxes = out.boxes[(report.slot_layer >= 0) & (out.labels == label)]
            assert len(boxes) > 0
            assert (boxes[:, 2] <= 30).all()
            assert (boxes[:, 1] >= top).all()

    def test_a_canvas_that_is_padded(self, kernels: str) -> None:
        mask = torch.ones(6, *SIZE, dtype=torch.bool)
        _, free = pasted(kernels, street(), pad_to_multiple=16)
        _, report = pasted(kernels, street(), mask, pad_to_multiple=16)
        assert torch.equal(report.placement.translate, free.placement.translate)
        assert outside(report) == 0

    @pytest.mark.parametrize(
        ("region", "error", "message"),
        [
            (torch.ones(6, *SIZE), TypeError, "torch.bool, True where pastes are allowed, got torch.float32"),
            ("all", TypeError, "got str 'all'"),
            (torch.ones(6, 60, 40, dtype=torch.bool), ValueError, r"shape \[6, 40, 60\].*got \[6, 60, 40\]"),
        ],
    )
    def test_what_is_refused(self, kernels: str, region: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            pasted(kernels, street(), region)
        with pytest.raises(ValueError, match="expected region=None with emit_classmix"):
            BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True))(
                street(), region=region
            )


@pytest.mark.parametrize("with_mask", [False, True])
def test_draws_equal_plain_loops(with_mask: bool) -> None:
    """Both backends, with the mask that the random cases do not have."""
    rng, total = np.random.default_rng(3), 0
    for seed in range(6):
        batch = make_batch(3, size=(17, 23), num_instances=3, max_instances=9, seed=seed, padding=(1, 2))
        batch = replace(batch, sample_seeds=torch.arange(3) + 7 * seed)
        placement: dict[str, Any] = {
            "layers": 3,
            "region": {1: [1, 11], 2: [12, 11]},
            "region_frac": 0.6,
            "scale_range": (0.3, 0.9),
        }
        placement |= {"paste_prob": 1.0, "max_attempts": 1 + seed % 3}
        config = BatchCopyPasteConfig.model_validate({"placement": placement})
        mask = torch.from_numpy(rng.random((3, 17, 23)) < 0.9) if with_mask else None
        images: list[dict[str, Any]] = [dict(image) for image in brute_force.prepared(batch, config)]
        for image, row in zip(images, mask.numpy() if mask is not None else [], strict=False):
            image["region"] = row
        for kernels in CPU_BACKENDS:
            recording = Recording()
            with use_backend(kernels):
                BatchCopyPaste(config, recording)(batch, region=mask)
            for b in range(3):
                drawn = brute_force_draws.draw(images, config, b)
                assert [row.nonzero().flatten().tolist() for row in recording.placement.carried[b]] == drawn.carried
                assert [tuple(t) for t in recording.placement.translate[b].tolist()] == drawn.translate
                assert recording.counts.outside_region is not None
                assert int(recording.counts.outside_region[b]) == drawn.outside_region
                total += drawn.outside_region
    assert total > 20


def test_sums_count_the_pixels_above_and_left() -> None:
    rng = np.random.default_rng(0)
    semantic, mask = torch.from_numpy(rng.integers(0, 4, (2, 7, 5))), torch.from_numpy(rng.random((2, 7, 5)) < 0.7)
    sums = region_sums(mask, semantic, [(1, 3), (2,)])
    assert sums is not None
    assert (sums.shape, sums.dtype) == ((2, 3, 8, 6), torch.int32)
    planes = [mask & ((semantic == 1) | (semantic == 3)), mask & (semantic == 2), mask]
    for r, plane in enumerate(planes):
        for y in range(8):
            for x in range(6):
                assert torch.equal(sums[:, r, y, x].long(), plane[:, :y, :x].sum((1, 2)))
    assert region_sums(None, semantic, []) is None
