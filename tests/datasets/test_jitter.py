from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision import tv_tensors

from samples import assert_same, make_sample, plain, tight_boxes
from segpaste.datasets import (
    FixedSizeCrop,
    RandomHorizontalFlip,
    RandomResize,
    SanitizeInstances,
    make_large_scale_jittering,
)
from segpaste.seeding import derive_seed
from segpaste.types import CameraIntrinsics, DenseSample, Modality

SIZE = (17, 11)


def seeds(num: int) -> list[int]:
    return [derive_seed(0, 0, 0, 0, i) for i in range(num)]


def plane(size: tuple[int, int], normal: tuple[float, float, float], offset: float) -> DenseSample:
    """A photo of the plane {X : normal . X = offset}; its red and green are the ray of each pixel, X/Z and Y/Z.

    They are constant under resize, crop and pad, whatever these do to the pixel grid, so they say where a pixel came
    from without any help from the transform.
    """
    camera = CameraIntrinsics(fx=61.0, fy=57.0, cx=size[1] / 2 - 3.25, cy=size[0] / 2 + 1.5)
    y, x = np.mgrid[: size[0], : size[1]]
    rays = np.stack([(x + 0.5 - camera.cx) / camera.fx, (y + 0.5 - camera.cy) / camera.fy, np.ones(size)])
    unit = np.array(normal) / np.linalg.norm(normal)
    depth = offset / np.tensordot(unit, rays, 1)
    normals = np.broadcast_to(unit[:, None, None], (3, *size))
    return DenseSample(
        image=tv_tensors.Image(torch.from_numpy(rays.astype(np.float32))),
        boxes=tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYXY", canvas_size=size),
        labels=torch.zeros(0, dtype=torch.int64),
        depth=torch.from_numpy(depth[None].astype(np.float32)),
        depth_valid=torch.ones(1, *size, dtype=torch.bool),
        normals=torch.from_numpy(normals.astype(np.float32)),
        camera_intrinsics=camera,
        metric_depth=True,
    )


def check_reprojection(sample: DenseSample, normal: tuple[float, float, float], offset: float, *, flip: bool) -> None:
    """Every valid pixel, seen through the sample's own camera, lies on the plane where it showed it before."""
    camera, sign = sample.camera_intrinsics, -1 if flip else 1
    y, x = np.mgrid[: sample.canvas_size[0], : sample.canvas_size[1]]
    rays = np.stack([(x + 0.5 - camera.cx) / camera.fx, (y + 0.5 - camera.cy) / camera.fy, np.ones(sample.canvas_size)])
    unit = np.array(normal) / np.linalg.norm(normal) * [sign, 1, 1]
    valid = plain(sample.depth_valid)[0]
    error = np.tensordot(unit, rays * plain(sample.depth), 1) - offset
    assert valid.sum() > 20
    assert np.abs(error[valid]).max() < 2e-3 * abs(offset)
    np.testing.assert_allclose(plain(sample.normals)[:, valid], np.broadcast_to(unit, (valid.sum(), 3)).T, atol=1e-5)
    # an antialiased image reads outside the photo near its edge, so its rays are compared inside only
    inside = plain(torch.nn.functional.max_pool2d((~sample.depth_valid).float(), 5, 1, 2) == 0)[0]
    inside[[0, 1, -2, -1]] = inside[:, [0, 1, -2, -1]] = False
    assert inside.any()
    shown = plain(sample.image) * np.array([sign, 1, 1])[:, None, None]
    moved_px = ((shown - rays)[:2] * np.array([camera.fx, camera.fy])[:, None, None])[:, inside]
    # the antialiasing filter ripples about a straight ramp, another pixel convention would shift it
    assert np.abs(moved_px).max() < 0.2
    assert np.abs(moved_px.mean(1)).max() < 0.01


