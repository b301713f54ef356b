"""Scales that are limited to those at which objects fit, by every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from placement_inputs import request, sources

from samples import CPU_BACKENDS, make_batch, paste, put_box
from segpaste.augmentation import BatchCopyPasteConfig, PlacementConfig
from segpaste.augmentation.sources.strategies import draw_placement
from segpaste.engine import use_backend
from segpaste.engine.schema import SCALE_DEN

pytestmark = pytest.mark.parametrize("kernels", CPU_BACKENDS)


def scales(kernels: str, boxes: Any, num: int = 8000, **options: Any) -> tuple[np.ndarray[Any, Any], int]:
    """Scales of layers with these boxes in images of 130 x 90 pixels, and how many pastes did not fit."""
    with use_backend(kernels):
        asked = request(torch.arange(num), extent=(130, 90), scale_to_fit=True, **options)
        placement, counts = draw_placement(asked, sources(num, boxes, extent=(130, 90)))
    return (placement.scale_num[:, 0, 0] / SCALE_DEN).numpy(), int(counts.does_not_fit.sum())


def test_uniform_over_the_part_that_fits(kernels: str) -> None:
    """An object of 100 x 45 pixels in 130 x 90: from 0.5 to 1.3; both axes limit."""
    for box in ((10, 5, 110, 50), (10, 5, 35, 74)):
        limit = min(130 / (box[2] - box[0]), 90 / (box[3] - box[1]), 2.0)
        found, num_lost = scales(kernels, [box], scale_range=(0.5, 2.0))
        assert num_lost == 0
        assert found.max() <= limit
        assert_uniform(np.histogram(found, 20, (0.5, limit))[0])


def test_the_rectangle_around_all_decides(kernels: str) -> None:
    found, num_lost = scales(kernels, [(0, 0, 5, 5), (95, 0, 104, 8)], k_range=(2, 2), scale_range=(0.5, 2.0))
    assert num_lost == 0
    assert 1.2 < found.max() <= 130 / 104


def test_the_smallest_where_none_fits(kernels: str) -> None:
    found, num_lost = scales(kernels, [(0, 0, 120, 80)], num=50, scale_range=(1.5, 3.0))
    assert (found == 1.5).all()
    assert num_lost == 50


def test_all_scales_fit_a_small_object(kernels: str) -> None:
    """The draw is then the one without the option, bit for bit."""
    boxes = [(3, 4, 10, 9)]
    one, _ = scales(kernels, boxes, scale_range=(0.5, 2.0))
    with use_backend(kernels):
        asked = request(torch.arange(8000), extent=(130, 90), scale_to_fit=False, scale_range=(0.5, 2.0))
        placement, _ = draw_placement(asked, sources(8000, boxes, extent=(130, 90)))
    assert np.array_equal(one, placement.scale_num[:, 0, 0] / SCALE_DEN)


def test_sizes_are_limited_too(kernels: str) -> None:
    options = {"grouping": "instance", "scale_range": (0.1, 8.0), "size_range": {"low": 100, "high": 300}}
    found, num_lost = scales(kernels, [(0, 0, 20, 30)], **options)
    assert num_lost == 0
    assert 2.9 < found.max() <= 3


def test_large_objects_are_placed_as_often_as_small_ones(kernels: str) -> None:
    batch = make_batch(6, size=(90, 130), num_instances=0, max_instances=40, modalities=("instance",), seed=2)
    for k, box in enumerate(((2, 2, 122, 84), (20, 10, 30, 30), (60, 40, 110, 80), (5, 60, 9, 64))):
        put_box(batch, slice(None), k, box, 1)
    placed = {}
    for fits in (True, False):
        placement = PlacementConfig(paste_prob=1.0, grouping="instance", layers=12, scale_to_fit=fits)
        _, report = paste(batch, BatchCopyPasteConfig(placement=placement), backend=kernels)
        placed[fits] = report.drawn.sum((0, 1))
        assert int(report.num_intended.sum()) == int(report.num_tried.sum())
        if fits:
            assert int(report.drawn.sum()) == int(report.num_intended.sum())
    assert placed[True][0] > 2 * placed[False][0]
