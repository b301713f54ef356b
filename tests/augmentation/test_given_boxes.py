"""Boxes of data without masks: what no paste touches keeps every bit, what is cut keeps its part, pastes are moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from test_mask_from import HERE
from torch import Tensor

from samples import CPU_BACKENDS, free_boxes, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig, PlacementCounts, SourceConfig
from segpaste.engine import Placement, use_backend
from segpaste.invariants import Case, instance_given_bbox_kept
from segpaste.types import PaddedBatchedDenseSample

SOURCES = ("boxes", "ellipse", HERE)


def config_of(mask_from: str = "boxes", **placement: Any) -> BatchCopyPasteConfig:
    place = PlacementConfig(**{"paste_prob": 1.0, "layers": 2, "grouping": "instance", **placement})
    return BatchCopyPasteConfig(placement=place, source=SourceConfig(mask_from=mask_from, whole_only=False))


def boxed(boxes: list[list[tuple[float, float, float, float]]], size: tuple[int, int] = (41, 47)) -> Any:
    """Return a batch with these boxes in each image, and room for as many pastes."""
    most = max(map(len, boxes))
    batch = make_batch(len(boxes), size=size, num_instances=0, max_instances=2 * most, modalities=())
    rows, valid = torch.zeros_like(batch.boxes), torch.zeros_like(batch.instance_valid)
    for b, given in enumerate(boxes):
        rows[b, : len(given)], valid[b, : len(given)] = torch.tensor(given), True
    return replace(batch, boxes=rows, labels=valid.long(), instance_valid=valid)


def same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


class Fixed:
    """Source that pastes slot 0 of the other of two images into both, with one map."""

    def __init__(self, translate: tuple[int, int], num: int = 1 << 16, *, hflip: bool = False) -> None:
        self.translate, self.num, self.hflip = translate, num, hflip

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: Any) -> Any:
        b, k = target.labels.shape
        pair = (b, 1, 2)
        carried = torch.zeros(b, 1, k, dtype=torch.bool)
        carried[:, 0, 0] = True
        placement = Placement(
            source_idx=torch.arange(b - 1, -1, -1)[:, None],
            layer_valid=torch.ones(b, 1, dtype=torch.bool),
            scale_num=torch.full(pair, self.num),
            scale_den=torch.full(pair, 1 << 16),
            translate=torch.tensor(self.translate).expand(pair).contiguous(),
            hflip=torch.full((b, 1), self.hflip),
            carried=carried,
        )
        zero = torch.zeros(b, dtype=torch.int64)
        return target, placement, PlacementCounts(zero + 1, zero, zero, zero)


SMALL = [(3.4, 5.3, 8.6, 9.9), (20.125, 20.5, 31.9, 24.0625), (-0.0, 30.2, 5.7, 33.1), (40.5, -3.5, 52.25, 3.3)]


@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
@pytest.mark.parametrize("mask_from", SOURCES)
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_without_a_paste_every_bit_stays(backend: str, inplace: bool, mask_from: str) -> None:
    """Small boxes had an IoU of 0.77 with themselves; they also stay where nothing is eligible."""
    batch = boxed([SMALL, SMALL[::-1]])
    for given in (batch, boxed([SMALL])):
        before = given.boxes.clone()
        with use_backend(backend):
            config = config_of(mask_from, paste_prob=1.0 if len(given.boxes) == 1 else 0.0)
            out = BatchCopyPaste(config, inplace=inplace)(given.clone() if inplace else given)
        assert same_bits(out.boxes, before)
        assert torch.equal(out.instance_valid, given.instance_valid)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_by_hand(backend: str, inplace: bool) -> None:
    """The paste of 3.4..8.6 x 5.3..9.9 covers the pixels 20..25 x 15..19: a box is cut, one is only near."""
    own = [(3.4, 5.3, 8.6, 9.9), (17.3, 16.25, 22.7, 18.5), (26.0, 12.5, 30.1, 30.9), (14.2, 18.75, 45.5, 21.125)]
    batch = boxed([own, own])
    paste = BatchCopyPaste(config_of(layers=1), Fixed((17, 10)), inplace=inplace)
    with use_backend(backend):
        out = paste(batch.clone())
    expected = batch.boxes.clone()
    expected[:, 1] = torch.tensor([17.3, 16.25, 20.0, 18.5])
    expected[:, 3] = torch.tensor([14.2, 18.75, 45.5, 21.125])  # it is cut within, and no edge moves
    expected[:, 4] = torch.tensor([20.4, 15.3, 25.6, 19.9])
    assert same_bits(out.boxes, expected)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_a_flipped_enlarged_paste(backend: str) -> None:
    """The image is 47 wide, so 3.4..8.6 is flipped to 38.4..43.6; times 1.5, minus 50, it is 7.6..15.4."""
    batch = boxed([[(3.4, 5.3, 8.6, 9.9)]] * 2)
    with use_backend(backend):
        out = BatchCopyPaste(config_of(layers=1), Fixed((-50, 20), 3 << 15, hflip=True))(batch)
    x1, x2 = (47 - np.float64(np.float32(x)) for x in (8.6, 3.4))
    y1, y2 = (np.float64(np.float32(y)) for y in (5.3, 9.9))
    exact = [x1 * 1.5 - 50, y1 * 1.5 + 20, x2 * 1.5 - 50, y2 * 1.5 + 20]
    assert same_bits(out.boxes[0, 1], torch.tensor(exact, dtype=torch.float64).float())


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_a_paste_that_shows_pixels_beyond_its_box(backend: str) -> None:
    """At scale 4 the pixels 3..9 reach to 36, the box to 34.4; only from 35 on it is inside of the image."""
    batch = boxed([[(3.4, 5.3, 8.6, 9.9)]] * 2)
    with use_backend(backend):
        out = BatchCopyPaste(config_of(layers=1), Fixed((-35, -10), 4 << 16))(batch)
    assert out.boxes[0, 1].tolist() == [0.0, 10.0, 1.0, 30.0]


def free_batch(seed: int) -> PaddedBatchedDenseSample:
    batch = make_batch(3, size=(23, 29), num_instances=4, max_instances=9, modalities=(), seed=seed, padding=(2, 3))
    return free_boxes(batch, np.random.default_rng(seed))


@pytest.mark.parametrize("mask_from", SOURCES)
@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_both_paths_keep_the_invariant(backend: str, mask_from: str) -> None:
    """Pastes in place are equal to the last bit, and the input changes in place only."""
    config, batch = config_of(mask_from, scale_range=(0.3, 3.0), partial="clip", min_visible_frac=0.1), free_batch(5)
    with use_backend(backend):
        out, report = BatchCopyPaste(config)(batch, return_report=True)
        assert report.num_placed.sum() > 3
        assert same_bits(batch.boxes, free_batch(5).boxes)
        assert instance_given_bbox_kept(Case(batch, out, report, config)) == []
        found = BatchCopyPaste(config, inplace=True)(batch)
    assert found.boxes is batch.boxes
    assert same_bits(found.boxes, out.boxes)


def test_compiled_in_place() -> None:
    config, batch = config_of(scale_range=(0.3, 3.0)), free_batch(5)
    out = BatchCopyPaste(config)(batch)
    found = torch.compile(BatchCopyPaste(config, inplace=True), fullgraph=True, backend="aot_eager")(batch)
    assert found.boxes is batch.boxes
    assert same_bits(found.boxes, out.boxes)


def test_a_source_of_boxes_alone_gets_masks() -> None:
    """A source strategy may return rows without masks; they are treated as those of the batch."""
    batch, other = free_batch(7), free_batch(8)

    class Others(Fixed):
        def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: Any) -> Any:
            return other, *super().sample(target, eligible, request)[1:]

    config = config_of(layers=1)
    out, report = BatchCopyPaste(config, Others((4, 3)))(batch, return_report=True)
    assert report.num_placed.any()
    assert instance_given_bbox_kept(Case(batch, out, report, config, source=other)) == []