class TestReprojection:
    NORMAL, OFFSET = (0.12, -0.2, -1.0), -3.0

    def photo(self) -> DenseSample:
        return plane((41, 53), self.NORMAL, self.OFFSET)

    def check(self, sample: DenseSample, *, flip: bool = False) -> None:
        check_reprojection(sample, self.NORMAL, self.OFFSET, flip=flip)

    def test_before(self) -> None:
        self.check(self.photo())

    @pytest.mark.parametrize("out_size", [(82, 106), (37, 71), (20, 26), (59, 31)])
    def test_resize(self, out_size: tuple[int, int]) -> None:
        self.check(RandomResize(out_size).transform(self.photo(), out_size))

    def test_flip(self) -> None:
        self.check(RandomHorizontalFlip().transform(self.photo(), True), flip=True)

    @pytest.mark.parametrize(("size", "corner"), [((23, 29), (7, 11)), ((60, 29), (0, 24)), ((64, 64), (0, 0))])
    def test_crop_and_pad(self, size: tuple[int, int], corner: tuple[int, int]) -> None:
        self.check(FixedSizeCrop(size).transform(self.photo(), corner))

    def test_all_together(self) -> None:
        flips = set()
        for seed in seeds(12):
            flip = RandomHorizontalFlip().make_params(seed)
            self.check(make_large_scale_jittering((43, 37), (0.6, 2.0))(self.photo(), seed), flip=flip)
            flips.add(flip)
        assert flips == {True, False}

    def test_a_wrong_camera_is_noticed(self) -> None:
        fields = RandomHorizontalFlip().transform(self.photo(), True).to_dict()
        camera = self.photo().camera_intrinsics
        off_by_one = CameraIntrinsics(camera.fx, camera.fy, 52 - camera.cx, camera.cy)
        with pytest.raises(AssertionError):
            self.check(DenseSample.from_dict({**fields, "camera_intrinsics": off_by_one}), flip=True)


def check_instances(sample: DenseSample) -> None:
    """Boxes are tight, no mask is empty, and the maps agree with the masks."""
    masks = plain(sample.instance_masks)
    assert torch.equal(sample.boxes.as_subclass(torch.Tensor), tight_boxes(masks))
    assert masks.any((1, 2)).all()
    panoptic, semantic = plain(sample.panoptic_map), plain(sample.semantic_map)
    np.testing.assert_array_equal(masks.sum(0), panoptic != 0)
    for i, label, mask in zip(plain(sample.instance_ids), plain(sample.labels), masks, strict=True):
        np.testing.assert_array_equal(panoptic == i, mask)
        assert (semantic[mask] == label).all()


class TestLargeScaleJitter:
    @given(
        st.tuples(st.integers(1, 23), st.integers(1, 23)),
        st.tuples(st.integers(1, 37), st.integers(1, 37)),
        st.integers(0, 4),
        st.integers(0, 2**64 - 1),
    )
    def test_every_field_stays_consistent(
        self, size: tuple[int, int], out_size: tuple[int, int], num: int, seed: int
    ) -> None:
        before = make_sample(size, min(num, size[0] * size[1]), seed=num, camera=True)
        after = make_large_scale_jittering(out_size)(before, seed)
        assert after.canvas_size == out_size
        assert after.modalities == before.modalities
        check_instances(after)
        names = dict(zip(before.instance_ids.tolist(), before.labels.tolist(), strict=True))
        assert all(
            names[i] == label for i, label in zip(after.instance_ids.tolist(), after.labels.tolist(), strict=True)
        )
        padding = plain(after.padding_mask)[0]
        assert not plain(after.image)[:, padding].any()
        assert (plain(after.semantic_map)[padding] == 255).all()
        assert not (plain(after.depth_valid)[0] & padding).any()
        height, width = (~padding).any(1).sum(), (~padding).any(0).sum()
        np.testing.assert_array_equal(
            padding, ~((np.arange(out_size[0]) < height)[:, None] & (np.arange(out_size[1]) < width))
        )

    def test_is_a_function_of_the_seed(self) -> None:
        jitter = make_large_scale_jittering((19, 23))
        before = make_sample((31, 29), 4, camera=True)
        copy = pickle.loads(pickle.dumps(jitter))
        torch.manual_seed(1)
        first = [jitter(before, seed) for seed in seeds(6)]
        torch.manual_seed(2)
        np.random.seed(2)  # noqa: NPY002
        for sample, seed in reversed(list(zip(first, seeds(6), strict=True))):
            assert_same(copy(before, seed), sample)
        assert len({sample.image.numpy().tobytes() for sample in first}) == 6

    def test_input_is_left_alone(self) -> None:
        before, untouched = make_sample((31, 29), 4), make_sample((31, 29), 4)
        make_large_scale_jittering(16)(before, 3)
        assert_same(before, untouched)

    def test_no_instances(self) -> None:
        after = make_large_scale_jittering(13)(make_sample(SIZE, 0), 1)
        assert (after.num_instances, after.instance_masks.shape, after.boxes.shape) == (0, (0, 13, 13), (0, 4))

    def test_image_and_boxes_alone(self) -> None:
        before = make_sample(SIZE, 3, modalities=())
        boxes = [make_large_scale_jittering(13)(before, seed).boxes for seed in seeds(20)]
        for row in torch.cat([box.as_subclass(torch.Tensor) for box in boxes]):
            assert 0 <= row[0] < row[2] <= 13
            assert 0 <= row[1] < row[3] <= 13
        assert {len(box) for box in boxes} > {3}

    def test_scale_one_without_flip_fits_the_photo_in(self) -> None:
        before = make_sample((20, 10), 2)
        after = make_large_scale_jittering((20, 15), (1, 1), hflip_prob=0)(before, 5)
        np.testing.assert_array_equal(plain(after.image)[..., :10], plain(before.image))
        np.testing.assert_array_equal(plain(after.instance_masks)[..., :10], plain(before.instance_masks))

    def test_the_draws_of_the_parts_are_independent(self) -> None:
        resize, flip, crop = RandomResize((64, 64)), RandomHorizontalFlip(), FixedSizeCrop((1, 1))
        draws = np.array(
            [
                [resize.make_params((64, 64), s)[0], flip.make_params(s), *crop.make_params((99, 99), s)]
                for s in seeds(1500)
            ],
            float,
        )
        correlation = np.corrcoef(draws.T) - np.eye(4)
        assert np.abs(correlation).max() < 0.1


