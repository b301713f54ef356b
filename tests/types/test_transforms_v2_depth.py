"""Depth, normals and the camera keep telling one truth through torchvision.transforms.v2."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from transform_cases import moved

from samples import Array, make_sample
from segpaste.types import CameraIntrinsics, DenseSample
from segpaste.types.tensors import NormalMap

H, W = 17, 11
SIDES = st.integers(1, 30)
CAMERA = CameraIntrinsics(40.0, 44.0, 4.25, 9.5)
PLANE = np.array([0.36, -0.48, -0.8])  # n·X = -4: tilted both ways, facing the camera, so that any shift shows
DISTANCE = -4.0


def rays(camera: CameraIntrinsics, u: Array, v: Array) -> Array:
    """[3, ...] directions with z = 1 through the image points (u, v), pixels."""
    return np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, np.ones_like(u)])


def centres(size: tuple[int, int]) -> tuple[Array, Array]:
    """u [H, W] and v [H, W] of the pixel centres."""
    u, v = np.meshgrid(np.arange(size[1]) + 0.5, np.arange(size[0]) + 0.5)
    return u, v


def on_plane(u: Array, v: Array) -> Array:
    """[3, ...] the plane's points seen through (u, v) by the first camera."""
    directions = rays(CAMERA, u, v)
    return directions * (DISTANCE / np.tensordot(PLANE, directions, 1))


def tilted(size: tuple[int, int] = (H, W)) -> DenseSample:
    """The plane seen by the first camera: exact depth and normals, all valid."""
    depth = torch.from_numpy(on_plane(*centres(size))[2:].astype(np.float32))
    normals = torch.from_numpy(PLANE.astype(np.float32))[:, None, None].expand(3, *size).clone()
    return dataclasses.replace(
        make_sample(size, image_dtype=torch.float32), depth=depth, depth_valid=depth > 0, normals=normals,
        camera_intrinsics=CAMERA, metric_depth=True,
    )  # fmt: skip


def call(name: str, *args: Any) -> Callable[[Any], Any]:
    """The functional over the fields that it moves."""
    return lambda fields: {
        k: getattr(F, name)(v, *args) if isinstance(v, Tensor) and k not in ("labels", "instance_ids") else v
        for k, v in fields.items()
    }


# Each transform with the image point of the first picture that its image point (u, v) shows.
MOVES: dict[str, tuple[Callable[[Any], Any], Callable[[Array, Array], tuple[Array, Array]], float]] = {
    "hflip": (call("horizontal_flip"), lambda u, v: (W - u, v), 1e-6),
    "vflip": (call("vertical_flip"), lambda u, v: (u, H - v), 1e-6),
    "crop": (call("crop", 3, 2, 9, 7), lambda u, v: (u + 2, v + 3), 1e-6),
    "crop_outside": (call("crop", -4, 5, 12, 13), lambda u, v: (u + 5, v - 4), 1e-6),
    "pad": (call("pad", [1, 2, 3, 4]), lambda u, v: (u - 1, v - 2), 1e-6),
    "center_crop": (call("center_crop", [6, 20]), lambda u, v: (u - 4, v + 6), 1e-6),
    "enlarge": (call("resize", [41, 33]), lambda u, v: (u * W / 33, v * H / 41), 1e-3),
    "shrink": (call("resize", [8, 5]), lambda u, v: (u * W / 5, v * H / 8), 1e-3),
    "squeeze": (call("resize", [17, 29]), lambda u, v: (u * W / 29, v), 1e-3),
    "resized_crop": (
        call("resized_crop", 2, 1, 13, 8, [31, 15]), lambda u, v: (u * 8 / 15 + 1, v * 13 / 31 + 2), 1e-3,
    ),
}  # fmt: skip
MIRRORS = {"hflip": np.array([-1.0, 1, 1]), "vflip": np.array([1.0, -1, 1])}


