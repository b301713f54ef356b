"""Pictures of samples: what is drawn where, sheets and files, the HTML report."""

from __future__ import annotations

import colorsys
import dataclasses
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import tv_tensors

import samples
from segpaste import viz
from segpaste.types import (
    IGNORE_INDEX,
    CameraIntrinsics,
    DenseSample,
    InstanceMask,
    Modality,
    PanopticMap,
    SemanticMap,
)
from segpaste.types.check import MAX_FED_BACK_ID
from segpaste.viz import compare, draw_depth, gallery, marks, palette, shapes, text
from segpaste.viz.marks import thing_plates, things_of
from segpaste.viz.palette import class_color, instance_color
from segpaste.viz.shapes import blend, segment_borders
from segpaste.viz.text import plain

SIZES = [(17, 11), (8, 8), (1, 1), (64, 131)]
NAMES = {0: "wall", 1: "floor", 5: "cat", 7: "dog"}


def make_sample(size=(17, 11), masks=None, image=None, ids=None, labels=None, **fields) -> DenseSample:
    height, width = size
    masks = np.zeros((0, height, width), bool) if masks is None else np.asarray(masks, bool)
    n = len(masks)
    boxes = np.zeros((n, 4), np.float32)
    for i, mask in enumerate(masks):
        rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        if rows.size:
            boxes[i] = cols[0], rows[0], cols[-1] + 1, rows[-1] + 1
    if image is None:
        image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, height, width), dtype=np.uint8))
    return DenseSample(
        image=tv_tensors.Image(image),
        boxes=tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=size),
        labels=torch.tensor([5] * n if labels is None else labels, dtype=torch.int64),
        instance_ids=torch.tensor(range(1, n + 1) if ids is None else ids, dtype=torch.int32),
        instance_masks=InstanceMask(torch.from_numpy(masks)),
        **fields,
    )


