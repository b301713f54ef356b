"""Options of what pastes cover: limits, the least covering candidates, counts from 0, and fragments that keep rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from samples import CPU_BACKENDS, Pasted, make_batch, paste, put_box
from segpaste.augmentation import DROP_REASONS, BatchCopyPasteConfig, OriginalsConfig, PlacementConfig
from segpaste.types import PaddedBatchedDenseSample

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)
TARGET, SOURCE = 0, 1
STILL = {"position": "keep", "hflip_probability": 0.0, "paste_prob": 1.0, "k_range": (99, 99)}


def two_images(target: list[Any], source: list[Any], max_instances: int = 12) -> PaddedBatchedDenseSample:
    """A target and a source of 40 x 40 pixels with filled boxes."""
    batch = make_batch(2, size=(40, 40), num_instances=0, max_instances=max_instances, modalities=("instance",))
    for b, boxes in enumerate((target, source)):
        for k, box in enumerate(boxes):
            put_box(batch, b, k, box, k + 1)
    return batch


def pasted(kernels: str, batch: PaddedBatchedDenseSample, config: dict[str, Any] | None = None, **more: Any) -> Pasted:
    placement = PlacementConfig(**(STILL | more))
    return paste(batch, BatchCopyPasteConfig(placement=placement, **(config or {})), backend=kernels, seed=0)


def dropped(report: Any, reason: str) -> int:
    return int(report.num_dropped[TARGET, DROP_REASONS.index(reason)])


@KERNELS
class TestCover:
    def test_less_than_the_fraction_is_pasted(self, kernels: str) -> None:
        """The sources cover 10, 30 and 0 of the 100 pixels of the target's box."""
        batch = two_images([(10, 10, 20, 20)], [(13, 0, 14, 40), (17, 10, 30, 20), (0, 0, 9, 9)])
        _, report = pasted(kernels, batch, max_cover_frac=0.3)
        assert report.drawn[TARGET, 0].nonzero().flatten().tolist() == [0, 2]
        assert dropped(report, "covers_too_much") == 1
        assert int(report.num_tried[TARGET]) == 3

    def test_the_candidates_that_cover_the_least(self, kernels: str) -> None:
        sources = [(10, 10, 15, 20), (0, 0, 5, 5), (10, 10, 11, 20), (25, 0, 30, 9), (10, 10, 13, 20)]
        batch = two_images([(10, 10, 20, 20)], sources)
        for frac, kept in ((1.0, [0, 1, 2, 3, 4]), (0.5, [1, 3]), (0.7, [1, 2, 3, 4]), (0.3, [1, 3]), (0.1, [])):
            _, report = pasted(kernels, batch, candidate_frac=frac)
            assert report.drawn[TARGET, 0].nonzero().flatten().tolist() == kept, frac
            assert int(report.num_tried[TARGET]) == int(report.num_placed[TARGET]) == len(kept)

    def test_full_slots_take_the_least(self, kernels: str) -> None:
        batch = two_images([(10, 10, 20, 20)], [(10, 10, 15, 20), (0, 0, 5, 5), (10, 10, 11, 20)], max_instances=3)
        _, report = pasted(kernels, batch, candidate_frac=0.9)
        assert report.drawn[TARGET, 0].nonzero().flatten().tolist() == [1, 2]
        assert dropped(report, "no_free_slot") == 1
        assert int(report.num_tried[TARGET]) == 3


@KERNELS
class TestCounts:
    def test_every_number_up_to_all_of_a_source(self, kernels: str) -> None:
        boxes = [(5 * i, 0, 5 * i + 4, 4) for i in range(4)]
        batch = two_images([], boxes)
        many = replace(
            batch,
            **{
                name: getattr(batch, name)[torch.tensor([0, 1] * 60)]
                for name in ("images", "boxes", "labels", "instance_masks", "instance_ids", "instance_valid")
            },
            sample_seeds=torch.arange(120),
        )
        for to_available, most in ((True, 24), (False, 60)):
            config = BatchCopyPasteConfig(placement=PlacementConfig(**(STILL | {"k_range": (0, 99)})))
            rules = OriginalsConfig(k_to_available=to_available)
            placement = config.placement.model_copy(update={"originals": rules})
            config = config.model_copy(update={"placement": placement})
            numbers = paste(many, config, backend=kernels)[1].num_tried[::2].bincount(minlength=5)
            assert int(numbers.sum()) == 60
            assert bool((numbers > 4).all()) == to_available
            assert int(numbers[4]) <= most

    def test_no_number_is_beyond_the_range(self, kernels: str) -> None:
        batch = two_images([], [(5 * i, 0, 5 * i + 4, 4) for i in range(4)])
        for low, high, found in ((2, 2, 2), (9, 12, 4)):
            _, report = pasted(kernels, batch, k_range=(low, high), k_to_available=True)
            assert int(report.num_tried[TARGET]) == found


@KERNELS
class TestFragments:
    CASES = (
        # The source, the rule, whether the target of 20 x 20 pixels at (10, 10) keeps its row.
        ((10, 10, 25, 30), {"min_residual_area_px": 100}, True),
        ((10, 10, 25, 30), {"min_residual_area_px": 101}, False),
        ((10, 10, 25, 30), {"min_residual_area_px": 101, "max_box_shift_px": 14}, False),
        ((10, 10, 25, 30), {"min_residual_area_px": 101, "max_box_shift_px": 15}, True),
        ((0, 0, 5, 5), {"min_residual_area_px": 500}, True),
        ((10, 10, 30, 30), {"min_residual_area_px": 1, "max_box_shift_px": 40}, False),
        ((11, 11, 29, 29), {"min_residual_area_frac": 0.5, "max_box_shift_px": 0}, True),
        ((10, 10, 29, 30), {"min_residual_area_frac": 0.5, "max_box_shift_px": 18}, False),
    )

    @pytest.mark.parametrize(("source", "rule", "stays"), CASES)
    def test_rows(self, kernels: str, source: Any, rule: dict[str, Any], stays: bool) -> None:
        batch = two_images([(10, 10, 30, 30)], [source])
        out, report = pasted(kernels, batch, {"min_residual_area_frac": 0.0, **rule})
        assert int(report.num_placed[TARGET]) == 1
        assert bool(out.instance_valid[TARGET].sum() == 2) == stays
