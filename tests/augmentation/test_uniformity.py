"""Places, slots and sources that must be equally likely are so: chi-square tests of both backends of the draws.

Beside `test_placement` and `test_source`, which look at one layer, one size, one choice at a time: here are places at
every size, slots over layers, and choices that must not know of one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from placement_inputs import request

from samples import CPU_BACKENDS, EVERY_OBJECT
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import IntraBatchSource, Placement, PlacementConfig
from segpaste.engine import use_backend
from segpaste.engine.schema import SCALE_DEN
from segpaste.types import PaddedBatchedDenseSample

NUM = 20_000
ROWS = 400
SMALL = tuple((5 * k, 3 * k, 5 * k + 2, 3 * k + 1) for k in range(3))

Boxes = Sequence[tuple[int, int, int, int]]


@pytest.fixture(params=CPU_BACKENDS, autouse=True)
def writing(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


def picture_rows(num: int, num_slots: int) -> PaddedBatchedDenseSample:
    """A batch of which a source reads nothing but its sizes, its labels and its device."""
    return PaddedBatchedDenseSample(
        images=torch.zeros(num, 1, 1, 1, dtype=torch.uint8),
        boxes=torch.zeros(num, num_slots, 4),
        labels=torch.zeros(num, num_slots, dtype=torch.int64),
        instance_valid=torch.zeros(num, num_slots, dtype=torch.bool),
    )


def draw(boxes: Boxes, eligible: Sequence[bool] | None = None, **options: Any) -> Placement:
    """The placement of ``NUM`` targets, in batches whose rows all look the same."""
    batch, parts = picture_rows(ROWS, len(boxes)), []
    offered = torch.tensor(eligible or [True] * len(boxes)).repeat(ROWS, 1)
    for first in range(0, NUM, ROWS):
        wanted = request(torch.arange(first, first + ROWS), occupied=boxes, **{"extent": (40, 40), **options})
        parts.append(IntraBatchSource().sample(batch, offered, wanted)[1])
    names = ("source_idx", "layer_valid", "scale_num", "scale_den", "translate", "hflip", "carried")
    return Placement(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})


def subset_counts(placement: Placement, size: int) -> np.ndarray[Any, Any]:
    """Return how often each subset of ``size`` of all slots of all layers was carried."""
    carried = placement.carried.flatten(1)
    codes = (carried * 2 ** torch.arange(carried.shape[1])).sum(1)
    subsets = combinations(range(carried.shape[1]), size)
    return np.array([int((codes == sum(2**i for i in subset)).sum()) for subset in subsets])


class TestPlaces:
    @pytest.mark.parametrize("box", [(0, 0, 4, 3), (9, 6, 13, 9), (4, 3, 9, 5)])
    def test_every_place_is_alike_at_every_size(self, box: tuple[int, int, int, int]) -> None:
        """Either axis is tested, including the first and the last place, at which the object touches the border."""
        placement = draw([box], extent=(13, 9), scale_range=(0.5, 2.0))
        left = torch.where(placement.hflip[:, 0], 13 - box[2], box[0])
        right = left + box[2] - box[0]
        for axis, (low, high) in enumerate([(left, right), (torch.tensor(box[1]), torch.tensor(box[3]))]):
            at_zero, num_pixels = self._covered(low, high, placement.scale_num[:, 0, axis], SCALE_DEN)
            where = at_zero + placement.translate[:, 0, axis]
            for size in num_pixels.unique().tolist():
                num_places = (13, 9)[axis] - size + 1
                found = np.bincount(where[num_pixels == size], minlength=num_places)
                assert len(found) == num_places
                if num_places > 1 and found.sum() >= 5 * num_places:
                    assert_uniform(found)

    @staticmethod
    def _covered(
        low: torch.Tensor, high: torch.Tensor, scale_num: torch.Tensor, scale_den: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The first output pixel whose centre lies in low..high after scaling, and their number."""
        centres = scale_den * (2 * torch.arange(0, 40) + 1)
        inside = (centres >= 2 * (low * scale_num)[:, None]) & (centres < 2 * (high * scale_num)[:, None])
        return inside.int().argmax(1), inside.sum(1)

    def test_every_place_is_alike_in_the_output(self) -> None:
        """Read off the boxes of the pastes: a 4x3 object in the corner of every picture of 9x8 pixels."""
        num, height, width = 200, 8, 9
        masks = torch.zeros(num, 2, height, width, dtype=torch.bool)
        masks[:, 0, 5:, 5:] = True
        batch = PaddedBatchedDenseSample(
            images=torch.zeros(num, 3, height, width, dtype=torch.uint8),
            boxes=torch.tensor([[5.0, 5.0, 9.0, 8.0], [0.0, 0.0, 0.0, 0.0]]).repeat(num, 1, 1),
            labels=torch.zeros(num, 2, dtype=torch.int64),
            instance_valid=torch.tensor([True, False]).repeat(num, 1),
            instance_ids=torch.tensor([1, 0], dtype=torch.int32).repeat(num, 1),
            instance_masks=masks,
        )
        placement = PlacementConfig(paste_prob=1.0, scale_range=(1.0, 1.0))
        module = BatchCopyPaste(
            BatchCopyPasteConfig(placement=placement, min_residual_area_frac=0.0, source=EVERY_OBJECT)
        )
        counts = np.zeros((6, 6), np.int64)
        for first in range(0, 4_000, num):
            out = module(batch.derived(sample_seeds=torch.arange(first, first + num)))
            rows, slots = torch.nonzero(out.instance_ids == 2, as_tuple=True)
            assert rows.tolist() == list(range(num))
            x, y = out.boxes[rows, slots, :2].long().T
            np.add.at(counts, (x, y), 1)
        assert_uniform(counts.ravel())