class TestReprojection:
    """Depth and intrinsics together name points in space; these must be the points that were there before."""

    @pytest.mark.parametrize("name", MOVES)
    def test_every_pixel_is_the_point_that_it_was(self, name: str) -> None:
        transform, back, tolerance = MOVES[name]
        mirror = MIRRORS.get(name, np.ones(3))
        after = moved(tilted(), transform)
        u, v = centres(after.canvas_size)
        points = rays(after.camera_intrinsics, u, v) * after.depth.numpy()
        want = on_plane(*back(u, v)) * mirror[:, None, None]
        first_u, first_v = back(u, v)
        # Beyond the outermost centres of what it is given a resize repeats the border, as it does for the image.
        x0, y0, x1, y1 = (1, 2, 9, 15) if name == "resized_crop" else (0, 0, W, H)
        inner = (first_u >= x0 + 0.5) & (first_u <= x1 - 0.5) & (first_v >= y0 + 0.5) & (first_v <= y1 - 0.5)
        assert inner.sum() > 20
        assert bool(after.depth_valid[0].numpy()[inner].all())
        error = np.abs(points - want).max(0) / want[2]
        assert error[inner].max() < tolerance
        # Projected by the new camera, the old points land on the pixels that show them.
        camera = after.camera_intrinsics
        landed = np.stack([camera.fx * want[0] / want[2] + camera.cx, camera.fy * want[1] / want[2] + camera.cy])
        np.testing.assert_allclose(landed, np.stack([u, v]), atol=1e-4)

    @pytest.mark.parametrize("name", MOVES)
    def test_normals_stay_those_of_the_surface(self, name: str) -> None:
        after = moved(tilted(), MOVES[name][0])
        valid = (after.normals != 0).any(0)
        assert int(valid.sum()) > 20
        want = (PLANE * MIRRORS.get(name, np.ones(3))).astype(np.float32)
        np.testing.assert_allclose(after.normals[:, valid].T, np.broadcast_to(want, (int(valid.sum()), 3)), atol=1e-6)

    def test_two_flips_are_none(self) -> None:
        sample = make_sample(camera=True)
        for name in ("horizontal_flip", "vertical_flip"):
            twice = moved(moved(sample, call(name)), call(name))
            assert torch.equal(twice.normals, sample.normals)
            assert torch.equal(twice.depth, sample.depth)
            assert twice.camera_intrinsics == sample.camera_intrinsics

    @pytest.mark.parametrize("size", [(34, 22), 9, [14]])
    def test_the_camera_of_a_resize_by_hand(self, size: Any) -> None:
        after = moved(tilted(), v2.Resize(size))
        scale_y, scale_x = after.canvas_size[0] / H, after.canvas_size[1] / W
        got = after.camera_intrinsics
        assert (got.fx, got.fy) == pytest.approx((40.0 * scale_x, 44.0 * scale_y))
        assert (got.cx, got.cy) == pytest.approx((4.25 * scale_x, 9.5 * scale_y))

    def test_a_camera_in_tenths_survives_a_crop(self) -> None:
        sample = dataclasses.replace(tilted(), camera_intrinsics=CameraIntrinsics(500.1, 499.9, 5.3, 8.7))
        got = moved(sample, call("crop", 2, 3, 9, 7)).camera_intrinsics
        assert (got.fx, got.fy, got.cx, got.cy) == pytest.approx((500.1, 499.9, 2.3, 6.7), rel=1e-6)


def two_planes(size: tuple[int, int], seed: int) -> DenseSample:
    """Depth 2 in front of depth 5 in a ragged pattern, garbage where it is invalid."""
    rng = np.random.default_rng(seed)
    near, valid = rng.random((1, *size)) < 0.5, rng.random((1, *size)) < 0.85
    garbage = rng.choice([0.0, np.nan, np.inf, 1e9, -3.0], (1, *size))
    depth = np.where(valid, np.where(near, 2.0, 5.0), garbage).astype(np.float32)
    return dataclasses.replace(
        make_sample(size, 1, image_dtype=torch.float32),
        depth=torch.from_numpy(depth),
        depth_valid=torch.from_numpy(valid),
    )


def linear_pixels(x: int, size: int, out_size: int) -> dict[int, Fraction]:
    """The source pixels between which output pixel x lies along one axis, with their weights."""
    centre = (x + Fraction(1, 2)) * size / out_size - Fraction(1, 2)
    low = floor(centre)
    weights: dict[int, Fraction] = {}
    for i, weight in ((low, 1 - (centre - low)), (low + 1, centre - low)):
        if weight:
            inside = min(max(i, 0), size - 1)
            weights[inside] = weights.get(inside, Fraction(0)) + weight
    return weights


