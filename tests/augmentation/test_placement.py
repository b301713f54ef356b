"""Places, scales, subsets and sources of a placement follow known distributions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from placement_inputs import request, sources

from segpaste.augmentation import (
    Placement,
    PlacementCounts,
)
from segpaste.augmentation.sources.strategies import draw_placement
from segpaste.engine.schema import SCALE_DEN

NUM = 20_000


def draw(boxes: Any, *, num: int = NUM, **options: Any) -> tuple[Placement, PlacementCounts]:
    """The placement of one layer of these boxes for ``num`` seeds."""
    return draw_placement(request(torch.arange(num), **options), sources(num, boxes))


class TestTranslation:
    @pytest.mark.parametrize("box", [(0, 0, 4, 3), (9, 6, 13, 9), (5, 2, 9, 5)])
    @pytest.mark.parametrize("flip", [0.0, 1.0])
    def test_uniform_over_where_it_fits(self, box: tuple[int, ...], flip: float) -> None:
        """The object is anywhere in its source; translations may be negative."""
        placement, _ = draw([box], hflip_probability=flip)
        left = 13 - box[2] if flip else box[0]
        where = placement.translate[:, 0] + torch.tensor([left, box[1]])
        assert where.min() >= 0
        assert_uniform(np.bincount(where[:, 0] * 7 + where[:, 1], minlength=70))  # 13 - 4 + 1 times 9 - 3 + 1 places
        assert placement.carried.all()

    def test_negative_where_the_object_is_right_or_below(self) -> None:
        placement, _ = draw([(9, 6, 13, 9)], hflip_probability=0.0)
        x, y = placement.translate[:, 0].T
        assert (int(x.min()), int(x.max())) == (-9, 0)
        assert (int(y.min()), int(y.max())) == (-6, 0)

    def test_uniform_for_the_rectangle_around_several(self) -> None:
        placement, _ = draw([(1, 1, 3, 3), (5, 2, 6, 8)], k_range=(2, 2), hflip_probability=0.0)
        where = placement.translate[:, 0] + 1
        assert_uniform(np.bincount(where[:, 0] * 3 + where[:, 1], minlength=27))  # it is 5 wide and 7 high
        assert placement.carried.all()

    def test_covers_the_picture_where_it_is_larger(self) -> None:
        """Two small objects far apart at scale 2: the rectangle around them is uniform over where it covers."""
        options = {"k_range": (2, 2), "hflip_probability": 0.0, "scale_range": (2.0, 2.0), "extent": (13, 9)}
        placement, counts = draw([(0, 0, 1, 1), (11, 7, 12, 8)], **options)
        x, y = placement.translate[:, 0].T  # 24 wide and 16 high
        assert_uniform(np.bincount(x + 11, minlength=12))
        assert_uniform(np.bincount(y + 7, minlength=8))
        assert (placement.carried.sum((1, 2)) + counts.does_not_fit == 2).all()

    def test_of_nothing_is_zero(self) -> None:
        placement, counts = draw([(2, 2, 5, 5)], paste_prob=0.0, num=50)
        assert not placement.translate.any()
        assert not placement.carried.any()
        assert not counts.tried.any()

    @pytest.mark.parametrize("box", [(0, 0, 13, 4), (0, 0, 4, 9), (0, 0, 13, 9)])
    def test_exact_fit(self, box: tuple[int, ...]) -> None:
        """As wide or as high as the picture: it fits in one place along that axis, and is carried there."""
        placement, _ = draw([box], num=200)
        assert placement.carried.all()

    @pytest.mark.parametrize("box", [(0, 0, 13, 1), (0, 0, 1, 9), (0, 0, 13, 9)])
    def test_larger_than_the_picture_does_not_fit(self, box: tuple[int, ...]) -> None:
        placement, counts = draw([box], num=200, scale_range=(3.0, 4.0))
        assert not placement.carried.any()
        assert (counts.does_not_fit == 1).all()
        assert (counts.tried == 1).all()

    def test_keeps_inside_the_valid_extent(self) -> None:
        """The target's picture is smaller than its canvas; so is the box's own source, about which it is mirrored."""
        layer = sources(NUM, [(1, 0, 4, 3)], extent=(6, 9))
        wanted = request(torch.arange(NUM), extent=(7, 5), hflip_probability=1.0)
        placement, _ = draw_placement(wanted, layer)
        where = placement.translate[:, 0] + torch.tensor([2, 0])  # columns 1..3 of 6, mirrored, are 2..4
        assert_uniform(np.bincount(where[:, 0] * 3 + where[:, 1], minlength=15))


class TestAttempts:
    def test_the_least_overlap_of_all_wins(self) -> None:
        """The best of 64 places avoids the occupied left half wherever it can."""
        occupied = ((0, 0, 7, 9),)
        one, _ = draw([(0, 0, 4, 3)], num=500, occupied=occupied, hflip_probability=0.0)
        many, _ = draw([(0, 0, 4, 3)], num=500, occupied=occupied, hflip_probability=0.0, max_attempts=64)
        assert (one.translate[:, 0, 0] < 7).float().mean() > 0.5
        assert (many.translate[:, 0, 0] >= 7).all()

    def test_more_slots_inside_win_over_less_overlap(self) -> None:
        """A wide pair that fits only where it overlaps, or half of it beside."""
        boxes = [(0, 0, 2, 2), (20, 0, 22, 2)]  # 22 wide, over 13: never both
        occupied = ((0, 0, 13, 9),)
        placement, _ = draw(boxes, num=500, k_range=(2, 2), occupied=occupied, hflip_probability=0.0, max_attempts=64)
        assert (placement.carried.sum((1, 2)) == 1).all()

    def test_the_first_attempt_is_the_only_one_of_one(self) -> None:
        """More attempts change neither scale nor flip, nor the place where all places are as good."""
        options = {"num": 300, "scale_range": (0.5, 2.0)}
        one, few = draw([(0, 0, 2, 2)], **options), draw([(0, 0, 2, 2)], max_attempts=5, **options)
        for name in ("scale_num", "hflip", "translate", "carried"):
            assert torch.equal(getattr(one[0], name), getattr(few[0], name)), name


class TestScale:
    @pytest.mark.parametrize("scale", [1.0, 0.5, 2.0, 0.75])
    def test_a_single_scale_is_exact(self, scale: float) -> None:
        placement, _ = draw([(0, 0, 2, 2)], num=50, scale_range=(scale, scale))
        assert (placement.scale_num == (scale * placement.scale_den).round()).all()
        assert (placement.scale_den == SCALE_DEN).all()

    @pytest.mark.parametrize("scale_range", [(0.1, 0.3), (1 / 3, 2 / 3), (0.5, 2.0)])
    def test_stays_in_its_range(self, scale_range: tuple[float, float]) -> None:
        placement, _ = draw([(0, 0, 2, 2)], scale_range=scale_range)
        low, high = scale_range
        assert placement.scale_num.min() >= low * SCALE_DEN
        assert placement.scale_num.max() <= high * SCALE_DEN

    @pytest.mark.parametrize("box", [(0, 0, 2, 2), (11, 7, 13, 9), (6, 4, 8, 6)])
    def test_large_ones_do_not_vanish(self, box: tuple[int, ...]) -> None:
        """Carried objects are as often large as small, wherever they are in their source."""
        placement, _ = draw([box], scale_range=(0.5, 4.0), hflip_probability=0.0)
        assert placement.carried.all()
        scale = placement.scale_num[:, 0, 0] / SCALE_DEN
        assert_uniform(np.histogram(scale, bins=7, range=(0.5, 4.0))[0])

    def test_flips_as_often_as_asked(self) -> None:
        placement, _ = draw([(0, 0, 2, 2)], hflip_probability=0.2)
        flipped = int(placement.hflip.sum())
        assert_uniform(np.array([flipped, NUM - flipped]), np.array([0.2, 0.8]))

    def test_scale_flip_and_place_are_independent(self) -> None:
        wanted = request(torch.arange(NUM), extent=(4, 1), scale_range=(0.9, 1.1), scale_to_fit=False)
        placement, _ = draw_placement(wanted, sources(NUM, [(0, 0, 1, 1)], extent=(1, 1)))
        large = (placement.scale_num[:, 0, 0] > SCALE_DEN).long()
        flipped = placement.hflip[:, 0].long()
        assert_uniform(np.bincount(placement.translate[:, 0, 0] + 4 * flipped + 8 * large, minlength=16))


class TestSubset:
    BOXES = tuple((2 * k, 0, 2 * k + 1, 1) for k in range(5))

    @pytest.mark.parametrize(("k_range", "num_free"), [((2, 2), 9), ((5, 9), 2), ((1, 256), 2)])
    def test_is_uniform_over_subsets(self, k_range: tuple[int, int], num_free: int) -> None:
        """Two of five, by count or by the slots that are free: all ten pairs alike, not the first two."""
        placement, counts = draw(self.BOXES, k_range=k_range, num_free=num_free)
        codes = (placement.carried[:, 0] * 2 ** torch.arange(5)).sum(1)
        two = placement.carried.sum((1, 2)) == 2
        assert_uniform(np.array([(codes[two] == 2**i + 2**j).sum() for i, j in combinations(range(5), 2)]))
        assert (placement.carried.sum((1, 2)) + counts.no_free_slot == counts.tried).all()

    def test_count_is_uniform_over_its_range(self) -> None:
        placement, counts = draw(self.BOXES, k_range=(2, 4))
        assert_uniform(np.bincount(placement.carried.sum((1, 2)), minlength=5)[2:])
        assert torch.equal(counts.tried, placement.carried.sum((1, 2)))

    def test_count_is_capped_by_what_there_is(self) -> None:
        placement, counts = draw(self.BOXES, k_range=(7, 9), num=50)
        assert placement.carried.all()
        assert (counts.tried == 5).all()

    def test_spreads_over_layers(self) -> None:
        """Three of ten slots of two layers: every slot of either layer alike."""
        wanted = request(torch.arange(NUM), k_range=(3, 3), layers=2, extent=(40, 40))
        placement, _ = draw_placement(wanted, sources(NUM, self.BOXES, layers=2))
        assert (placement.carried.sum((1, 2)) == 3).all()
        assert_uniform(placement.carried.sum(0).flatten().numpy())

    def test_nothing_without_a_free_slot(self) -> None:
        placement, counts = draw(self.BOXES, num_free=0, num=100, k_range=(2, 2))
        assert not placement.carried.any()
        assert (counts.no_free_slot == 2).all()

    @pytest.mark.parametrize("paste_prob", [0.0, 0.3, 1.0])
    def test_pastes_into_as_many_images_as_asked(self, paste_prob: float) -> None:
        placement, counts = draw(self.BOXES, paste_prob=paste_prob)
        num = int(placement.carried.any((1, 2)).sum())
        assert torch.equal(counts.tried > 0, placement.carried.any((1, 2)))
        if paste_prob in (0.0, 1.0):
            assert num == paste_prob * NUM
        else:
            assert_uniform(np.array([num, NUM - num]), np.array([paste_prob, 1 - paste_prob]))
