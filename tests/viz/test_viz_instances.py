"""Instances in pictures: what is painted where, what was pasted, boxes, labels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import tv_tensors
from viz_cases import NAMES, border_layer, masks_of, neighbours, pixels_of, sample_with

from samples import Array, make_sample
from segpaste import viz
from segpaste.types import DenseSample
from segpaste.viz import palette
from segpaste.viz._marks import thing_plates, things_of


class TestInstances:
    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((9, 7)), pasted=st.booleans())
    def test_paint_stays_where_it_belongs(self, mask: Array, pasted: bool) -> None:
        image = torch.full((3, 9, 7), 120, dtype=torch.uint8)
        sample = sample_with((9, 7), mask[None], image)
        flags = torch.tensor([pasted])
        picture = viz.draw_instances(sample, pasted=flags, show_boxes=False, show_labels=False)
        changed = (picture != 120).any(-1)
        expected = mask | neighbours(mask) if pasted else mask
        assert np.array_equal(changed, expected)
        if not pasted:
            colour = palette.instance_color(1)
            assert (picture[border_layer(mask)] == colour).all()

    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((9, 7)))
    def test_pasted_outline_is_bright_and_its_rim_dark(self, mask: Array) -> None:
        sample = sample_with((9, 7), mask[None], torch.full((3, 9, 7), 120, dtype=torch.uint8))
        picture = viz.draw_instances(sample, pasted=torch.tensor([True]), show_boxes=False, show_labels=False)
        assert (picture[border_layer(mask)] == palette.HIGHLIGHT).all()
        assert (picture[neighbours(mask)].max(-1, initial=0) < 60).all()

    def test_pasted_differs_from_survivor(self) -> None:
        mask = np.zeros((1, 17, 11), bool)
        mask[0, 4:12, 3:9] = True
        sample = sample_with(masks=mask)
        survivor = viz.draw_instances(sample, pasted=torch.tensor([False]))
        assert np.array_equal(survivor, viz.draw_instances(sample))
        assert not np.array_equal(survivor, viz.draw_instances(sample, pasted=torch.tensor([True])))

    def test_pasted_lies_over_survivors(self) -> None:
        masks = np.zeros((2, 17, 11), bool)
        masks[0, 5:8, 4:7] = True
        masks[1] = True
        picture = viz.draw_instances(
            sample_with(masks=masks), pasted=torch.tensor([True, False]), show_boxes=False, show_labels=False
        )
        assert picture[5, 4].tolist() == list(palette.HIGHLIGHT)

    def test_nothing_to_draw(self) -> None:
        sample = sample_with()
        picture = viz.draw_instances(sample, pasted=torch.zeros(0, dtype=torch.bool))
        assert np.array_equal(picture, pixels_of(sample))

    def test_empty_mask_and_empty_box(self) -> None:
        sample = sample_with(masks=np.zeros((1, 17, 11), bool))
        picture = viz.draw_instances(sample, pasted=torch.tensor([True]), show_labels=False)
        assert np.array_equal(picture, pixels_of(sample))

    @pytest.mark.parametrize("corner", [(0, 0), (0, 10), (16, 0), (16, 10), (8, 5)])
    def test_one_pixel(self, corner: tuple[int, int]) -> None:
        mask = np.zeros((1, 17, 11), bool)
        mask[0][corner] = True
        sample = sample_with(masks=mask, ids=[40])
        picture = viz.draw_instances(sample, show_boxes=False, show_labels=False)
        changed = (picture != pixels_of(sample)).any(-1)
        assert changed.sum() == 1
        assert picture[corner].tolist() == list(palette.instance_color(40))

    def test_a_box_beyond_the_picture(self) -> None:
        sample = DenseSample(
            image=tv_tensors.Image(torch.zeros(3, 17, 11, dtype=torch.uint8)),
            boxes=tv_tensors.BoundingBoxes(
                torch.tensor([[20.0, 20, 25, 25], [-9, -9, -3, -2]]), format="XYXY", canvas_size=(17, 11)
            ),
            labels=torch.tensor([5, 5]),
        )
        assert not viz.draw_instances(sample, show_labels=False).any()

    def test_box_is_the_frame_of_the_pixels_it_covers(self) -> None:
        image = torch.full((3, 17, 11), 120, dtype=torch.uint8)
        sample = DenseSample(
            image=tv_tensors.Image(image),
            boxes=tv_tensors.BoundingBoxes(torch.tensor([[3.0, 2.0, 6.0, 9.0]]), format="XYXY", canvas_size=(17, 11)),
            labels=torch.tensor([5]),
        )
        changed = (viz.draw_instances(sample, show_labels=False) != 120).any(-1)
        expected = np.zeros((17, 11), bool)
        expected[2:9, 3:6] = True
        expected[3:8, 4:5] = False
        assert np.array_equal(changed, expected)

    def test_colour_follows_the_id(self) -> None:
        mask = np.zeros((1, 17, 11), bool)
        mask[0, 8, 5] = True
        pictures = [
            viz.draw_instances(sample_with(masks=mask, ids=[i]), show_boxes=False, show_labels=False) for i in (3, 4)
        ]
        assert pictures[0][8, 5].tolist() == list(palette.instance_color(3))
        assert not np.array_equal(*pictures)

    def test_labels_change_the_picture_and_can_be_left_out(self) -> None:
        mask = np.zeros((1, 64, 131), bool)
        mask[0, 20:60, 10:120] = True
        sample = sample_with((64, 131), mask, torch.full((3, 64, 131), 120, dtype=torch.uint8))
        plain = viz.draw_instances(sample, show_labels=False)
        assert len(np.unique(plain.reshape(-1, 3), axis=0)) == 3
        named = viz.draw_instances(sample, class_names=NAMES)
        assert not np.array_equal(plain, named)
        assert not np.array_equal(named, viz.draw_instances(sample, class_names={5: "horse"}))

    def test_labels_leave_a_tiny_picture_alone(self) -> None:
        mask = np.ones((1, 8, 8), bool)
        sample = sample_with((8, 8), mask)
        plain = viz.draw_instances(sample, show_labels=False)
        assert np.array_equal(viz.draw_instances(sample, class_names=NAMES), plain)

    @pytest.mark.parametrize("flags", [torch.tensor([True, False]), torch.tensor([1])])
    def test_flags_of_another_shape_or_dtype(self, flags: torch.Tensor) -> None:
        with pytest.raises(ValueError, match=r"pasted: expected bool \[1\]"):
            viz.draw_instances(sample_with(masks=np.ones((1, 17, 11), bool)), pasted=flags)


class TestRealPhotos:
    def test_crowded_photo(self, tmp_path: Path) -> None:
        root = os.environ.get("SEGPASTE_TEST_DATA")
        if not root:
            pytest.skip("set SEGPASTE_TEST_DATA=... to run on real photos")
        photo = next(iter(sorted(Path(root, "tiny_coco", "train2017").glob("*.jpg"))))
        with Image.open(photo) as image:
            pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).contiguous()
        height, width = pixels.shape[1:]
        masks = np.zeros((30, height, width), bool)
        for i in range(30):
            y, x = (i // 6) * height // 5, (i % 6) * width // 6
            masks[i, y : y + height // 6, x : x + width // 7] = True
        sample = sample_with((height, width), masks, pixels)
        picture = viz.draw_instances(sample, class_names=NAMES, pasted=torch.arange(30) % 2 == 0)
        untouched = ~masks.any(0)
        assert (picture == pixels.permute(1, 2, 0).numpy()).all(-1)[untouched].mean() > 0.5


def test_what_was_pasted_is_drawn_last_and_named_first_and_always() -> None:
    sample = make_sample(num_instances=3)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in sample.boxes.tolist()]
    largest, smallest = int(np.argmax(areas)), int(np.argmin(areas))
    for n in (largest, smallest):
        pasted = torch.arange(3) == n
        things = things_of(sample, pasted)
        assert [t.pasted for t in things] == [False, False, True]
        for min_side_px in (0, 1000):
            first, *_ = thing_plates(things, None, min_side_px)
            assert first.box == things[-1].box