class TestSlots:
    @pytest.mark.parametrize("num", [1, 2, 3])
    def test_all_subsets_over_two_layers_are_alike(self, num: int) -> None:
        assert_uniform(subset_counts(draw(SMALL, layers=2, k_range=(num, num)), num))

    def test_all_pairs_are_alike_where_two_slots_are_free(self) -> None:
        """The cap takes a random part of the slots that the count would have taken."""
        assert_uniform(subset_counts(draw(SMALL, layers=2, k_range=(4, 256), num_free=2), 2))

    def test_slots_that_are_not_eligible_leave_the_others_alike(self) -> None:
        boxes = [(3 * k, k, 3 * k + 2, k + 1) for k in range(6)]
        placement = draw(boxes, eligible=[False, True, True, False, True, True], k_range=(2, 2))
        assert not placement.carried[..., [0, 3]].any()
        found = dict(zip(combinations(range(6), 2), subset_counts(placement, 2), strict=True))
        assert_uniform(np.array([found.pop(pair) for pair in combinations((1, 2, 4, 5), 2)]))
        assert not any(found.values())

    def test_the_count_does_not_tell_which(self) -> None:
        """One or two of three slots give six outcomes, all equally likely."""
        placement = draw(SMALL, k_range=(1, 2))
        assert_uniform(np.concatenate([subset_counts(placement, 1), subset_counts(placement, 2)]))

    def test_slot_flip_and_scale_do_not_know_of_one_another(self) -> None:
        placement = draw(SMALL, k_range=(1, 1), scale_range=(0.75, 1.25))
        large = (placement.scale_num[:, 0, 0] >= SCALE_DEN).long()
        slot = placement.carried[:, 0].int().argmax(1)
        assert_uniform(np.bincount(slot + 3 * placement.hflip[:, 0] + 6 * large, minlength=12))


class TestSources:
    """The rows of a batch stand for four equal shares of it."""

    def test_source_and_slot_do_not_know_of_one_another(self) -> None:
        placement = draw(SMALL, k_range=(1, 1))
        slot = placement.carried[:, 0].int().argmax(1)
        assert_uniform(np.bincount(placement.source_idx[:, 0] % 4 + 4 * slot, minlength=12))

    def test_targets_of_a_batch_choose_alone(self) -> None:
        share = draw(SMALL).source_idx[:, 0] % 4
        assert_uniform(np.bincount(share[::2] + 4 * share[1::2], minlength=16))

    def test_a_target_chooses_anew_with_another_seed(self) -> None:
        share = draw(SMALL).source_idx[:, 0] % 4
        first, second = share.view(-1, 2, ROWS).unbind(1)
        assert_uniform(np.bincount((first + 4 * second).flatten(), minlength=16))

    def test_rows_of_equal_seeds_are_alike(self) -> None:
        """Equal rows occur if a loader gives the same sample twice: every other row is as likely."""
        counts, batch = np.zeros((5, 5), np.int64), picture_rows(5, len(SMALL))
        for seed in range(400):
            wanted = request(torch.full((5,), seed), occupied=SMALL, extent=(40, 40))
            _, placement, _ = IntraBatchSource().sample(batch, torch.ones(5, 3, dtype=torch.bool), wanted)
            np.add.at(counts, (np.arange(5), placement.source_idx[:, 0].numpy()), 1)
        assert not counts.diagonal().any()
        for row in range(5):
            assert_uniform(np.delete(counts[row], row))
