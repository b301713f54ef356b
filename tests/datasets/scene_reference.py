"""Helpers for tests of scenes: samples as arrays, back-projection, and an independent slow ray caster."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from samples import plain
from segpaste.datasets.scenes import Scene, SceneConfig, SceneDataset, Solid, Sphere
from segpaste.types import FIELDS, DenseSample

Array = np.ndarray[Any, Any]

SMALL = SceneConfig(height=17, width=11, rays_per_px=1)
ROOMY = SceneConfig(height=61, width=83, rays_per_px=1, window_prob=1.0, mirror_prob=1.0, rug_prob=1.0)
SEEDS = st.integers(0, 2**64 - 1)
SIZES = st.sampled_from([(17, 11), (11, 17), (31, 29), (1, 1), (1, 23), (23, 1)])


def make(config: SceneConfig, seed: int = 0, index: int = 0) -> tuple[Scene, DenseSample]:
    dataset = SceneDataset(index + 1, config, seed)
    return dataset.scene(index), dataset[index]


def numpy_of(sample: DenseSample) -> dict[str, Array]:
    values = ((f.name, getattr(sample, f.name)) for f in FIELDS if f.layout in ("dense", "instance"))
    return {name: plain(value) for name, value in values if value is not None}


def rays_of(sample: DenseSample) -> Array:
    """[H, W, 3] float64, from the float32 intrinsics that a batch would hold."""
    assert sample.camera_intrinsics is not None
    fx, fy, cx, cy = sample.camera_intrinsics.to_tensor().double().tolist()
    height, width = sample.canvas_size
    x, y = np.meshgrid((np.arange(width) + 0.5 - cx) / fx, (np.arange(height) + 0.5 - cy) / fy)
    return np.stack([x, y, np.ones_like(x)], axis=-1)


def points_of(sample: DenseSample) -> Array:
    """[H, W, 3] float64 metres: depth back-projected; meaningless where depth is invalid."""
    assert sample.depth is not None
    return rays_of(sample) * sample.depth[0].double().numpy()[..., None]


def local(solid: Solid, points: Array) -> Array:
    return (points - np.array(solid.center)) @ np.array(solid.axes).T


def everything(sample: DenseSample) -> bytes:
    parts = [name.encode() + value.tobytes() for name, value in numpy_of(sample).items()]
    return b"".join([*parts, repr((sample.camera_intrinsics, sample.metric_depth)).encode()])


def slow_hit(scene: Scene, ray: Array) -> tuple[float, int]:
    """Depth and surface index of the first hit of one ray, by scalars: faces as rectangles, balls by projection."""
    first: tuple[float, int] = (math.inf, -1)
    for index, plane in enumerate(scene.planes):
        depth = plane.offset / ray[plane.axis] if ray[plane.axis] * plane.offset > 0 else math.inf
        first = min(first, (depth, index))
    point = first[0] * ray
    for index, patch in enumerate(scene.patches, start=len(scene.planes)):
        inside = all(a < p < b for a, p, b in zip(patch.low, point, patch.high, strict=True))
        if patch.plane_idx == first[1] and inside:
            first = (first[0], index)
    for index, solid in enumerate(scene.solids, start=len(scene.planes) + len(scene.patches)):
        depth = slow_ball(solid, ray) if isinstance(solid, Sphere) else slow_box(solid, ray)
        first = min(first, (depth, index))
    return first


def slow_ball(solid: Solid, ray: Array) -> float:
    along = ray / np.linalg.norm(ray)
    center = np.array(solid.center)
    foot = center @ along
    missed_by = float(np.linalg.norm(center - foot * along))
    if missed_by >= solid.half_size[0]:
        return math.inf
    return float((foot - math.sqrt(solid.half_size[0] ** 2 - missed_by**2)) * along[2])


def slow_box(solid: Solid, ray: Array) -> float:
    depths = [math.inf]
    for axis in range(3):
        for side in (-1, 1):
            normal = side * np.array(solid.axes[axis])
            facing = float(ray @ normal)
            if facing >= 0:
                continue
            depth = float((np.array(solid.center) @ normal + solid.half_size[axis]) / facing)
            own = np.abs(local(solid, depth * ray))
            if all(own[other] <= solid.half_size[other] for other in range(3) if other != axis):
                depths.append(depth)
    return min(depths)
