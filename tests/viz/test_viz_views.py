"""Content of each modality's picture: the image, the maps, depth, normals."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from viz_cases import NAMES, border_layer, full_sample, pixels_of, sample_with

from samples import make_sample
from segpaste import viz
from segpaste.types import IGNORE_INDEX, CameraIntrinsics, DenseSample, Modality, PanopticMap, SemanticMap
from segpaste.types.check import MAX_FED_BACK_ID
from segpaste.viz import _marks, draw_depth, palette

SIZES = [(17, 11), (8, 8), (1, 1), (64, 131)]


class TestEveryView:
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("modality", list(Modality))
    def test_shape_and_dtype(self, size: tuple[int, int], modality: Modality) -> None:
        picture = viz.draw(full_sample(size), modality, {"class_names": NAMES})
        assert picture.shape == (*size, 3)
        assert picture.dtype == np.uint8

    @pytest.mark.parametrize("modality", list(Modality))
    def test_deterministic_and_input_untouched(self, modality: Modality) -> None:
        sample = full_sample((64, 131))
        image, masks = sample.image.clone(), sample.instance_masks.clone()
        first = viz.draw(sample, modality, {})
        assert np.array_equal(first, viz.draw(sample, modality, {}))
        assert torch.equal(sample.image, image)
        assert torch.equal(sample.instance_masks, masks)

    def test_the_table_has_every_modality(self) -> None:
        assert set(viz.VIEWS) == set(Modality)

    @pytest.mark.parametrize("modality", [m for m in Modality if m not in (Modality.IMAGE, Modality.INSTANCE)])
    def test_missing_modality_is_named(self, modality: Modality) -> None:
        with pytest.raises(ValueError, match="expected a sample with"):
            viz.draw(sample_with(), modality, {})


class TestImage:
    def test_uint8_is_copied(self) -> None:
        sample = sample_with()
        picture = viz.draw_image(sample)
        assert np.array_equal(picture, pixels_of(sample))
        picture[:] = 0
        assert pixels_of(sample).any()

    def test_float_ranges_agree(self) -> None:
        byte = torch.arange(3 * 17 * 11, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(3, 17, 11)
        expected = byte.permute(1, 2, 0).numpy()
        unit, wide = sample_with(image=byte.float() / 255), sample_with(image=byte.float())
        assert np.array_equal(viz.draw_image(unit), expected)
        assert np.array_equal(viz.draw_image(wide, value_range=(0, 255)), expected)

    def test_the_range_is_not_guessed(self) -> None:
        wide = sample_with(image=torch.full((3, 17, 11), 200.0))
        with pytest.raises(ValueError, match=r"value_range=\(0, 255\)"):
            viz.draw_image(wide)
        dark = sample_with(image=torch.full((3, 17, 11), 1.0))
        assert viz.draw_image(dark, value_range=(0, 255)).max() == 1

    def test_overshoot_is_clipped_and_nan_is_black(self) -> None:
        image = torch.full((3, 17, 11), 1.2)
        image[:, 0], image[:, 1], image[:, 2] = -0.2, torch.nan, torch.inf
        picture = viz.draw_image(sample_with(image=image))
        assert (picture[3:] == 255).all()
        assert (picture[2] == 255).all()
        assert (picture[:2] == 0).all()

    def test_an_empty_range_is_refused(self) -> None:
        with pytest.raises(ValueError, match="low < high"):
            viz.draw_image(sample_with(image=torch.zeros(3, 17, 11)), value_range=(1, 1))

    def test_channels(self) -> None:
        grey = viz.draw_image(sample_with(image=torch.arange(187, dtype=torch.uint8).reshape(1, 17, 11)))
        assert (grey[..., 0] == grey[..., 2]).all()
        assert grey[0, 5].tolist() == [5, 5, 5]
        four = torch.arange(4 * 187, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(4, 17, 11)
        assert np.array_equal(viz.draw_image(sample_with(image=four)), four[:3].permute(1, 2, 0).numpy())
        with pytest.raises(ValueError, match="got 2"):
            viz.draw_image(sample_with(image=torch.zeros(2, 17, 11, dtype=torch.uint8)))


class TestMaps:
    def test_semantic_paints_classes_and_hatches_ignore(self) -> None:
        grey = torch.full((3, 40, 31), 120, dtype=torch.uint8)
        semantic = torch.full((40, 31), 5)
        semantic[:20] = IGNORE_INDEX
        picture = viz.draw_semantic(sample_with((40, 31), image=grey, semantic_map=SemanticMap(semantic)))
        assert len(np.unique(picture[1:19].reshape(-1, 3), axis=0)) == 2
        assert (np.ptp(picture[1:19].astype(int), axis=-1) == 0).all()
        expected = 120 + (np.array(palette.class_color(5)) - 120) * _marks.MAP_OPACITY
        assert np.abs(picture[39, 30] - expected).max() <= 1

    def test_panoptic_separates_things_of_one_class(self) -> None:
        masks = np.zeros((2, 17, 11), bool)
        masks[0, :, :5], masks[1, :, 5:] = True, True
        sample = sample_with(
            masks=masks,
            image=torch.full((3, 17, 11), 120, dtype=torch.uint8),
            semantic_map=SemanticMap(torch.full((17, 11), 5)),
            panoptic_map=PanopticMap(torch.from_numpy(masks[0] * 1 + masks[1] * 2)),
        )
        picture = viz.draw_panoptic(sample)
        assert not np.array_equal(picture[8, 1], picture[8, 9])
        semantic = viz.draw_semantic(sample)
        assert np.array_equal(semantic[16, 1], semantic[16, 9])

    def test_panoptic_outlines_what_was_pasted(self) -> None:
        sample = full_sample()
        picture = viz.draw_panoptic(sample, pasted=torch.tensor([False, True]))
        mask = sample.instance_masks[1].numpy()
        assert (picture[border_layer(mask)] == palette.HIGHLIGHT).all()
        for colour in (palette.HIGHLIGHT, palette.instance_color(1), palette.instance_color(2)):
            assert not (viz.draw_panoptic(sample) == colour).all(-1).any()

    def test_panoptic_names_a_large_thing_inside_its_mask(self) -> None:
        mask = np.zeros((1, 120, 160), bool)
        mask[0, 60:, 80:] = True
        mask[0, 0, 0] = True
        sample = sample_with(
            (120, 160),
            mask,
            semantic_map=SemanticMap(torch.where(torch.from_numpy(mask[0]), 5, IGNORE_INDEX)),
            panoptic_map=PanopticMap(torch.from_numpy(mask[0] * 1)),
        )
        cat, dog = (viz.draw_panoptic(sample, class_names={5: name}) for name in ("cat", "dog"))
        rows, cols = np.nonzero((cat != dog).any(-1))
        assert mask[0, rows.min() : rows.max() + 1, cols.min() : cols.max() + 1].all()

    @pytest.mark.parametrize("ids", [MAX_FED_BACK_ID, 7 * 256**3])
    def test_panoptic_takes_large_ids(self, ids: int) -> None:
        sample = sample_with(
            semantic_map=SemanticMap(torch.full((17, 11), 5)), panoptic_map=PanopticMap(torch.full((17, 11), ids))
        )
        assert not np.array_equal(viz.draw_panoptic(sample), pixels_of(sample))


class TestDepth:
    def depth_sample(self, depth: torch.Tensor, valid: torch.Tensor | None = None, **fields: Any) -> DenseSample:
        valid = torch.ones(depth.shape, dtype=torch.bool) if valid is None else valid
        return sample_with(tuple(depth.shape[-2:]), depth=depth, depth_valid=valid, **fields)

    def test_near_is_bright_and_far_is_dark(self) -> None:
        depth = torch.linspace(1, 9, 11).expand(1, 17, 11).contiguous()
        luma = viz.draw_depth(self.depth_sample(depth)).astype(int).sum(-1)[0]
        assert (np.diff(luma) < 0).all()

    def test_invalid_pixels_are_grey_and_do_not_set_the_scale(self) -> None:
        depth = torch.linspace(1, 9, 11).expand(1, 17, 11).clone()
        plain = viz.draw_depth(self.depth_sample(depth))
        valid = torch.ones(1, 17, 11, dtype=torch.bool)
        valid[0, 3], depth[0, 3] = False, 1e6
        depth[0, 4] = torch.nan
        picture = viz.draw_depth(self.depth_sample(depth, valid))
        assert (np.ptp(picture[3:5].astype(int), axis=-1) == 0).all()
        assert np.array_equal(picture[:3], plain[:3])

    def test_nothing_valid(self) -> None:
        depth = torch.ones(1, 17, 11)
        picture = viz.draw_depth(self.depth_sample(depth, torch.zeros(1, 17, 11, dtype=torch.bool)))
        assert np.array_equal(picture, _marks.hatch(17, 11))

    def test_constant_depth(self) -> None:
        assert len(np.unique(viz.draw_depth(self.depth_sample(torch.ones(1, 17, 11))).reshape(-1, 3), axis=0)) == 1

    def test_a_given_range_sets_the_scale(self) -> None:
        sample = self.depth_sample(torch.full((1, 17, 11), 2.0))
        assert not np.array_equal(
            viz.draw_depth(sample, depth_range=(0, 10)), viz.draw_depth(sample, depth_range=(2, 3))
        )

    def test_the_legend_names_the_unit(self) -> None:
        depth = torch.linspace(1, 9, 200).expand(1, 100, 200).contiguous()
        camera = CameraIntrinsics(99, 99, 100, 50)
        metric = viz.draw_depth(self.depth_sample(depth, metric_depth=True, camera_intrinsics=camera))
        relative = viz.draw_depth(self.depth_sample(depth))
        assert np.array_equal(metric[:60], relative[:60])
        assert not np.array_equal(metric[60:], relative[60:])


class TestNormals:
    def test_the_standard_mapping(self) -> None:
        normals = torch.zeros(3, 17, 11)
        normals[2] = -1
        normals[:, 1] = torch.tensor([1.0, 0, 0])[:, None]
        normals[:, 2] = torch.tensor([0, -1.0, 0])[:, None]
        normals[:, 3] = 0
        normals[:, 4] = torch.nan
        picture = viz.draw_normals(sample_with(normals=normals))
        assert picture[0, 0].tolist() == [128, 128, 0]
        assert picture[1, 0].tolist() == [255, 128, 128]
        assert picture[2, 0].tolist() == [128, 0, 128]
        assert np.array_equal(picture[3:5], _marks.hatch(17, 11)[3:5])


def test_depth_beyond_its_range_has_the_colour_of_the_end() -> None:
    sample = make_sample((8, 8), modalities=["depth"])
    ones = torch.ones_like(sample.depth)
    pictures = []
    for depth in (9.0, 2.0):
        there = dataclasses.replace(sample, depth=ones * depth, depth_valid=ones.bool())
        pictures.append(draw_depth(there, depth_range=(1.0, 2.0)))
    assert np.array_equal(*pictures)
