"""Sheets of before and after, grids of tiles, and their files."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from viz_cases import NAMES, full_sample, pixels_of, sample_with

from samples import make_sample, plain
from segpaste import viz
from segpaste.types import DenseSample
from segpaste.types.fields import SAMPLE_FIELDS
from segpaste.viz import _marks, compare, draw_depth, gallery
from segpaste.viz.comparison import reduced


class TestSheet:
    def test_columns_follow_the_modalities(self) -> None:
        before, after = full_sample(), full_sample(seed=1)
        titles = [c.title for c in viz.compare(before, after)]
        assert titles == ["image", "instances", "panoptic", "semantic", "depth", "normals"]
        assert [c.title for c in viz.compare(sample_with(), sample_with())] == ["image", "instances"]

    def test_small_samples_are_enlarged_by_whole_pixels(self) -> None:
        sample = sample_with()
        picture = viz.compare(sample, sample, tile_px=60)[0].before
        assert np.array_equal(picture, pixels_of(sample).repeat(3, 0).repeat(3, 1))

    def test_enlarging_moves_masks_and_boxes_alike(self) -> None:
        masks = np.zeros((1, 17, 11), bool)
        masks[0, 2, 2] = masks[0, 6, 5] = True
        sample = sample_with(masks=masks)
        picture = viz.compare(sample, sample, tile_px=60)[1].before
        changed = (picture != pixels_of(sample).repeat(3, 0).repeat(3, 1)).any(-1)
        rows, cols = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        assert (rows[0], rows[-1], cols[0], cols[-1]) == (6, 20, 6, 17)
        assert changed[6, 6:18].all()
        assert changed[6:21, 17].all()

    @pytest.mark.parametrize("factor", [1, 2, 3])
    def test_reduced_samples_keep_every_nth_pixel(self, factor: int) -> None:
        sample = make_sample(num_instances=3, camera=True)
        small = reduced(sample, factor)
        height, width = (side // factor for side in sample.canvas_size)
        assert small.canvas_size == (height, width)
        assert small.modalities == sample.modalities
        for field in SAMPLE_FIELDS:
            if field.resample is None or field.name == "image" or (value := getattr(sample, field.name)) is None:
                continue
            expected = plain(value)[..., : height * factor : factor, : width * factor : factor]
            assert np.array_equal(plain(getattr(small, field.name)), expected, equal_nan=True), field.name
        scale = np.array([width, height] * 2) / np.array(sample.canvas_size[::-1] * 2)
        np.testing.assert_allclose(plain(small.boxes), plain(sample.boxes) * scale, rtol=1e-5)
        assert small.labels.equal(sample.labels)
        assert small.metric_depth == sample.metric_depth

    def test_pasted_marks_the_picture_after_only(self) -> None:
        sample = full_sample()
        plain, marked = (viz.compare(sample, sample, flags)[1] for flags in (None, torch.tensor([False, True])))
        assert np.array_equal(plain.before, marked.before)
        assert not np.array_equal(plain.after, marked.after)

    def test_canvases_of_two_sizes_meet(self) -> None:
        small, large = sample_with((17, 11)), sample_with((20, 16))
        picture = viz.compare(small, large, tile_px=20)[0]
        assert picture.before.shape == picture.after.shape == (20, 16, 3)
        assert np.array_equal(picture.before[:17, :11], pixels_of(small))
        assert np.array_equal(picture.before[17:], _marks.hatch(20, 16)[17:])

    def test_a_modality_of_one_side_only(self) -> None:
        pictures = viz.compare(sample_with(), full_sample(), tile_px=17)
        assert np.array_equal(pictures[4].before, _marks.hatch(17, 11))
        assert not np.array_equal(pictures[4].after, _marks.hatch(17, 11))

    def test_depths_share_one_scale(self) -> None:
        def constant(value: float) -> DenseSample:
            depth = torch.full((1, 17, 11), value)
            return sample_with(depth=depth, depth_valid=torch.ones(1, 17, 11, dtype=torch.bool))

        picture = viz.compare(constant(1.0), constant(3.0), tile_px=17)[2]
        assert picture.before[0, 0].astype(int).sum() > picture.after[0, 0].astype(int).sum() + 200

    def test_sheet_shape_and_difference(self) -> None:
        before = full_sample()
        flags = torch.tensor([False, True])
        sheet = viz.before_after_sheet(before, before, flags, NAMES, tile_px=40)
        assert sheet.dtype == np.uint8
        assert sheet.shape[2] == 3
        assert sheet.shape[1] > 6 * 22
        plain = viz.before_after_sheet(before, before, None, NAMES, tile_px=40)
        assert sheet.shape[0] == plain.shape[0] + gallery._line_h("a note")
        assert np.array_equal(sheet, viz.before_after_sheet(before, before, flags, NAMES, tile_px=40))

    def test_float_images(self) -> None:
        sample = sample_with(image=torch.full((3, 17, 11), 255.0))
        assert viz.before_after_sheet(sample, sample, value_range=(0, 255)).any()
        with pytest.raises(ValueError, match="value_range"):
            viz.before_after_sheet(sample, sample)


class TestGrid:
    def test_margins_are_even(self) -> None:
        dark = np.zeros((20, 30, 3), np.uint8)
        page = viz.grid([[dark, dark], [dark, dark]])
        inked = (page == 0).all(-1)
        gap = gallery._GAP_PX
        assert page.shape == (2 * 20 + 3 * gap, 2 * 30 + 3 * gap, 3)
        assert np.flatnonzero(inked.any(1)).tolist() == [*range(gap, gap + 20), *range(2 * gap + 20, 2 * gap + 40)]
        assert np.flatnonzero(inked.any(0)).tolist() == [*range(gap, gap + 30), *range(2 * gap + 30, 2 * gap + 60)]

    def test_headings_captions_and_note_make_room(self) -> None:
        dark = np.zeros((60, 80, 3), np.uint8)
        bare = viz.grid([[dark]]).shape
        full = viz.grid([[viz.Tile(dark, "a caption")]], columns=["image"], names=["before"], note="pasted").shape
        line = gallery._line_h("x")
        assert full == (bare[0] + 3 * line, bare[1] + line, 3)

    @pytest.mark.parametrize("rows", [[], [[]], [[np.zeros((5, 5, 3), np.uint8)], []]])
    def test_empty_and_ragged(self, rows: Any) -> None:
        assert viz.grid(rows, columns=["a", "b"], names=["c"]).shape[2] == 3

    def test_large_tiles_are_shrunk_and_small_ones_kept(self) -> None:
        large, small = np.zeros((100, 50, 3), np.uint8), np.zeros((3, 2, 3), np.uint8)
        gap = gallery._GAP_PX
        assert viz.grid([[large]], tile_px=40).shape == (40 + 2 * gap, 20 + 2 * gap, 3)
        assert viz.grid([[small]], tile_px=40).shape == (3 + 2 * gap, 2 + 2 * gap, 3)


class TestFiles:
    def test_png_holds_the_grid(self, tmp_path: Path) -> None:
        picture = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        path = viz.gallery_png(tmp_path / "new" / "gallery.png", [[picture]])
        with Image.open(path) as image:
            assert np.array_equal(np.array(image), viz.grid([[picture]]))
        assert os.listdir(path.parent) == ["gallery.png"]
        assert viz.gallery_png(tmp_path / "b.png", [[picture]]).read_bytes() == path.read_bytes()

    def test_an_interrupt_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            viz.gallery_png(tmp_path / "g.png", [[np.zeros((5, 5, 3), np.uint8)]])
        assert os.listdir(tmp_path) == []


def test_both_depths_share_the_scale_of_both() -> None:
    sample = make_sample((8, 8), modalities=["depth"])
    ones = torch.ones_like(sample.depth)
    near, far = (dataclasses.replace(sample, depth=ones * d, depth_valid=ones.bool()) for d in (1.0, 3.0))
    near.depth[..., 4:] = 2.0
    (view,) = [v for v in compare(near, far, tile_px=8) if v.title == "depth"]
    assert np.array_equal(view.before, draw_depth(near, depth_range=(1.0, 3.0)))
    assert np.array_equal(view.after, draw_depth(far, depth_range=(1.0, 3.0)))
    assert not np.array_equal(view.before, view.after)