def full_sample(size=(17, 11), seed=0) -> DenseSample:
    """Two things, two stuff classes, an ignored and depthless corner."""
    height, width = size
    rng = np.random.default_rng(seed)
    masks = np.zeros((2, height, width), bool)
    masks[0, : height // 2, : width // 2] = True
    masks[1, height // 2 :, width // 2 :] = True
    semantic = np.where(np.arange(height)[:, None] < height // 2, 0, 1) * np.ones((1, width), np.int64)
    semantic[masks[0]], semantic[masks[1]] = 5, 7
    free = ~masks.any(0)
    semantic[free & (rng.random(size) < 0.2)] = IGNORE_INDEX
    valid = semantic != IGNORE_INDEX
    normals = rng.standard_normal((3, height, width)).astype(np.float32)
    normals = np.where(valid, normals / np.linalg.norm(normals, axis=0), 0).astype(np.float32)
    return make_sample(
        size,
        masks,
        labels=[5, 7],
        semantic_map=SemanticMap(torch.from_numpy(semantic)),
        panoptic_map=PanopticMap(torch.from_numpy(masks[0] * 1 + masks[1] * 2)),
        depth=torch.from_numpy(rng.uniform(1, 4, (1, height, width)).astype(np.float32)),
        depth_valid=torch.from_numpy(valid[None]),
        normals=torch.from_numpy(normals),
        camera_intrinsics=CameraIntrinsics(20, 20, width / 2, height / 2),
        metric_depth=True,
    )


def pixels_of(sample: DenseSample) -> np.ndarray:
    return sample.image.as_subclass(torch.Tensor).permute(1, 2, 0).numpy()


def neighbours(mask: np.ndarray) -> np.ndarray:
    """Slow reference: the pixels beside a pixel of the mask."""
    out = np.zeros_like(mask)
    for y, x in np.argwhere(mask):
        for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if 0 <= v < mask.shape[0] and 0 <= u < mask.shape[1]:
                out[v, u] = True
    return out & ~mask


def border_layer(mask: np.ndarray) -> np.ndarray:
    """Slow reference: the pixels of the mask that touch a pixel outside it, or the edge of the picture."""
    padded = np.pad(mask, 1)
    return mask & neighbours(~padded)[1:-1, 1:-1]


def masks_of(size: tuple[int, int]) -> st.SearchStrategy[np.ndarray]:
    count = size[0] * size[1]
    return st.lists(st.booleans(), min_size=count, max_size=count).map(lambda v: np.array(v).reshape(size))


class TestEveryView:
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("modality", list(Modality))
    def test_shape_and_dtype(self, size, modality):
        picture = viz.draw(full_sample(size), modality, {"class_names": NAMES})
        assert picture.shape == (*size, 3)
        assert picture.dtype == np.uint8

    @pytest.mark.parametrize("modality", list(Modality))
    def test_deterministic_and_input_untouched(self, modality):
        sample = full_sample((64, 131))
        image, masks = sample.image.clone(), sample.instance_masks.clone()
        first = viz.draw(sample, modality, {})
        assert np.array_equal(first, viz.draw(sample, modality, {}))
        assert torch.equal(sample.image, image)
        assert torch.equal(sample.instance_masks, masks)

    def test_the_table_has_every_modality(self):
        assert set(viz.VIEWS) == set(Modality)

    @pytest.mark.parametrize("modality", [m for m in Modality if m not in (Modality.IMAGE, Modality.INSTANCE)])
    def test_missing_modality_is_named(self, modality):
        with pytest.raises(ValueError, match="expected a sample with"):
            viz.draw(make_sample(), modality, {})


class TestImage:
    def test_uint8_is_copied(self):
        sample = make_sample()
        picture = viz.draw_image(sample)
        assert np.array_equal(picture, pixels_of(sample))
        picture[:] = 0
        assert pixels_of(sample).any()

    def test_float_ranges_agree(self):
        byte = torch.arange(3 * 17 * 11, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(3, 17, 11)
        expected = byte.permute(1, 2, 0).numpy()
        unit, wide = make_sample(image=byte.float() / 255), make_sample(image=byte.float())
        assert np.array_equal(viz.draw_image(unit), expected)
        assert np.array_equal(viz.draw_image(wide, value_range=(0, 255)), expected)

    def test_the_range_is_not_guessed(self):
        wide = make_sample(image=torch.full((3, 17, 11), 200.0))
        with pytest.raises(ValueError, match=r"value_range=\(0, 255\)"):
            viz.draw_image(wide)
        dark = make_sample(image=torch.full((3, 17, 11), 1.0))
        assert viz.draw_image(dark, value_range=(0, 255)).max() == 1

    def test_overshoot_is_clipped_and_nan_is_black(self):
        image = torch.full((3, 17, 11), 1.2)
        image[:, 0], image[:, 1], image[:, 2] = -0.2, torch.nan, torch.inf
        picture = viz.draw_image(make_sample(image=image))
        assert (picture[3:] == 255).all()
        assert (picture[2] == 255).all()
        assert (picture[:2] == 0).all()

    def test_an_empty_range_is_refused(self):
        with pytest.raises(ValueError, match="low < high"):
            viz.draw_image(make_sample(image=torch.zeros(3, 17, 11)), value_range=(1, 1))

    def test_channels(self):
        grey = viz.draw_image(make_sample(image=torch.arange(187, dtype=torch.uint8).reshape(1, 17, 11)))
        assert (grey[..., 0] == grey[..., 2]).all()
        assert grey[0, 5].tolist() == [5, 5, 5]
        four = torch.arange(4 * 187, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(4, 17, 11)
        assert np.array_equal(viz.draw_image(make_sample(image=four)), four[:3].permute(1, 2, 0).numpy())
        with pytest.raises(ValueError, match="got 2"):
            viz.draw_image(make_sample(image=torch.zeros(2, 17, 11, dtype=torch.uint8)))


class TestInstances:
    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((9, 7)), pasted=st.booleans())
    def test_paint_stays_where_it_belongs(self, mask, pasted):
        image = torch.full((3, 9, 7), 120, dtype=torch.uint8)
        sample = make_sample((9, 7), mask[None], image)
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
    def test_pasted_outline_is_bright_and_its_rim_dark(self, mask):
        sample = make_sample((9, 7), mask[None], torch.full((3, 9, 7), 120, dtype=torch.uint8))
        picture = viz.draw_instances(sample, pasted=torch.tensor([True]), show_boxes=False, show_labels=False)
        assert (picture[border_layer(mask)] == palette.HIGHLIGHT).all()
        assert (picture[neighbours(mask)].max(-1, initial=0) < 60).all()

    def test_pasted_differs_from_survivor(self):
        mask = np.zeros((1, 17, 11), bool)
        mask[0, 4:12, 3:9] = True
        sample = make_sample(masks=mask)
        survivor = viz.draw_instances(sample, pasted=torch.tensor([False]))
        assert np.array_equal(survivor, viz.draw_instances(sample))
        assert not np.array_equal(survivor, viz.draw_instances(sample, pasted=torch.tensor([True])))

    def test_pasted_lies_over_survivors(self):
        masks = np.zeros((2, 17, 11), bool)
        masks[0, 5:8, 4:7] = True
        masks[1] = True
        picture = viz.draw_instances(
            make_sample(masks=masks), pasted=torch.tensor([True, False]), show_boxes=False, show_labels=False
        )
        assert picture[5, 4].tolist() == list(palette.HIGHLIGHT)

    def test_nothing_to_draw(self):
        sample = make_sample()
        picture = viz.draw_instances(sample, pasted=torch.zeros(0, dtype=torch.bool))
        assert np.array_equal(picture, pixels_of(sample))

    def test_empty_mask_and_empty_box(self):
        sample = make_sample(masks=np.zeros((1, 17, 11), bool))
        picture = viz.draw_instances(sample, pasted=torch.tensor([True]), show_labels=False)
        assert np.array_equal(picture, pixels_of(sample))

    @pytest.mark.parametrize("corner", [(0, 0), (0, 10), (16, 0), (16, 10), (8, 5)])
    def test_one_pixel(self, corner):
        mask = np.zeros((1, 17, 11), bool)
        mask[0][corner] = True
        sample = make_sample(masks=mask, ids=[40])
        picture = viz.draw_instances(sample, show_boxes=False, show_labels=False)
        changed = (picture != pixels_of(sample)).any(-1)
        assert changed.sum() == 1
        assert picture[corner].tolist() == list(palette.instance_color(40))

    def test_a_box_beyond_the_picture(self):
        sample = DenseSample(
            image=tv_tensors.Image(torch.zeros(3, 17, 11, dtype=torch.uint8)),
            boxes=tv_tensors.BoundingBoxes(
                torch.tensor([[20.0, 20, 25, 25], [-9, -9, -3, -2]]), format="XYXY", canvas_size=(17, 11)
            ),
            labels=torch.tensor([5, 5]),
        )
        assert not viz.draw_instances(sample, show_labels=False).any()

    def test_box_is_the_frame_of_the_pixels_it_covers(self):
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

    def test_colour_follows_the_id(self):
        mask = np.zeros((1, 17, 11), bool)
        mask[0, 8, 5] = True
        pictures = [
            viz.draw_instances(make_sample(masks=mask, ids=[i]), show_boxes=False, show_labels=False) for i in (3, 4)
        ]
        assert pictures[0][8, 5].tolist() == list(palette.instance_color(3))
        assert not np.array_equal(*pictures)

    def test_labels_change_the_picture_and_can_be_left_out(self):
        mask = np.zeros((1, 64, 131), bool)
        mask[0, 20:60, 10:120] = True
        sample = make_sample((64, 131), mask, torch.full((3, 64, 131), 120, dtype=torch.uint8))
        plain = viz.draw_instances(sample, show_labels=False)
        assert len(np.unique(plain.reshape(-1, 3), axis=0)) == 3
        named = viz.draw_instances(sample, class_names=NAMES)
        assert not np.array_equal(plain, named)
        assert not np.array_equal(named, viz.draw_instances(sample, class_names={5: "horse"}))

    def test_labels_leave_a_tiny_picture_alone(self):
        mask = np.ones((1, 8, 8), bool)
        sample = make_sample((8, 8), mask)
        plain = viz.draw_instances(sample, show_labels=False)
        assert np.array_equal(viz.draw_instances(sample, class_names=NAMES), plain)

    @pytest.mark.parametrize("flags", [torch.tensor([True, False]), torch.tensor([1])])
    def test_flags_of_another_shape_or_dtype(self, flags):
        with pytest.raises(ValueError, match=r"pasted: expected bool \[1\]"):
            viz.draw_instances(make_sample(masks=np.ones((1, 17, 11), bool)), pasted=flags)


class TestMaps:
    def test_semantic_paints_classes_and_hatches_ignore(self):
        grey = torch.full((3, 40, 31), 120, dtype=torch.uint8)
        semantic = torch.full((40, 31), 5)
        semantic[:20] = IGNORE_INDEX
        picture = viz.draw_semantic(make_sample((40, 31), image=grey, semantic_map=SemanticMap(semantic)))
        assert len(np.unique(picture[1:19].reshape(-1, 3), axis=0)) == 2
        assert (np.ptp(picture[1:19].astype(int), axis=-1) == 0).all()
        expected = 120 + (np.array(palette.class_color(5)) - 120) * marks.MAP_OPACITY
        assert np.abs(picture[39, 30] - expected).max() <= 1

    def test_panoptic_separates_things_of_one_class(self):
        masks = np.zeros((2, 17, 11), bool)
        masks[0, :, :5], masks[1, :, 5:] = True, True
        sample = make_sample(
            masks=masks,
            image=torch.full((3, 17, 11), 120, dtype=torch.uint8),
            semantic_map=SemanticMap(torch.full((17, 11), 5)),
            panoptic_map=PanopticMap(torch.from_numpy(masks[0] * 1 + masks[1] * 2)),
        )
        picture = viz.draw_panoptic(sample)
        assert not np.array_equal(picture[8, 1], picture[8, 9])
        semantic = viz.draw_semantic(sample)
        assert np.array_equal(semantic[16, 1], semantic[16, 9])

    def test_panoptic_outlines_what_was_pasted(self):
        sample = full_sample()
        picture = viz.draw_panoptic(sample, pasted=torch.tensor([False, True]))
        mask = sample.instance_masks[1].numpy()
        assert (picture[border_layer(mask)] == palette.HIGHLIGHT).all()
        for colour in (palette.HIGHLIGHT, palette.instance_color(1), palette.instance_color(2)):
            assert not (viz.draw_panoptic(sample) == colour).all(-1).any()

    def test_panoptic_names_a_large_thing_inside_its_mask(self):
        mask = np.zeros((1, 120, 160), bool)
        mask[0, 60:, 80:] = True
        mask[0, 0, 0] = True
        sample = make_sample(
            (120, 160),
            mask,
            semantic_map=SemanticMap(torch.where(torch.from_numpy(mask[0]), 5, IGNORE_INDEX)),
            panoptic_map=PanopticMap(torch.from_numpy(mask[0] * 1)),
        )
        cat, dog = (viz.draw_panoptic(sample, class_names={5: name}) for name in ("cat", "dog"))
        rows, cols = np.nonzero((cat != dog).any(-1))
        assert mask[0, rows.min() : rows.max() + 1, cols.min() : cols.max() + 1].all()

    @pytest.mark.parametrize("ids", [MAX_FED_BACK_ID, 7 * 256**3])
    def test_panoptic_takes_large_ids(self, ids):
        sample = make_sample(
            semantic_map=SemanticMap(torch.full((17, 11), 5)), panoptic_map=PanopticMap(torch.full((17, 11), ids))
        )
        assert not np.array_equal(viz.draw_panoptic(sample), pixels_of(sample))


class TestDepth:
    def depth_sample(self, depth: torch.Tensor, valid: torch.Tensor | None = None, **fields: Any) -> DenseSample:
        valid = torch.ones(depth.shape, dtype=torch.bool) if valid is None else valid
        return make_sample(tuple(depth.shape[-2:]), depth=depth, depth_valid=valid, **fields)

    def test_near_is_bright_and_far_is_dark(self):
        depth = torch.linspace(1, 9, 11).expand(1, 17, 11).contiguous()
        luma = viz.draw_depth(self.depth_sample(depth)).astype(int).sum(-1)[0]
        assert (np.diff(luma) < 0).all()

    def test_invalid_pixels_are_grey_and_do_not_set_the_scale(self):
        depth = torch.linspace(1, 9, 11).expand(1, 17, 11).clone()
        plain = viz.draw_depth(self.depth_sample(depth))
        valid = torch.ones(1, 17, 11, dtype=torch.bool)
        valid[0, 3], depth[0, 3] = False, 1e6
        depth[0, 4] = torch.nan
        picture = viz.draw_depth(self.depth_sample(depth, valid))
        assert (np.ptp(picture[3:5].astype(int), axis=-1) == 0).all()
        assert np.array_equal(picture[:3], plain[:3])

    def test_nothing_valid(self):
        depth = torch.ones(1, 17, 11)
        picture = viz.draw_depth(self.depth_sample(depth, torch.zeros(1, 17, 11, dtype=torch.bool)))
        assert np.array_equal(picture, shapes.hatch(17, 11))

    def test_constant_depth(self):
        assert len(np.unique(viz.draw_depth(self.depth_sample(torch.ones(1, 17, 11))).reshape(-1, 3), axis=0)) == 1

    def test_a_given_range_sets_the_scale(self):
        sample = self.depth_sample(torch.full((1, 17, 11), 2.0))
        assert not np.array_equal(
            viz.draw_depth(sample, depth_range=(0, 10)), viz.draw_depth(sample, depth_range=(2, 3))
        )

    def test_the_legend_names_the_unit(self):
        depth = torch.linspace(1, 9, 200).expand(1, 100, 200).contiguous()
        camera = CameraIntrinsics(99, 99, 100, 50)
        metric = viz.draw_depth(self.depth_sample(depth, metric_depth=True, camera_intrinsics=camera))
        relative = viz.draw_depth(self.depth_sample(depth))
        assert np.array_equal(metric[:60], relative[:60])
        assert not np.array_equal(metric[60:], relative[60:])


class TestNormals:
    def test_the_standard_mapping(self):
        normals = torch.zeros(3, 17, 11)
        normals[2] = -1
        normals[:, 1] = torch.tensor([1.0, 0, 0])[:, None]
        normals[:, 2] = torch.tensor([0, -1.0, 0])[:, None]
        normals[:, 3] = 0
        normals[:, 4] = torch.nan
        picture = viz.draw_normals(make_sample(normals=normals))
        assert picture[0, 0].tolist() == [128, 128, 0]
        assert picture[1, 0].tolist() == [255, 128, 128]
        assert picture[2, 0].tolist() == [128, 0, 128]
        assert np.array_equal(picture[3:5], shapes.hatch(17, 11)[3:5])


class TestPalette:
    def test_ids_are_stable_and_far_apart(self):
        colours = np.array([palette.instance_color(i) for i in range(1, 65)], dtype=int)
        steps = np.abs(np.diff(colours, axis=0)).sum(-1)
        assert steps.min() > 90
        assert len(np.unique(colours, axis=0)) == 64
        assert palette.instance_color(3) == tuple(colours[2])

    def test_no_hue_is_near_the_highlight(self):
        def hue(colour: palette.RGB) -> float:
            return 360 * colorsys.rgb_to_hsv(*(c / 255 for c in colour))[0]

        for colour in (palette.instance_color, palette.class_color):
            assert min(abs(hue(colour(i)) - hue(palette.HIGHLIGHT)) for i in range(2000)) > 10

    @given(st.integers(0, 2**53))
    def test_any_id_has_a_colour(self, instance_id):
        assert all(0 <= c <= 255 for c in palette.instance_color(instance_id))

    def test_oklch_reference_values(self):
        white, black, red = palette.oklch_to_srgb(
            np.array([1.0, 0.0, 0.6279554]), np.array([0, 0, 0.2576833]), np.array([0, 0, 29.2338804])
        )
        assert np.allclose(white, 1, atol=1e-4)
        assert np.allclose(black, 0, atol=1e-4)
        assert np.allclose(red, [1, 0, 0], atol=1e-3)

    def test_text_has_contrast_on_every_plate(self):
        for i in range(1, 200):
            background = palette.instance_color(i)
            luminance = [
                float((((np.array(c) / 255 + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)) + 0.05
                for c in (background, palette.text_color(background))
            ]
            assert max(luminance) / min(luminance) > 3


class TestShapes:
    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((6, 5)))
    def test_outline_and_rim_against_the_slow_writing(self, mask):
        assert np.array_equal(shapes.outline(mask), border_layer(mask))
        assert np.array_equal(shapes.rim(mask), neighbours(mask))
        two = neighbours(mask)
        assert np.array_equal(shapes.rim(mask, 2), two | neighbours(mask | two))

    @settings(max_examples=60, deadline=None)
    @given(mask=masks_of((7, 5)))
    def test_window_holds_the_mask(self, mask):
        where = shapes.window(mask, 0)
        if where is None:
            assert not mask.any()
        else:
            assert mask[where].sum() == mask.sum()
            part = mask[where]
            assert all(edge.any() for edge in (part[0], part[-1], part[:, 0], part[:, -1]))

    def test_the_centre_of_a_lollipop_is_in_its_head(self):
        mask = np.zeros((200, 300), bool)
        mask[90:110, :] = True
        mask[50:150, 200:300] = True
        x, y = shapes.centre_of(mask)
        assert 230 < x < 270
        assert 80 < y < 120
        assert shapes.centre_of(np.zeros((3, 3), bool)) is None


class TestText:
    def test_names(self):
        assert text.class_name(5, NAMES) == "cat"
        assert text.class_name(6, NAMES) == "class 6"
        assert text.class_name(1, ["a", "b"]) == "b"
        assert text.class_name(-1, ["a", "b"]) == "class -1"
        assert text.class_name(2, None) == "class 2"

    def test_only_letters_that_the_font_has(self):
        assert text.plain("Café\nau\tlait") == "Cafe au lait"
        assert text.plain("猫", fallback="class 3") == "class 3"
        assert len(text.plain("x" * 99)) == 24

    def test_a_line_is_cut_to_its_width(self):
        short = text.fitted("a_very_long_file_name_0000012345.jpg", 90, 13)
        assert short.endswith("...")
        assert text.text_width(short, 13) <= 90
        assert text.fitted("cat", 90, 13) == "cat"
        assert text.fitted("cat", 2, 13) == ""

    def test_plates_keep_clear_of_each_other(self):
        blank = np.full((100, 200, 3), 255, np.uint8)
        plates = [text.Plate("cat", palette.INK, (50, 30, 52, 32), centred=True)] * 3
        assert np.array_equal(text.draw_plates(blank, plates[:1], 12), text.draw_plates(blank, plates, 12))
        moved = [text.Plate("cat", palette.INK, (50, 30, 90, 50))] * 3
        inked = [(text.draw_plates(blank, moved[:n], 12) != 255).any(-1).sum() for n in (1, 2, 3)]
        assert inked[0] < inked[1] < inked[2]


class TestSheet:
    def test_columns_follow_the_modalities(self):
        before, after = full_sample(), full_sample(seed=1)
        titles = [c.title for c in viz.compare(before, after)]
        assert titles == ["image", "instances", "panoptic", "semantic", "depth", "normals"]
        assert [c.title for c in viz.compare(make_sample(), make_sample())] == ["image", "instances"]

    def test_small_samples_are_enlarged_by_whole_pixels(self):
        sample = make_sample()
        picture = viz.compare(sample, sample, tile_px=60)[0].before
        assert np.array_equal(picture, pixels_of(sample).repeat(3, 0).repeat(3, 1))

    def test_enlarging_moves_masks_and_boxes_alike(self):
        masks = np.zeros((1, 17, 11), bool)
        masks[0, 2, 2] = masks[0, 6, 5] = True
        sample = make_sample(masks=masks)
        picture = viz.compare(sample, sample, tile_px=60)[1].before
        changed = (picture != pixels_of(sample).repeat(3, 0).repeat(3, 1)).any(-1)
        rows, cols = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        assert (rows[0], rows[-1], cols[0], cols[-1]) == (6, 20, 6, 17)
        assert changed[6, 6:18].all()
        assert changed[6:21, 17].all()

    def test_pasted_marks_the_picture_after_only(self):
        sample = full_sample()
        plain, marked = (viz.compare(sample, sample, flags)[1] for flags in (None, torch.tensor([False, True])))
        assert np.array_equal(plain.before, marked.before)
        assert not np.array_equal(plain.after, marked.after)

    def test_canvases_of_two_sizes_meet(self):
        small, large = make_sample((17, 11)), make_sample((20, 16))
        picture = viz.compare(small, large, tile_px=20)[0]
        assert picture.before.shape == picture.after.shape == (20, 16, 3)
        assert np.array_equal(picture.before[:17, :11], pixels_of(small))
        assert np.array_equal(picture.before[17:], shapes.hatch(20, 16)[17:])

    def test_a_modality_of_one_side_only(self):
        pictures = viz.compare(make_sample(), full_sample(), tile_px=17)
        assert np.array_equal(pictures[4].before, shapes.hatch(17, 11))
        assert not np.array_equal(pictures[4].after, shapes.hatch(17, 11))

    def test_depths_share_one_scale(self):
        def constant(value: float) -> DenseSample:
            depth = torch.full((1, 17, 11), value)
            return make_sample(depth=depth, depth_valid=torch.ones(1, 17, 11, dtype=torch.bool))

        picture = viz.compare(constant(1.0), constant(3.0), tile_px=17)[2]
        assert picture.before[0, 0].astype(int).sum() > picture.after[0, 0].astype(int).sum() + 200

    def test_sheet_shape_and_difference(self):
        before = full_sample()
        flags = torch.tensor([False, True])
        sheet = viz.before_after_sheet(before, before, flags, NAMES, tile_px=40)
        assert sheet.dtype == np.uint8
        assert sheet.shape[2] == 3
        assert sheet.shape[1] > 6 * 22
        plain = viz.before_after_sheet(before, before, None, NAMES, tile_px=40)
        assert sheet.shape[0] == plain.shape[0] + gallery._line_h("a note")
        assert np.array_equal(sheet, viz.before_after_sheet(before, before, flags, NAMES, tile_px=40))

    def test_float_images(self):
        sample = make_sample(image=torch.full((3, 17, 11), 255.0))
        assert viz.before_after_sheet(sample, sample, value_range=(0, 255)).any()
        with pytest.raises(ValueError, match="value_range"):
            viz.before_after_sheet(sample, sample)


class TestGrid:
    def test_margins_are_even(self):
        dark = np.zeros((20, 30, 3), np.uint8)
        page = viz.grid([[dark, dark], [dark, dark]])
        inked = (page == 0).all(-1)
        gap = gallery._GAP_PX
        assert page.shape == (2 * 20 + 3 * gap, 2 * 30 + 3 * gap, 3)
        assert np.flatnonzero(inked.any(1)).tolist() == [*range(gap, gap + 20), *range(2 * gap + 20, 2 * gap + 40)]
        assert np.flatnonzero(inked.any(0)).tolist() == [*range(gap, gap + 30), *range(2 * gap + 30, 2 * gap + 60)]

    def test_headings_captions_and_note_make_room(self):
        dark = np.zeros((60, 80, 3), np.uint8)
        bare = viz.grid([[dark]]).shape
        full = viz.grid([[viz.Tile(dark, "a caption")]], columns=["image"], names=["before"], note="pasted").shape
        line = gallery._line_h("x")
        assert full == (bare[0] + 3 * line, bare[1] + line, 3)

    @pytest.mark.parametrize("rows", [[], [[]], [[np.zeros((5, 5, 3), np.uint8)], []]])
    def test_empty_and_ragged(self, rows):
        assert viz.grid(rows, columns=["a", "b"], names=["c"]).shape[2] == 3

    def test_large_tiles_are_shrunk_and_small_ones_kept(self):
        large, small = np.zeros((100, 50, 3), np.uint8), np.zeros((3, 2, 3), np.uint8)
        gap = gallery._GAP_PX
        assert viz.grid([[large]], tile_px=40).shape == (40 + 2 * gap, 20 + 2 * gap, 3)
        assert viz.grid([[small]], tile_px=40).shape == (3 + 2 * gap, 2 + 2 * gap, 3)


class TestFiles:
    def test_png_holds_the_grid(self, tmp_path):
        picture = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        path = viz.gallery_png(tmp_path / "new" / "gallery.png", [[picture]])
        with Image.open(path) as image:
            assert np.array_equal(np.array(image), viz.grid([[picture]]))
        assert os.listdir(path.parent) == ["gallery.png"]
        assert viz.gallery_png(tmp_path / "b.png", [[picture]]).read_bytes() == path.read_bytes()

    def test_an_interrupt_leaves_nothing(self, tmp_path, monkeypatch):
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            viz.gallery_png(tmp_path / "g.png", [[np.zeros((5, 5, 3), np.uint8)]])
        assert os.listdir(tmp_path) == []


class PageReader(HTMLParser):
    """Every start tag with its attributes, and the text outside style and script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._raw = False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._raw = tag in ("style", "script")

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        self.text += "" if self._raw else data


def make_items(evil: str = "cat") -> list[viz.ReportItem]:
    sample = full_sample()
    pictures = viz.compare(sample, sample, torch.tensor([False, True]), NAMES, tile_px=40)
    things = [
        viz.PastedObject(evil, f"{evil}.jpg", 0.5, True, area_px=1234, instance_id=2),
        viz.PastedObject("dog", "b.jpg", 1.25, False),
    ]
    return [
        viz.ReportItem(f"first {evil}", pictures, things, {"does_not_fit": 3, "hidden": 0, evil: 1}),
        viz.ReportItem("second", pictures),
        viz.ReportItem("counted only", (), things[1:], {"too_small": 2}),
    ]


class TestReport:
    def read(self, path: Path) -> PageReader:
        reader = PageReader()
        reader.feed(path.read_text(encoding="utf-8"))
        return reader

    def test_the_page_says_everything(self, tmp_path):
        summary = {"images": 1234567, "images per second": 12.3456, "compiled": True, "mode": "instance"}
        page = self.read(viz.write_html_report(tmp_path / "r.html", make_items(), summary, "A run"))
        for expected in ("A run", "1,234,567", "12.3", "yes", "instance", "3 objects in 3 images", "b.jpg", "1,234"):
            assert expected in page.text
        assert "Tried and not pasted: 6" in page.text
        assert "does not fit" in page.text
        assert "hidden" not in page.text
        assert page.text.count("Nothing was pasted.") == 1
        assert sum(tag == "article" for tag, _ in page.tags) == 2

    def test_text_is_escaped_everywhere(self, tmp_path):
        evil = "<script>alert('x')</script>\"&"
        path = viz.write_html_report(tmp_path / "r.html", make_items(evil), {evil: evil}, evil)
        page = self.read(path)
        assert "<script>alert" not in path.read_text(encoding="utf-8")
        assert sum(tag == "script" for tag, _ in page.tags) == 1
        assert page.text.count("alert('x')") >= 8
        assert any(evil in (attrs.get("alt") or "") for _, attrs in page.tags)

    def test_evil_titles_of_views(self, tmp_path):
        picture = np.zeros((4, 4, 3), np.uint8)
        item = viz.ReportItem("a", [viz.Comparison('"><b>', picture, picture)])
        page = self.read(viz.write_html_report(tmp_path / "r.html", [item], {}, "t"))
        assert not any(tag == "b" for tag, _ in page.tags)
        assert [a["data-view"] for _, a in page.tags if "data-view" in a] == ['"><b>', '"><b>']

    def test_it_loads_nothing_from_outside(self, tmp_path):
        path = viz.write_html_report(tmp_path / "r.html", make_items(), {}, "t")
        page = self.read(path)
        loaded = [attrs[name] for _, attrs in page.tags for name in ("src", "href") if name in attrs]
        assert loaded
        assert all(url.startswith("data:image/jpeg;base64,") for url in loaded)
        assert not re.search(r"https?://|@import|url\(", path.read_text(encoding="utf-8"))
        policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
        assert policy.startswith("default-src 'none'")

    def test_pictures_of_noise(self, tmp_path):
        """Their files are larger than one byte a pixel."""
        noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), np.uint8)
        item = viz.ReportItem("a", [viz.Comparison("image", noise, noise)])
        page = self.read(viz.write_html_report(tmp_path / "r.html", [item], {}, "t", picture_px=400))
        assert min(len(attrs["src"]) for tag, attrs in page.tags if tag == "img") > 4 / 3 * 400 * 400

    def test_pictures_are_inside_and_shrunk(self, tmp_path):
        import base64

        page = self.read(viz.write_html_report(tmp_path / "r.html", make_items(), {}, "t", picture_px=20))
        images = [attrs for tag, attrs in page.tags if tag == "img"]
        assert len(images) == 2 * 2 * 6
        with Image.open(BytesIO(base64.b64decode(images[0]["src"].split(",", 1)[1]))) as image:
            assert max(image.size) == 20
            assert (str(image.width), str(image.height)) == (images[0]["width"], images[0]["height"])

    def test_the_same_input_gives_the_same_bytes(self, tmp_path):
        first = viz.write_html_report(tmp_path / "a.html", make_items(), {"n": 1}, "t").read_bytes()
        assert first == viz.write_html_report(tmp_path / "b.html", iter(make_items()), {"n": 1}, "t").read_bytes()
        assert first != viz.write_html_report(tmp_path / "c.html", make_items(), {"n": 2}, "t").read_bytes()

    def test_no_items(self, tmp_path):
        page = self.read(viz.write_html_report(tmp_path / "r.html", [], {}, "Nothing"))
        assert "0 objects in 0 images" in page.text
        assert "Nothing was pasted." in page.text
        assert "No paste was dropped." in page.text

    def test_a_failure_leaves_no_file(self, tmp_path):
        def items():
            yield make_items()[0]
            raise RuntimeError("broken photo")

        with pytest.raises(RuntimeError, match="broken photo"):
            viz.write_html_report(tmp_path / "r.html", items(), {}, "t")
        assert os.listdir(tmp_path) == []


class TestExports:
    def test_every_name_resolves(self):
        for name in viz.__all__:
            assert getattr(viz, name) is not None
        assert set(viz.__all__) == set(viz._MODULE_OF)
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            viz.nonsense  # noqa: B018

    def test_importing_loads_neither_pillow_nor_the_drawings(self):
        code = "import sys, segpaste.viz; print('PIL' in sys.modules, 'segpaste.viz.overlay' in sys.modules)"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert out.stdout.split() == ["False", "False"]


class TestRealPhotos:
    def test_crowded_photo(self, tmp_path):
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
        sample = make_sample((height, width), masks, pixels)
        picture = viz.draw_instances(sample, class_names=NAMES, pasted=torch.arange(30) % 2 == 0)
        untouched = ~masks.any(0)
        assert (picture == pixels.permute(1, 2, 0).numpy()).all(-1)[untouched].mean() > 0.5


def test_a_text_of_just_the_longest_length_is_kept() -> None:
    assert plain("x" * 24) == "x" * 24
    assert plain("x" * 25) == "x" * 21 + "..."


def test_borders_reach_as_far_as_asked() -> None:
    segments = np.array([[1, 1, 1, 1, 2, 2]])
    assert segment_borders(segments).tolist() == [[False] * 4 + [True] + [False]]
    assert segment_borders(segments, 2).tolist() == [[False] * 4 + [True] * 2]


def test_blending_rounds_to_the_nearest() -> None:
    picture = np.full((1, 1, 3), 10, np.uint8)
    blend(picture, np.ones((1, 1), bool), (11, 12, 13), 0.75)
    assert picture.ravel().tolist() == [11, 12, 12]


def test_what_was_pasted_is_drawn_last_and_named_first_and_always() -> None:
    sample = samples.make_sample(num_instances=3)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in sample.boxes.tolist()]
    largest, smallest = int(np.argmax(areas)), int(np.argmin(areas))
    for n in (largest, smallest):
        pasted = torch.arange(3) == n
        things = things_of(sample, pasted)
        assert [t.pasted for t in things] == [False, False, True]
        for min_side_px in (0, 1000):
            first, *_ = thing_plates(things, None, min_side_px)
            assert first.box == things[-1].box


def test_class_colours_are_softer_than_those_of_instances() -> None:
    def spread(color: tuple[int, int, int]) -> int:
        return max(color) - min(color)

    assert all(class_color(c) != instance_color(c) for c in range(50))
    assert sum(spread(class_color(c)) for c in range(50)) < 0.9 * sum(spread(instance_color(c)) for c in range(50))


def test_depth_beyond_its_range_has_the_colour_of_the_end() -> None:
    sample = samples.make_sample((8, 8), modalities=["depth"])
    ones = torch.ones_like(sample.depth)
    pictures = []
    for depth in (9.0, 2.0):
        there = dataclasses.replace(sample, depth=ones * depth, depth_valid=ones.bool())
        pictures.append(draw_depth(there, depth_range=(1.0, 2.0)))
    assert np.array_equal(*pictures)


def test_both_depths_share_the_scale_of_both() -> None:
    sample = samples.make_sample((8, 8), modalities=["depth"])
    ones = torch.ones_like(sample.depth)
    near, far = (dataclasses.replace(sample, depth=ones * d, depth_valid=ones.bool()) for d in (1.0, 3.0))
    near.depth[..., 4:] = 2.0
    (view,) = [v for v in compare(near, far, tile_px=8) if v.title == "depth"]
    assert np.array_equal(view.before, draw_depth(near, depth_range=(1.0, 3.0)))
    assert np.array_equal(view.after, draw_depth(far, depth_range=(1.0, 3.0)))
    assert not np.array_equal(view.before, view.after)
