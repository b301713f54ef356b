"""Rows that `IntraBatchSource` takes; a sample draws the same wherever it is in a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from placement_inputs import request, sources
from torch import Tensor

from samples import make_batch
from segpaste.augmentation import IntraBatchSource, Placement, PlacementCounts
from segpaste.augmentation.sources.strategies import draw_placement
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.sampling import outward_boxes


def sampled(
    batch: PaddedBatchedDenseSample, eligible: Tensor, **config: Any
) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
    """One draw of `IntraBatchSource` for a batch of 17x11 images."""
    assert batch.sample_seeds is not None
    wanted = replace(request(batch.sample_seeds, extent=(11, 17), **config), occupied=outward_boxes(batch.boxes))
    return IntraBatchSource().sample(batch, eligible, wanted)


class TestIntraBatchSource:
    BATCH = make_batch(8, num_instances=2, max_instances=4, modalities=("instance",))

    def test_uniform_over_the_other_eligible_rows(self) -> None:
        """Rows 2 and 5 have nothing to give; no row gives to itself."""
        eligible = self.BATCH.instance_valid.clone()
        eligible[[2, 5]] = False
        counts = np.zeros((8, 2, 8), np.int64)
        for start in range(600):
            batch = replace(self.BATCH, sample_seeds=torch.arange(8) + 8 * start)
            _, placement, _ = sampled(batch, eligible, layers=2)
            assert placement.layer_valid.all()
            for b, j in np.ndindex(8, 2):
                counts[b, j, placement.source_idx[b, j]] += 1
        for b, j in np.ndindex(8, 2):
            others = [s for s in range(8) if s not in (b, 2, 5)]
            assert counts[b, j].sum() == counts[b, j, others].sum()
            assert_uniform(counts[b, j, others])

    def test_layers_choose_alone(self) -> None:
        pairs = np.zeros((7, 7), np.int64)
        for start in range(300):
            batch = replace(self.BATCH, sample_seeds=torch.arange(8) + 8 * start)
            _, placement, _ = sampled(batch, batch.instance_valid, layers=2)
            for b in range(8):
                first, second = ((placement.source_idx[b] - b) % 8 - 1).tolist()
                pairs[first, second] += 1
        assert_uniform(pairs.ravel())

    def test_no_other_row(self) -> None:
        alone = make_batch(1, max_instances=4, modalities=("instance",))
        _, placement, counts = sampled(alone, alone.instance_valid)
        assert not placement.layer_valid.any()
        assert not placement.carried.any()
        assert counts.no_source.tolist() == counts.tried.tolist() == [1]

    def test_the_only_eligible_row_is_no_source_for_itself(self) -> None:
        eligible = torch.zeros_like(self.BATCH.instance_valid)
        eligible[3, 0] = True
        _, placement, counts = sampled(self.BATCH, eligible)
        assert placement.layer_valid[:, 0].tolist() == [b != 3 for b in range(8)]
        assert (placement.source_idx[placement.layer_valid] == 3).all()
        assert counts.no_source.tolist() == [int(b == 3) for b in range(8)]

    def test_order_of_the_batch_does_not_matter(self) -> None:
        order = torch.tensor([5, 2, 7, 0, 1, 6, 4, 3])
        _, placement, _ = sampled(self.BATCH, self.BATCH.instance_valid, layers=3, scale_range=(0.5, 2.0))
        moved = self.BATCH.map_tensors(lambda t: t[order])
        _, shuffled, _ = sampled(moved, moved.instance_valid, layers=3, scale_range=(0.5, 2.0))
        assert torch.equal(order[shuffled.source_idx], placement.source_idx[order])
        for name in ("scale_num", "hflip", "translate", "carried"):
            assert torch.equal(getattr(shuffled, name), getattr(placement, name)[order]), name

    @pytest.mark.parametrize("place", range(8))
    def test_one_sample_draws_the_same_anywhere_in_eight(self, place: int) -> None:
        """The candidate source is the same, alone with the sample or among others that have nothing to give."""
        pair = self.BATCH.map_tensors(lambda t: t[[0, 1]])
        options: dict[str, Any] = {"layers": 2, "scale_range": (0.5, 2.0), "max_attempts": 2}
        _, alone, _ = sampled(pair, pair.instance_valid, **options)
        source = (place + 3) % 8
        rows = [2, 3, 4, 5, 6, 7, 2, 3]
        rows[place], rows[source] = 0, 1
        eight = self.BATCH.map_tensors(lambda t: t[rows])
        eligible = torch.zeros_like(eight.instance_valid)
        eligible[source] = eight.instance_valid[source]
        _, among, _ = sampled(eight, eligible, **options)
        assert (among.source_idx[place] == source).all()
        for name in ("layer_valid", "scale_num", "hflip", "translate", "carried"):
            assert torch.equal(getattr(among, name)[place], getattr(alone, name)[0]), name

    def test_draws_of_a_row_are_those_of_a_batch_of_one(self) -> None:
        seeds = torch.tensor([11, -3, 2**63 - 1, 0, 7, 8, 9, -(2**63)])
        options: dict[str, Any] = {"layers": 2, "scale_range": (0.5, 2.0), "max_attempts": 3, "k_range": (1, 3)}
        boxes = [(0, 0, 4, 3), (7, 5, 9, 9), (1, 1, 2, 2)]
        whole, _ = draw_placement(request(seeds, **options), sources(8, boxes, layers=2))
        for b in range(8):
            one, _ = draw_placement(request(seeds[b : b + 1], **options), sources(1, boxes, layers=2))
            for name in ("scale_num", "hflip", "translate", "carried"):
                assert torch.equal(getattr(one, name)[0], getattr(whole, name)[b]), name

    def test_empty_batch(self) -> None:
        empty = make_batch(0, max_instances=4, modalities=("instance",))
        _, placement, counts = sampled(empty, empty.instance_valid, layers=2)
        assert placement.translate.shape == (0, 2, 2)
        assert counts.tried.shape == (0,)
