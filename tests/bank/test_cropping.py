"""A crop is what a slow reference makes of the photo, and its depth and camera still agree."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from on_disk import rectangle
from segpaste.bank import BankError, Crop
from segpaste.bank.building.cropping import PhotoFrame, crop_object
from segpaste.bank.schema.record import Layout, checked_size
from segpaste.datasets import SceneConfig, SceneDataset
from segpaste.types import CameraIntrinsics, DenseSample

Array = Any


def photo_with(size: tuple[int, int], mask: Array, seed: int = 0, geometry: bool = True) -> DenseSample:
    """A photo of noise with one object; depth of two surfaces with holes, normals with holes."""
    rng = np.random.default_rng(seed)
    image = torch.from_numpy(rng.integers(0, 256, (3, *size), dtype=np.uint8))
    fields: dict[str, Any] = {}
    if geometry:
        depth = 2 + 0.02 * rng.random((1, *size)) + 3 * (rng.random((1, *size)) < 0.1)
        normals = rng.normal(size=(3, *size))
        normals /= np.linalg.norm(normals, axis=0)
        normals[:, rng.random(size) < 0.1] = 0
        fields["depth"] = torch.from_numpy(depth.astype(np.float32))
        fields["depth_valid"] = torch.from_numpy(rng.random((1, *size)) < 0.9)
        fields["normals"] = torch.from_numpy(normals.astype(np.float32))
        fields["camera_intrinsics"] = CameraIntrinsics(50.0, 60.0, size[1] / 2, size[0] / 3)
        fields["metric_depth"] = True
    return DenseSample.from_masks(image, torch.from_numpy(mask)[None], torch.tensor([3]), **fields)


def weights_at(x: int, scale: Fraction, radius: Fraction, start: int, length: int) -> dict[int, int]:
    """Photo pixel to weight of 2048 under a triangle about where content pixel x reads."""
    centre = (x + Fraction(1, 2)) / scale - Fraction(1, 2)
    taps = range(math.floor(centre - radius) + 1, math.ceil(centre + radius))
    raw = [radius - abs(tap - centre) for tap in taps]
    found: dict[int, int] = {}
    upto, before = Fraction(0), 0
    for tap, value in zip(taps, raw, strict=True):
        upto += value
        now = math.floor(2048 * upto / sum(raw))
        place = min(max(tap + start, 0), length - 1)
        found[place] = found.get(place, 0) + now - before
        before = now
    return found


def reference(
    sample: DenseSample, crop_size: tuple[int, int], margin_frac: float, fit_into: tuple[int, int] | None = None
) -> dict[str, Array]:
    """The crop of the first instance, pixel by pixel in exact fractions."""
    mask = sample.instance_masks.numpy()[0]  # type: ignore[union-attr]
    image = sample.image.numpy().astype(int)
    size = mask.shape
    ys, xs = np.nonzero(mask)
    box = [int(v) for v in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)]
    margin = math.ceil(margin_frac * max(box[2] - box[0], box[3] - box[1]))
    start = [max(box[1] - margin, 0), max(box[0] - margin, 0)]
    end = [min(box[3] + margin, size[0]), min(box[2] + margin, size[1])]
    scale = min([Fraction(1)] + [Fraction(c, e - s) for c, s, e in zip(crop_size, start, end, strict=True)])
    fit = min([Fraction(1)] + [Fraction(f, s) for f, s in zip(fit_into or size, size, strict=True)])
    scale = min(scale, fit)
    num = [
        max(1, sum((n + Fraction(1, 2)) / scale < e - s for n in range(c)))
        for c, s, e in zip(crop_size, start, end, strict=True)
    ]
    pad = [(c - n) // 2 for c, n in zip(crop_size, num, strict=True)]
    out: dict[str, Array] = {
        "image": np.zeros((3, *crop_size), np.uint8),
        "alpha": np.zeros((1, *crop_size), bool),
        "content_box": [pad[1], pad[0], pad[1] + num[1], pad[0] + num[0]],
        "source_size": [max(1, math.floor(side * fit + Fraction(1, 2))) for side in size],
        "source_box": np.float32([float(edge * fit) for edge in box]),
        "scale": np.float32(float(scale / fit)),
        "depth": np.zeros((1, *crop_size)),
        "depth_valid": np.zeros((1, *crop_size), bool),
        "normals": np.zeros((3, *crop_size)),
    }
    depth, valid, normals = (getattr(sample, n).numpy() for n in ("depth", "depth_valid", "normals"))
    for y in range(crop_size[0]):
        for x in range(crop_size[1]):
            at = [min(max(v - p, 0), n - 1) for v, p, n in zip((y, x), pad, num, strict=True)]
            wide = [weights_at(a, scale, 1 / scale, s, n) for a, s, n in zip(at, start, size, strict=True)]
            pairs = [(r, c, u * v) for r, u in wide[0].items() for c, v in wide[1].items()]
            out["image"][:, y, x] = (sum(image[:, r, c] * w for r, c, w in pairs) + 2**21) // 2**22
            near = [
                min(math.floor((a + Fraction(1, 2)) / scale), e - s - 1) + s
                for a, s, e in zip(at, start, end, strict=True)
            ]
            is_content = all(0 <= v - p < n for v, p, n in zip((y, x), pad, num, strict=True))
            out["alpha"][0, y, x] = is_content and mask[near[0], near[1]]
            two = [weights_at(a, scale, Fraction(1), s, n) for a, s, n in zip(at, start, size, strict=True)]
            used = [(r, c, u * v / 2**22) for r, u in two[0].items() for c, v in two[1].items() if u * v]
            if all(valid[0, r, c] for r, c, _ in used):
                values = [depth[0, r, c] for r, c, _ in used]
                is_edge = max(values) - min(values) > 0.05 * max(values)
                mixed = sum(depth[0, r, c] * w for r, c, w in used)
                out["depth"][0, y, x] = depth[0, near[0], near[1]] if is_edge else mixed
                out["depth_valid"][0, y, x] = True
            if np.any(normals[:, near[0], near[1]]):
                mean = sum(normals[:, r, c].astype(float) * w for r, c, w in used)
                norm = np.linalg.norm(mean)
                # A content smaller than half a pixel of the crop is read beside itself, and decides for no hemisphere.
                is_clear = norm > 2e-3 and any((r, c) == tuple(near) for r, c, _ in used)
                out["normals"][:, y, x] = mean / norm if is_clear else np.nan
    return out


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_against_the_reference(data: st.DataObject) -> None:
    size = data.draw(st.tuples(st.integers(1, 23), st.integers(1, 23)))
    crop_size = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    margin_frac = data.draw(st.sampled_from([0.0, 0.0625, 0.3, 1.0]))
    fit_into = data.draw(st.none() | st.tuples(st.integers(1, 30), st.integers(1, 30)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    top, left = data.draw(st.integers(0, size[0] - 1)), data.draw(st.integers(0, size[1] - 1))
    bottom, right = data.draw(st.integers(top + 1, size[0])), data.draw(st.integers(left + 1, size[1]))
    mask = rectangle(size, top, left, bottom, right) & (rng.random(size) < 0.8)
    mask[top, left] = True
    sample = photo_with(size, mask, int(rng.integers(1000)))
    ids = {"image_id": 7, "annotation_id": 9}
    crop = crop_object(sample, 0, crop_size, margin_frac=margin_frac, frame=None, fit_into=fit_into, **ids)
    for name, expected in reference(sample, crop_size, margin_frac, fit_into).items():
        actual = getattr(crop, name)
        if name in ("depth", "normals"):
            known = np.isfinite(expected)
            np.testing.assert_allclose(actual[known], expected[known], atol=2e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=name)
    assert (crop.class_id, crop.image_id, crop.annotation_id) == (3, 7, 9)


def content_of(crop: Crop, name: str) -> Array:
    left, top, right, bottom = crop.content_box.tolist()
    return getattr(crop, name)[:, top:bottom, left:right]


class TestWhole:
    def test_what_fits_is_copied_and_centred(self) -> None:
        sample = photo_with((20, 30), rectangle((20, 30), 5, 8, 11, 12))
        crop = crop_object(sample, 0, (15, 12), margin_frac=0.25)
        assert crop.content_box.tolist() == [2, 2, 10, 12]
        assert crop.scale == 1
        for name in ("image", "depth_valid", "normals"):
            original = getattr(sample, name).numpy()[:, 3:13, 6:14]
            np.testing.assert_array_equal(content_of(crop, name), original)
        assert crop.alpha.sum() == 24
        assert crop.alpha[0, 4:10, 4:8].all()

    def test_edges_go_on_and_the_margin_ends_with_the_photo(self) -> None:
        sample = photo_with((8, 9), rectangle((8, 9), 0, 5, 4, 9))
        crop = crop_object(sample, 0, (12, 12), margin_frac=0.5)
        left, top, right, bottom = crop.content_box.tolist()
        assert (right - left, bottom - top) == (6, 6)
        assert crop.alpha[0, top : top + 4, right - 4 : right].all()
        for name in ("image", "depth", "depth_valid", "normals"):
            padded = np.pad(content_of(crop, name), ((0, 0), (top, 12 - bottom), (left, 12 - right)), mode="edge")
            np.testing.assert_array_equal(getattr(crop, name), padded)

    @pytest.mark.parametrize("size", [(5, 5), (64, 64), (90, 31)])
    def test_no_dark_fringe(self, size: tuple[int, int]) -> None:
        mask = torch.ones(1, *size, dtype=torch.bool)
        sample = DenseSample.from_masks(torch.full((3, *size), 255, dtype=torch.uint8), mask, torch.tensor([0]))
        assert (crop_object(sample, 0, (32, 24)).image == 255).all()

    @pytest.mark.parametrize("size", [(300, 100), (100, 300), (257, 256), (5, 400)])
    def test_what_is_larger_is_shrunk_whole(self, size: tuple[int, int]) -> None:
        crop = crop_object(photo_with(size, np.ones(size, bool), geometry=False), 0, (64, 48))
        assert crop.scale == np.float32(min(64 / size[0], 48 / size[1]))
        left, top, right, bottom = crop.content_box.tolist()
        assert (bottom - top == 64) or (right - left == 48)
        assert content_of(crop, "alpha").all()
        assert crop.alpha.sum() == (bottom - top) * (right - left)

    def test_a_shrunk_picture_is_averaged(self) -> None:
        """Stripes of one pixel become grey, where single pixels would be black or white."""
        image = (torch.arange(200) % 2 * 255).to(torch.uint8).expand(3, 200, 200)
        sample = DenseSample.from_masks(image, torch.ones(1, 200, 200, dtype=torch.bool), torch.tensor([0]))
        crop = crop_object(sample, 0, (25, 25))
        assert np.abs(crop.image[:, :, 1:-1].astype(int) - 127).max() < 12


class TestGeometry:
    @pytest.mark.parametrize("crop_size", [(90, 70), (24, 24), (31, 9)])
    def test_points_stay_on_their_plane(self, crop_size: tuple[int, int]) -> None:
        """Depth and camera of a crop, of a plane seen askew, give points of that plane."""
        size, camera = (60, 80), CameraIntrinsics(70.0, 75.0, 33.0, 41.0)
        normal, distance = np.array([0.3, -0.2, 0.9]), 4.0
        ys, xs = np.mgrid[: size[0], : size[1]] + 0.5
        rays = np.stack([(xs - camera.cx) / camera.fx, (ys - camera.cy) / camera.fy, np.ones(size)])
        depth = torch.from_numpy((distance / np.tensordot(normal, rays, 1)).astype(np.float32))[None]
        sample = DenseSample.from_masks(
            torch.zeros(3, *size, dtype=torch.uint8),
            torch.from_numpy(rectangle(size, 10, 20, 50, 65))[None],
            torch.tensor([0]),
            depth=depth,
            depth_valid=torch.ones_like(depth, dtype=torch.bool),
            camera_intrinsics=camera,
            metric_depth=True,
        )
        crop = crop_object(sample, 0, crop_size)
        assert crop.intrinsics is not None
        assert crop.depth is not None
        fx, fy, cx, cy = crop.intrinsics.tolist()
        ys, xs = np.mgrid[: crop_size[0], : crop_size[1]] + 0.5
        points = np.stack([(xs - cx) / fx, (ys - cy) / fy, np.ones(crop_size)]) * crop.depth
        left, top, right, bottom = crop.content_box.tolist()
        away = np.abs(np.tensordot(normal, points, 1) - distance)[top + 1 : bottom - 1, left + 1 : right - 1]
        assert away.size
        assert away.max() < 2e-3

    def test_of_a_scene(self) -> None:
        """Every object of it: points that are read at a pixel's centre are the photo's own."""
        sample = SceneDataset(1, SceneConfig(height=64, width=64))[0]
        assert sample.num_instances > 2
        camera = sample.camera_intrinsics
        assert camera is not None
        for position in range(sample.num_instances):
            crop = crop_object(sample, position, (80, 80))
            assert crop.scale == 1
            assert crop.source_box is not None
            assert crop.intrinsics is not None
            ys, xs = np.nonzero(crop.alpha[0])
            left, top, _, _ = crop.source_box.tolist()
            own_ys, own_xs = np.nonzero(sample.instance_masks[position].numpy())  # type: ignore[index]
            for name in ("depth", "depth_valid", "normals"):
                np.testing.assert_array_equal(
                    getattr(crop, name)[:, ys, xs], getattr(sample, name).numpy()[:, own_ys, own_xs]
                )
            fx, fy, cx, cy = crop.intrinsics.tolist()
            np.testing.assert_allclose((xs + 0.5 - cx) / fx, (own_xs + 0.5 - camera.cx) / camera.fx, atol=1e-5)
            np.testing.assert_allclose((ys + 0.5 - cy) / fy, (own_ys + 0.5 - camera.cy) / camera.fy, atol=1e-5)
            assert (own_xs.min(), own_ys.min()) == (left, top)


class TestFitInto:
    def test_an_object_shrinks_with_its_image(self) -> None:
        """A square of 40 pixels in an image of 120 x 160 has 10 in one of 30 x 40, and no more in a smaller crop."""
        sample = photo_with((120, 160), rectangle((120, 160), 20, 30, 60, 70), geometry=False)
        for fit_into, side in (((30, 40), 10), ((60, 40), 10), ((30, 400), 10), ((120, 160), 40), ((999, 999), 40)):
            crop = crop_object(sample, 0, (64, 64), fit_into=fit_into)
            assert crop.alpha.sum() == side * side
            assert (crop.scale, crop.source_size.tolist()) == (1.0, [3 * side, 4 * side])  # type: ignore[union-attr]
            assert crop.source_box.tolist() == [edge * side / 40 for edge in (30, 20, 70, 60)]  # type: ignore[union-attr]
        small = crop_object(sample, 0, (5, 5), margin_frac=0.0, fit_into=(30, 40))
        assert (small.alpha.sum(), small.scale) == (25, 0.5), "a crop of an object of 10 pixels"

    def test_a_cut_out_shrinks_with_the_image_that_it_is_assumed_in(self) -> None:
        """The picture has 2 pixels for each of its image of 100 x 100."""
        sample = photo_with((40, 40), rectangle((40, 40), 0, 0, 40, 40), geometry=False)
        frame = PhotoFrame((100, 100), (1, 2))
        for fit_into, side in ((None, 20), ((50, 80), 10), ((200, 100), 20)):
            crop = crop_object(sample, 0, (64, 64), margin_frac=0.0, frame=frame, fit_into=fit_into)
            assert crop.alpha.sum() == side * side
            assert (crop.scale, crop.source_size.tolist()) == (1.0, [5 * side, 5 * side])  # type: ignore[union-attr]

    def test_one_number_is_a_square(self) -> None:
        assert checked_size("size", np.int64(96)) == checked_size("size", [96, np.int32(96)]) == (96, 96)

    @pytest.mark.parametrize("wrong", [0, -1, True, 2.5, (3,), (0, 4), (2.5, 4), (True, 4), "64", "ab", (4, 4, 4)])
    def test_no_size(self, wrong: Any) -> None:
        with pytest.raises(BankError, match=r"fit_into: expected \(height, width\) in pixels, or one integer for a sq"):
            checked_size("fit_into", wrong)
        with pytest.raises(BankError, match=r"crop_size: expected \(height, width\)"):
            Layout(wrong)


class TestRefused:
    def test_other_images(self) -> None:
        mask = torch.ones(1, 4, 4, dtype=torch.bool)
        for image in (torch.zeros(3, 4, 4), torch.zeros(1, 4, 4, dtype=torch.uint8)):
            with pytest.raises(BankError, match=r"expected an image of uint8 \[3, H, W\]"):
                crop_object(DenseSample.from_masks(image, mask, torch.tensor([0])), 0, (4, 4))

    def test_no_pixels_and_padding(self) -> None:
        image, mask = torch.zeros(3, 4, 4, dtype=torch.uint8), torch.zeros(1, 4, 4, dtype=torch.bool)
        with pytest.raises(BankError, match="expected a mask with pixels for instance 0"):
            crop_object(DenseSample.from_masks(image, mask, torch.tensor([0])), 0, (4, 4))
        padded = DenseSample.from_masks(
            image, ~mask, torch.tensor([0]), padding_mask=torch.ones(1, 4, 4, dtype=torch.bool)
        )
        with pytest.raises(BankError, match="expected an image without padding"):
            crop_object(padded, 0, (4, 4))