class TestRandomResize:
    def test_scale_is_uniform_over_its_range(self) -> None:
        resize = RandomResize((1000, 1000), (0.5, 1.5))
        heights = np.array([resize.make_params((100, 50), seed)[0] for seed in seeds(2000)]) / 1000
        assert heights.min() < 0.51
        assert heights.max() > 1.49
        quarters, _ = np.histogram(heights, 4, (0.5, 1.5))
        assert np.abs(quarters - 500).max() < 80

    @given(
        st.tuples(st.integers(1, 999), st.integers(1, 999)),
        st.tuples(st.integers(1, 999), st.integers(1, 999)),
        st.integers(0, 2**64 - 1),
    )
    def test_aspect_is_kept(self, size: tuple[int, int], canvas: tuple[int, int], seed: int) -> None:
        height, width = RandomResize(size, (0.5, 1.0)).make_params(canvas, seed)
        scale = height / canvas[0] if canvas[0] > canvas[1] else width / canvas[1]
        assert abs(height - scale * canvas[0]) <= 1.01
        assert abs(width - scale * canvas[1]) <= 1.01
        assert 1 <= height <= size[0]
        assert 1 <= width <= size[1]

    @pytest.mark.parametrize(
        "scale_range", [(2.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, float("inf")), (float("nan"), 1.0)]
    )
    def test_bad_range(self, scale_range: tuple[float, float]) -> None:
        with pytest.raises(ValueError, match="scale_range"):
            make_large_scale_jittering(16, scale_range)

    @pytest.mark.parametrize("size", [0, (0, 3), (3, -1), (3, 3, 3)])
    def test_bad_size(self, size: Any) -> None:
        with pytest.raises(ValueError, match=r"size|unpack"):
            make_large_scale_jittering(size)


