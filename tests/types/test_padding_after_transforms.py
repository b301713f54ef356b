"""A transform that moves the pixels of a padded batch leaves its padding to the right and below, in every field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2

from samples import EVERY_OBJECT, assert_same, batch_of, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig
from segpaste.types import PaddedBatchedDenseSample

K = 6
HEIGHTS, WIDTHS = (13, 17, 9), (9, 8, 11)

MOVES: dict[str, Callable[[], Any]] = {
    "hflip": lambda: v2.RandomHorizontalFlip(1.0),
    "vflip": lambda: v2.RandomVerticalFlip(1.0),
    "both": lambda: v2.Compose([v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0)]),
    "pad": lambda: v2.Pad([3, 2, 1, 4]),
    "zoom_out": lambda: v2.RandomZoomOut(p=1.0),
    "center_crop": lambda: v2.CenterCrop((30, 26)),
}


def mixed_batch(dtype: torch.dtype = torch.float32) -> PaddedBatchedDenseSample:
    """Pictures of several sizes on one canvas, with every field."""
    samples = [
        make_samples(3, image_dtype=dtype, metric_depth=True, padding=(17 - HEIGHTS[i], 11 - WIDTHS[i]))[i]
        for i in range(3)
    ]
    return batch_of(samples, K, sample_seeds=torch.arange(3))


def pictures(batch: PaddedBatchedDenseSample) -> list[dict[str, Tensor]]:
    """Return the content of each row inside its picture, cut out, and where its boxes and camera are in it."""
    assert batch.padding_mask is not None
    out = []
    for b in range(batch.batch_size):
        inside = ~batch.padding_mask[b, 0]
        rows, cols = inside.any(1), inside.any(0)
        corner = torch.tensor([int(cols.int().argmax()), int(rows.int().argmax())], dtype=torch.float32)
        names = ("images", "instance_masks", "semantic_maps", "panoptic_maps", "depth", "depth_valid", "normals")
        found = {name: getattr(batch, name)[b][..., rows, :][..., cols] for name in names}
        valid = batch.instance_valid[b]
        found["boxes"] = batch.boxes[b][valid] - corner.repeat(2)
        camera = batch.camera_intrinsics[b]
        found["camera"] = torch.cat([camera[:2], camera[2:] - corner])
        out.append(found)
    return out


@pytest.mark.parametrize("name", MOVES)
class TestPadding:
    def test_lies_right_and_below(self, name: str) -> None:
        torch.manual_seed(0)
        moved = MOVES[name]()(mixed_batch())
        again = moved.to_batched().to_padded(K, sample_seeds=moved.sample_seeds)
        assert_same(again, moved)
        for inside in ~moved.padding_mask[:, 0]:
            rows, cols = int(inside.any(1).sum()), int(inside.any(0).sum())
            assert inside[:rows, :cols].all()
            assert inside.sum() == rows * cols > 0

    def test_every_picture_is_the_one_of_the_ragged_batch(self, name: str) -> None:
        """The ragged batch is moved as it is, wherever its padding ends up."""
        batch = mixed_batch()
        torch.manual_seed(0)
        moved = pictures(MOVES[name]()(batch))
        torch.manual_seed(0)
        ragged = MOVES[name]()(batch.to_batched())
        for b, (found, sample) in enumerate(zip(moved, ragged.to_samples(), strict=True)):
            free = replace(sample, padding_mask=None)
            padded = batch_of([free], K)
            expected = pictures(replace(padded, padding_mask=sample.padding_mask[None]))[0]
            for key in expected:
                torch.testing.assert_close(found[key], expected[key], rtol=0, atol=1e-4, msg=f"{key} of image {b}")


class TestPastes:
    @pytest.mark.parametrize("name", MOVES)
    def test_padding_gives_no_colour(self, name: str) -> None:
        """Pictures are white and padding is black: what is pasted, enlarged, has no other colour than white."""
        module = BatchCopyPaste(
            BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, scale_range=(1.3, 1.9)), source=EVERY_OBJECT)
        )
        plain, num_placed = white_batch(), 0
        torch.manual_seed(0)
        moved = MOVES[name]()(plain)
        seen = ~moved.padding_mask.expand_as(moved.images)
        assert moved.images[seen].min() == 200
        for first in range(0, 40, 2):
            seeds = torch.arange(first, first + 2)
            out, report = module(moved.derived(sample_seeds=seeds), return_report=True)
            num_placed += int(report.num_placed.sum())
            assert out.images[seen].min() == 200
        assert num_placed > 3


def white_batch() -> PaddedBatchedDenseSample:
    """Two white pictures with an object at their right border, and black padding beside them."""
    padding = torch.zeros(2, 1, 40, 40, dtype=torch.bool)
    padding[..., 24:] = padding[..., 36:, :] = True
    masks = torch.zeros(2, 4, 40, 40, dtype=torch.bool)
    masks[:, 0, 10:20, 12:24] = True
    valid = torch.zeros(2, 4, dtype=torch.bool)
    valid[:, 0] = True
    boxes = torch.zeros(2, 4, 4)
    boxes[:, 0] = torch.tensor([12.0, 10.0, 24.0, 20.0])
    return PaddedBatchedDenseSample(
        images=torch.where(padding, 0, 200).to(torch.uint8).expand(2, 3, 40, 40).contiguous(),
        boxes=boxes,
        labels=valid.long(),
        instance_valid=valid,
        instance_ids=valid.int(),
        instance_masks=masks,
        padding_mask=padding,
        sample_seeds=torch.arange(2),
    )


class TestOtherwise:
    def test_a_transform_that_moves_nothing_leaves_padding_where_it_is(self) -> None:
        batch = mixed_batch()
        mirrored = replace(batch, padding_mask=batch.padding_mask.flip(-1))  # type: ignore[union-attr]
        for transform in (v2.ColorJitter(0.5), v2.RandomHorizontalFlip(0.0), v2.Identity()):
            assert torch.equal(transform(mirrored).padding_mask, mirrored.padding_mask)

    def test_two_flips_are_none(self) -> None:
        flip = v2.RandomHorizontalFlip(1.0)
        for twice, once in zip(pictures(flip(flip(mixed_batch()))), pictures(mixed_batch()), strict=True):
            for key in once:
                torch.testing.assert_close(twice[key], once[key], msg=key)

    def test_an_image_that_is_all_padding(self) -> None:
        batch = mixed_batch()
        nothing = replace(batch, padding_mask=torch.ones_like(batch.padding_mask))  # type: ignore[arg-type]
        moved = v2.RandomHorizontalFlip(1.0)(nothing)
        assert torch.equal(moved.images, nothing.images.flip(-1))

    def test_the_order_of_channels_in_memory_is_kept(self) -> None:
        batch = mixed_batch()
        images = batch.images.contiguous(memory_format=torch.channels_last)
        moved = v2.RandomHorizontalFlip(1.0)(replace(batch, images=images))
        assert moved.images.is_contiguous(memory_format=torch.channels_last)
