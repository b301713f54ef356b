"""Depth, normals, visibility and shadows of scenes against their geometry and against a slow ray caster."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_reference import (
    ROOMY,
    SEEDS,
    SIZES,
    SMALL,
    Array,
    everything,
    local,
    make,
    numpy_of,
    points_of,
    rays_of,
    slow_ball,
    slow_box,
    slow_hit,
)

from segpaste.datasets.scenes import Plane, SceneDataset, Solid, Sphere, _rendering, render_scene


class TestAgainstSlowRayCaster:
    @settings(max_examples=12)
    @given(SEEDS, SIZES)
    def test_labels_and_depth_equal(self, seed: int, size: tuple[int, int]) -> None:
        config = replace(ROOMY, height=size[0], width=size[1], grazing_cos=0.0)
        scene, sample = make(config, seed)
        got, rays = numpy_of(sample), rays_of(sample)
        first_solid = len(scene.planes) + len(scene.patches)
        for row, column in np.ndindex(*size):
            depth, surface = slow_hit(scene, rays[row, column])
            assert got["panoptic_map"][row, column] == max(surface - first_solid + 1, 0)
            assert got["semantic_map"][row, column] == scene.surfaces[surface].class_id
            if got["depth_valid"][0, row, column]:
                assert got["depth"][0, row, column] == pytest.approx(depth, rel=1e-6)

    def test_patch_stays_on_its_plane(self) -> None:
        scene, _ = make(replace(ROOMY, num_objects_range=(0, 0)))
        rug = replace(scene.patches[0], low=(-9.0, 0.5, 2.0), high=(9.0, 9.0, 9.0))
        rays = scene.rays()
        bare, covered = (_rendering.cast_scene(replace(scene, patches=p), rays) for p in ((), (rug,)))
        np.testing.assert_array_equal(covered.surface == len(scene.planes), (bare.surface == 0) & (bare.depth > 2.0))


class TestDepth:
    @given(SEEDS)
    def test_points_lie_on_their_solid(self, seed: int) -> None:
        scene, sample = make(replace(ROOMY, height=31, width=29), seed)
        points, got = points_of(sample), numpy_of(sample)
        for instance_id, mask in zip(got["instance_ids"], got["instance_masks"], strict=True):
            solid = scene.solids[instance_id - 1]
            own = local(solid, points[mask & got["depth_valid"][0]])
            if isinstance(solid, Sphere):
                np.testing.assert_allclose(np.linalg.norm(own, axis=1), solid.half_size[0], atol=5e-6)
            else:
                outside = np.abs(own) - np.array(solid.half_size)
                np.testing.assert_allclose(outside.max(1, initial=-np.inf), 0, atol=5e-6)

    @given(SEEDS)
    def test_points_lie_on_the_room(self, seed: int) -> None:
        scene, sample = make(ROOMY, seed)
        got, points = numpy_of(sample), points_of(sample)
        for name, sides in {"floor": [0], "rug": [0], "ceiling": [1], "wall": [2, 3, 4]}.items():
            here = (got["semantic_map"] == ROOMY.stuff_id(name)) & got["depth_valid"][0]
            away = [np.abs(points[here][:, p.axis] - p.offset) for p in (scene.planes[i] for i in sides)]
            np.testing.assert_allclose(np.min(away, axis=0), 0, atol=5e-6)

    def test_every_kind_of_surface_is_seen(self) -> None:
        seen: Counter[int] = Counter()
        for index in range(20):
            seen.update(np.unique(numpy_of(make(ROOMY, index=index)[1])["semantic_map"]).tolist())
        assert set(seen) == {*range(ROOMY.num_classes + 5), 255}

    def test_metric_with_camera(self) -> None:
        scene, sample = make(SMALL)
        assert sample.metric_depth
        assert sample.camera_intrinsics == scene.camera
        assert tuple(scene.camera.to_tensor().tolist()) == (
            scene.camera.fx,
            scene.camera.fy,
            scene.camera.cx,
            scene.camera.cy,
        )


class TestValidity:
    def test_window_and_mirror(self) -> None:
        num_window = num_mirror = 0
        for index in range(10):
            got = numpy_of(make(ROOMY, index=index)[1])
            window, mirror = got["semantic_map"] == ROOMY.stuff_id("window"), got["semantic_map"] == 255
            assert not got["depth_valid"][0][window | mirror].any()
            assert not got["normals"][:, window].any()
            np.testing.assert_allclose(np.linalg.norm(got["normals"][:, mirror], axis=0), 1, atol=1e-6)
            assert not got["panoptic_map"][window | mirror].any()
            num_window, num_mirror = num_window + int(window.sum()), num_mirror + int(mirror.sum())
        assert num_window > 0
        assert num_mirror > 0

    @given(SEEDS, st.sampled_from([0.0, 0.1, 0.2, 0.5]))
    def test_grazing_surfaces_are_invalid(self, seed: int, grazing_cos: float) -> None:
        config = replace(ROOMY, height=31, width=29, window_prob=0, mirror_prob=0, grazing_cos=grazing_cos)
        _, sample = make(config, seed)
        got, rays = numpy_of(sample), rays_of(sample)
        cosine = -(rays * got["normals"].transpose(1, 2, 0)).sum(-1) / np.linalg.norm(rays, axis=-1)
        sure = np.abs(cosine - grazing_cos) > 1e-6
        np.testing.assert_array_equal(got["depth_valid"][0][sure], (cosine > grazing_cos)[sure])
        assert got["depth_valid"].any()

    def test_grazing_surfaces_exist_by_default(self) -> None:
        config = replace(ROOMY, window_prob=0, mirror_prob=0)
        assert any(not numpy_of(make(config, index=i)[1])["depth_valid"].all() for i in range(5))

    @given(SEEDS)
    def test_depth_is_positive_where_valid_and_zero_elsewhere(self, seed: int) -> None:
        got = numpy_of(make(SMALL, seed)[1])
        np.testing.assert_array_equal(got["depth"] > 0, got["depth_valid"])
        np.testing.assert_array_equal(got["depth"] == 0, ~got["depth_valid"])


class TestNormals:
    @given(SEEDS)
    def test_unit_and_facing_the_camera(self, seed: int) -> None:
        config = replace(ROOMY, height=31, width=29)
        _, sample = make(config, seed)
        got = numpy_of(sample)
        seen = got["semantic_map"] != config.stuff_id("window")
        np.testing.assert_allclose(np.linalg.norm(got["normals"], axis=0)[seen], 1, atol=1e-6)
        assert ((rays_of(sample) * got["normals"].transpose(1, 2, 0)).sum(-1)[seen] < 1e-6).all()

    @given(SEEDS)
    def test_analytic(self, seed: int) -> None:
        scene, sample = make(replace(ROOMY, height=31, width=29), seed)
        points, got = points_of(sample), numpy_of(sample)
        for instance_id, mask in zip(got["instance_ids"], got["instance_masks"], strict=True):
            solid, here = scene.solids[instance_id - 1], mask & got["depth_valid"][0]
            own, normals = local(solid, points[here]), got["normals"][:, here].T
            if isinstance(solid, Sphere):
                np.testing.assert_allclose(normals, (points[here] - solid.center) / solid.half_size[0], atol=5e-5)
                continue
            turned = normals @ np.array(solid.axes).T
            face = np.abs(turned).argmax(1)[:, None]
            expected = np.zeros_like(turned)
            np.put_along_axis(expected, face, np.sign(np.take_along_axis(own, face, 1)), 1)
            np.testing.assert_allclose(turned, expected, atol=1e-6)
            reach = np.abs(np.take_along_axis(own, face, 1))[:, 0]
            np.testing.assert_allclose(reach, np.array(solid.half_size)[face[:, 0]], atol=5e-6)

    def test_camera_frame_right_down_forward(self) -> None:
        config = replace(ROOMY, num_objects_range=(0, 0), mirror_prob=0, window_prob=0)
        scene, sample = make(config)
        got = numpy_of(sample)
        normals, semantic = got["normals"].transpose(1, 2, 0), got["semantic_map"]
        floor, ceiling, wall = (semantic == config.stuff_id(name) for name in ("floor", "ceiling", "wall"))
        assert (normals[floor] == (0, -1, 0)).all()
        assert (normals[ceiling] == (0, 1, 0)).all()
        on_back = wall & np.isclose(got["depth"][0], scene.planes[4].offset)
        assert (normals[on_back] == (0, 0, -1)).all()
        x = rays_of(sample)[..., 0]
        assert (normals[wall & ~on_back & (x < 0)] == (1, 0, 0)).all()
        assert (normals[wall & ~on_back & (x > 0)] == (-1, 0, 0)).all()
        assert all(part.any() for part in (floor, ceiling, on_back, wall & ~on_back))

    @pytest.mark.parametrize("index", range(4))
    def test_finite_differences_of_depth_agree(self, index: int) -> None:
        config = replace(ROOMY, height=211, width=199)
        _, sample = make(config, seed=5, index=index)
        got, points = numpy_of(sample), points_of(sample)
        across, down = points[1:-1, 2:] - points[1:-1, :-2], points[2:, 1:-1] - points[:-2, 1:-1]
        crossed = np.cross(down, across)
        crossed /= np.maximum(np.linalg.norm(crossed, axis=-1, keepdims=True), 1e-12)
        normals = got["normals"].transpose(1, 2, 0)
        smooth = np.ones(crossed.shape[:2], bool)
        for rows, columns in ((0, 1), (2, 1), (1, 0), (1, 2), (1, 1)):
            window = np.s_[rows : rows + smooth.shape[0], columns : columns + smooth.shape[1]]
            smooth &= got["depth_valid"][0][window]
            for name in ("semantic_map", "panoptic_map"):
                smooth &= got[name][window] == got[name][1:-1, 1:-1]
            smooth &= (normals[window] * normals[1:-1, 1:-1]).sum(-1) > 0.9  # not across an edge of a box
        assert smooth.mean() > 0.5
        assert ((crossed * normals[1:-1, 1:-1]).sum(-1)[smooth] > 0.998).all()


class TestPicture:
    def test_windows_lose_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        config = replace(ROOMY, num_objects_range=(10, 10))
        expected = [everything(make(config, index=i)[1]) for i in range(6)]
        whole = (slice(None), slice(None))
        monkeypatch.setattr(_rendering, "window_of", lambda corners, rays: whole)
        assert [everything(make(config, index=i)[1]) for i in range(6)] == expected

    def test_shadows_fall(self) -> None:
        num_shaded = 0
        for index in range(6):
            scene, _ = make(ROOMY, index=index)
            hits = _rendering.cast_scene(scene, scene.rays())
            shaded = _rendering.cast_shadows(scene, scene.rays(), hits)
            num_shaded += int(shaded.sum())
            x, y, _ = scene.rays()
            points = np.stack(np.broadcast_arrays(x * hits.depth, y * hits.depth, hits.depth), -1)
            for row, column in np.argwhere(hits.surface == 0)[::7]:
                towards = np.array(scene.towards_light)
                blocked = any(self.blocks(solid, points[row, column], towards) for solid in scene.solids)
                assert shaded[row, column] == blocked
        assert num_shaded > 100

    def test_no_solid_shades_itself(self) -> None:
        for index in range(6):
            scene, _ = make(replace(ROOMY, num_objects_range=(1, 1)), index=index)
            x, y, z = (component.astype(np.float32) for component in scene.rays())
            hits = _rendering.cast_scene(scene, (x, y, z))
            on_solid = hits.surface == len(scene.surfaces) - 1
            assert on_solid.any()
            assert not _rendering.cast_shadows(scene, (x, y, z), hits)[on_solid].any()

    @staticmethod
    def blocks(solid: Solid, origin: Array, towards: Array) -> bool:
        """Return whether a ray from a point on the floor meets the solid, with the camera moved to that point."""
        moved = replace(solid, center=tuple((np.array(solid.center) - origin).tolist()))
        forward = np.array([0.0, 0.0, 1.0])
        turn = np.linalg.qr(np.stack([towards, forward, [1.0, 0.0, 0.0]], 1))[0].T[[1, 2, 0]]
        turn[2] *= np.sign(turn[2] @ towards)  # rows: two directions across the light, then the light
        turned = replace(
            moved, center=tuple(turn @ moved.center), axes=tuple(map(tuple, np.array(moved.axes) @ turn.T))
        )
        meet = slow_ball if isinstance(solid, Sphere) else slow_box
        return 0 < meet(turned, forward) < math.inf

    def test_rays_per_px_changes_only_the_picture(self) -> None:
        coarse, fine = (numpy_of(make(replace(ROOMY, rays_per_px=n))[1]) for n in (1, 3))
        for name, value in coarse.items():
            if name != "image":
                np.testing.assert_array_equal(value, fine[name])
        difference = np.abs(coarse["image"].astype(int) - fine["image"])
        assert 0 < difference.mean() < 16

    def test_pixel_is_the_mean_of_its_rays(self) -> None:
        scene, sample = make(replace(ROOMY, rays_per_px=2))
        doubled = replace(scene, height=2 * 61, width=2 * 83, camera=scene.camera.resized(2, 2))
        large = numpy_of(render_scene(doubled, ROOMY))["image"].reshape(3, 61, 2, 83, 2)
        assert np.abs(large.mean((2, 4)) - numpy_of(sample)["image"]).max() <= 1

    def test_shadows_darken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scene, sample = make(ROOMY)
        hits = _rendering.cast_scene(scene, scene.rays())
        sunny = np.array(scene.towards_light) @ hits.normals.transpose(1, 0, 2) > 0.1
        luminous = np.isin(numpy_of(sample)["semantic_map"], [255, ROOMY.stuff_id("window")])
        shaded = _rendering.cast_shadows(scene, scene.rays(), hits) & sunny & ~luminous
        monkeypatch.setattr(_rendering, "cast_shadows", lambda scene, rays, hits: np.zeros_like(shaded))
        lit, got = (numpy_of(s)["image"].astype(int).sum(0) for s in (make(ROOMY)[1], sample))
        assert shaded.any()
        assert (got[shaded] < lit[shaded]).mean() > 0.99
        assert (got <= lit).all()

    def test_instances_stand_out(self) -> None:
        sample = make(replace(ROOMY, rays_per_px=2))[1]
        got = numpy_of(sample)
        assert got["image"].dtype == np.uint8
        colors = [got["image"][:, mask].mean(1) for mask in got["instance_masks"] if mask.sum() > 30]
        assert len(colors) >= 3
        assert all(color.max() - color.min() > 15 for color in colors)
        assert len({tuple(color) for color in colors}) == len(colors)


def test_planes_of_a_room() -> None:
    scene = SceneDataset(1, SMALL).scene(0)
    assert [type(p) for p in scene.planes] == [Plane] * 5
    assert [p.normal for p in scene.planes] == [(0, -1, 0), (0, 1, 0), (1, 0, 0), (-1, 0, 0), (0, 0, -1)]