class TestFixedSizeCrop:
    def test_window_is_uniform_over_where_it_fits(self) -> None:
        crop = FixedSizeCrop((15, 30))
        corners = Counter(crop.make_params((17, 11), seed) for seed in seeds(900))
        assert set(corners) == {(0, 0), (1, 0), (2, 0)}
        assert min(corners.values()) > 230
        assert crop.make_params((15, 30), 1) == (0, 0)

    def test_cut_and_padded_pixel_for_pixel(self) -> None:
        before = make_sample(SIZE, 3)
        after = FixedSizeCrop((9, 14), fill=7).transform(before, (5, 0))
        np.testing.assert_array_equal(plain(after.image)[..., :11], plain(before.image)[:, 5:14])
        np.testing.assert_array_equal(plain(after.semantic_map)[:, :11], plain(before.semantic_map)[5:14])
        assert (plain(after.image)[..., 11:] == 7).all()
        np.testing.assert_array_equal(plain(after.padding_mask)[0], np.broadcast_to(np.arange(14) >= 11, (9, 14)))

    def test_there_is_always_a_padding_mask(self) -> None:
        assert make_sample(SIZE).padding_mask is None
        after = FixedSizeCrop(SIZE)(make_sample(SIZE), 0)
        assert not after.padding_mask.any()
        kept = FixedSizeCrop((20, 11))(make_sample(SIZE, padding=(2, 3)), 0)
        expected = np.ones((20, 11), bool)
        expected[:15, :8] = False
        np.testing.assert_array_equal(plain(kept.padding_mask)[0], expected)


class TestSanitizeInstances:
    @pytest.mark.parametrize("min_area_px", [0, 1, 9, 10, 1000])
    def test_small_instances_go(self, min_area_px: int) -> None:
        before = make_sample((23, 19), 7, seed=1)
        areas = plain(before.instance_masks).sum((1, 2))
        assert areas.min() < 10 < areas.max()
        after = SanitizeInstances(min_area_px).transform(before)
        keep = areas >= min_area_px
        np.testing.assert_array_equal(plain(after.instance_ids), plain(before.instance_ids)[keep])
        check_instances(after)
        gone = plain(before.instance_masks)[~keep].any(0)
        assert (plain(after.semantic_map)[gone] == 255).all()
        np.testing.assert_array_equal(plain(after.semantic_map)[~gone], plain(before.semantic_map)[~gone])

    def test_empty_masks_go_and_boxes_are_fitted(self) -> None:
        before = make_sample(SIZE, 3, modalities=[Modality.INSTANCE])
        masks = before.to_dict()["instance_masks"].clone()
        masks[1] = False
        loose = tv_tensors.BoundingBoxes(torch.tensor([[0.0, 0, 11, 17]] * 3), format="XYXY", canvas_size=SIZE)
        after = SanitizeInstances(0).transform(
            DenseSample.from_dict(
                {
                    **before.to_dict(),
                    "boxes": loose,
                    "instance_masks": tv_tensors.wrap(masks, like=before.instance_masks),
                }
            )
        )
        np.testing.assert_array_equal(plain(after.instance_ids), plain(before.instance_ids)[[0, 2]])
        assert torch.equal(after.boxes.as_subclass(torch.Tensor), tight_boxes(plain(before.instance_masks))[[0, 2]])


class TestRandomHorizontalFlip:
    def test_probability(self) -> None:
        assert 220 < sum(RandomHorizontalFlip(0.3).make_params(seed) for seed in seeds(900)) < 320
        assert not any(RandomHorizontalFlip(0).make_params(seed) for seed in seeds(50))
        assert all(RandomHorizontalFlip(1).make_params(seed) for seed in seeds(50))
        with pytest.raises(ValueError, match="prob"):
            RandomHorizontalFlip(1.5)

    def test_flip_mirrors_boxes_about_the_width(self) -> None:
        before = make_sample(SIZE, 3)
        after = RandomHorizontalFlip().transform(before, True)
        x1, y1, x2, y2 = before.boxes.as_subclass(torch.Tensor).unbind(1)
        assert torch.equal(after.boxes.as_subclass(torch.Tensor), torch.stack([11 - x2, y1, 11 - x1, y2], 1))
        np.testing.assert_array_equal(plain(after.image), plain(before.image)[..., ::-1])


def test_one_pixel_is_the_rounded_mean() -> None:
    image = torch.zeros(3, 2, 2, dtype=torch.uint8)
    image[:, 0] = torch.tensor([3, 4], dtype=torch.uint8)  # mean 1.75
    sample = make_sample((2, 2), 0, modalities=[])
    resized = RandomResize((1, 1)).transform(type(sample)(tv_tensors.Image(image), sample.boxes, sample.labels), (1, 1))
    assert resized.image.flatten().tolist() == [2, 2, 2]