class TestDepth:
    @given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES), st.integers(0, 99))
    def test_resize_invents_no_surface(self, size: tuple[int, int], out_size: tuple[int, int], seed: int) -> None:
        sample = two_planes(size, seed)
        after = moved(sample, v2.Resize(out_size))
        for y in range(out_size[0]):
            for x in range(out_size[1]):
                rows, cols = linear_pixels(y, size[0], out_size[0]), linear_pixels(x, size[1], out_size[1])
                taps = [(row, col) for row in rows for col in cols]
                nearest = (
                    floor((y + Fraction(1, 2)) * size[0] / out_size[0]),
                    floor((x + Fraction(1, 2)) * size[1] / out_size[1]),
                )
                is_valid = all(bool(sample.depth_valid[0, r, c]) for r, c in taps)
                assert bool(after.depth_valid[0, y, x]) == is_valid
                assert float(after.depth[0, y, x]) == (float(sample.depth[0][nearest]) if is_valid else 0.0)

    @given(st.tuples(SIDES, SIDES), st.integers(0, 99))
    def test_on_one_surface_it_is_linear(self, out_size: tuple[int, int], seed: int) -> None:
        smooth = 3.0 + 0.05 * np.random.default_rng(seed).random((H, W))
        sample = dataclasses.replace(
            make_sample(image_dtype=torch.float32), depth=torch.from_numpy(smooth[None].astype(np.float32)),
            depth_valid=torch.ones(1, H, W, dtype=torch.bool),
        )  # fmt: skip
        after = moved(sample, v2.Resize(out_size))
        want = [
            [
                sum(
                    smooth[r, c] * float(wr * wc)
                    for r, wr in linear_pixels(y, H, out_size[0]).items()
                    for c, wc in linear_pixels(x, W, out_size[1]).items()
                )
                for x in range(out_size[1])
            ]
            for y in range(out_size[0])
        ]
        np.testing.assert_allclose(after.depth[0], want, atol=0.05 * 4 / 2048)
        assert bool(after.depth_valid.all())

    @pytest.mark.parametrize("name", MOVES)
    def test_garbage_under_invalid_pixels_never_shows(self, name: str) -> None:
        after = moved(two_planes((H, W), 1), MOVES[name][0])
        assert set(after.depth[after.depth_valid].tolist()) == {2.0, 5.0}
        assert set(after.depth[~after.depth_valid].tolist()) <= {0.0}

    def test_padding_is_invalid(self) -> None:
        after = moved(tilted(), v2.Pad(2))
        assert int(after.depth_valid.sum()) == H * W
        assert bool(after.depth_valid[:, 2:-2, 2:-2].all())


class TestNormals:
    @given(st.tuples(SIDES, SIDES), st.integers(0, 99))
    def test_unit_or_zero_where_the_nearest_is_zero(self, out_size: tuple[int, int], seed: int) -> None:
        sample = make_sample(seed=seed, image_dtype=torch.float32)
        after = moved(sample, v2.Resize(out_size))
        norm = after.normals.double().norm(dim=0)
        rows = [floor((y + Fraction(1, 2)) * H / out_size[0]) for y in range(out_size[0])]
        cols = [floor((x + Fraction(1, 2)) * W / out_size[1]) for x in range(out_size[1])]
        is_valid = (sample.normals != 0).any(0)[rows][:, cols]
        assert torch.equal(norm > 0, is_valid)
        assert float((norm[is_valid] - 1).abs().max() if is_valid.any() else 0) < 1e-6

    @pytest.mark.parametrize(("name", "axis", "component"), [("horizontal_flip", 2, 0), ("vertical_flip", 1, 1)])
    def test_a_flip_negates_one_component(self, name: str, axis: int, component: int) -> None:
        sample = make_sample()
        want = sample.normals.flip(axis)
        want[component] = -want[component]
        assert torch.equal(moved(sample, call(name)).normals, want)

    def test_padding_is_zero(self) -> None:
        normals = NormalMap(tilted().normals)
        assert int((F.pad(normals, [2, 1, 0, 3]) != 0).any(0).sum()) == H * W


def test_normals_are_resized_linearly() -> None:
    """Between two normals at right angles lie turned ones, not copies of the two."""
    normals = torch.zeros(3, 1, 2)
    normals[0, 0, 0] = normals[2, 0, 1] = 1.0
    got = F.resize(NormalMap(normals), [1, 4]).as_subclass(Tensor)
    want = torch.nn.functional.normalize(torch.tensor([[1.0, 0.75, 0.25, 0.0], [0.0, 0.25, 0.75, 1.0]]), dim=0)
    torch.testing.assert_close(got[[0, 2], 0], want)
