"""Sending and copying staged crops moves the tensors, not the memory that some of them are views of."""

from __future__ import annotations

import pickle

import pytest
import torch

from samples import POINTS
from segpaste.types import StagedCrops
from segpaste.types.staged import SHAPES, of_buffer, places_of

NAMES = ("images", "alphas", "class_ids", "boxes", "crop_idx", "scales")


def staged(num_targets: int) -> StagedCrops:
    """As `segpaste.stage_bank_batch` makes it: all tensors in one buffer."""
    sizes = {"B": num_targets, "K": 2, "h": 32, "w": 32, "P": POINTS.num_points}
    shapes = {
        name: (dtype, tuple(sizes[n] if isinstance(n, str) else n for n in shape))
        for name, (shape, dtype) in ((name, SHAPES[name]) for name in NAMES)
    }
    places, size = places_of(shapes)
    said = {"metric_depth": False, "keypoint_schema": POINTS if "keypoints" in NAMES else None, "version": "version"}
    return of_buffer(torch.arange(size).remainder(2).to(torch.uint8), places, said)


def assert_same(one: StagedCrops, other: StagedCrops) -> None:
    for name in NAMES:
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0, equal_nan=True)


def memory_of(crops: StagedCrops) -> int:
    return sum({s.data_ptr(): s.nbytes() for n in NAMES for s in [getattr(crops, n).untyped_storage()]}.values())


@pytest.mark.parametrize("num", [0, 1, 63, 64])
def test_a_pickle_of_the_first(num: int) -> None:
    whole = staged(64)
    first = whole.first(num)
    pickled = pickle.dumps(first)
    assert len(pickled) < 3000 + len(pickle.dumps(whole)) * num / 64
    restored = pickle.loads(pickled)
    assert_same(restored, first)
    assert memory_of(restored) <= memory_of(whole) * num / 64 + 6 * 64


def test_a_copy_of_the_first() -> None:
    """Moving it, as `to` and `pin_memory` do, moves no more than it holds."""
    first = staged(64).first(1)
    moved = first._moved(torch.clone)
    assert_same(moved, first)
    assert memory_of(moved) < 20_000


def test_the_whole_is_one_piece() -> None:
    whole = staged(4)
    restored = pickle.loads(pickle.dumps(whole))
    assert_same(restored, whole)
    assert len({getattr(restored, name).untyped_storage().data_ptr() for name in NAMES}) == 1


@pytest.mark.parametrize("num", [-1, 65])
def test_the_first_are_no_others(num: int) -> None:
    with pytest.raises(ValueError, match="expected 0 to 64 targets"):
        staged(64).first(num)
