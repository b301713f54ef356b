"""Random layout of a scene: its room, camera, light and objects. Nothing here reads or writes pixels.

A scene is drawn from one generator in one fixed order: camera, room, patches, light, solids. Rotations come from
rational formulas instead of sines, so that every number of a scene is the same on every machine.
"""

from __future__ import annotations

import math
from bisect import bisect
from itertools import accumulate

import numpy as np

from segpaste.datasets.scenes import _materials as materials
from segpaste.datasets.scenes._config import SHAPES, SceneConfig, shape_of
from segpaste.datasets.scenes._geometry import Box, Patch, Plane, Scene, Solid, Sphere, Vector
from segpaste.types import IGNORE_INDEX, CameraIntrinsics

_NEAREST_M = 2.2
_SIZE_RANGE_M = (0.24, 0.48)
_STACKED_PROB = 0.6
_MAX_TRIES = 40


def draw_scene(config: SceneConfig, rng: np.random.Generator) -> Scene:
    """Draw a scene whose solids do not intersect one another or the room."""
    camera = _draw_camera(config, rng)
    planes = _draw_planes(config, rng)
    patches = _draw_patches(config, rng, planes)
    towards_light = _draw_light(rng)
    solids = _draw_solids(config, rng, planes, camera)
    return Scene(config.height, config.width, camera, planes, patches, solids, towards_light)


def _draw_camera(config: SceneConfig, rng: np.random.Generator) -> CameraIntrinsics:
    """Draw a level camera whose principal point is above the middle, as with a shift lens, to show the floor."""
    focal = rng.uniform(*config.focal_frac_range) * min(config.height, config.width)
    values = (
        focal,
        focal * rng.uniform(0.97, 1.03),
        config.width * rng.uniform(0.45, 0.55),
        config.height * rng.uniform(0.3, 0.42),
    )
    fx, fy, cx, cy = (float(np.float32(v)) for v in values)  # exact in float32, as batches hold it
    return CameraIntrinsics(fx, fy, cx, cy)


def _draw_planes(config: SceneConfig, rng: np.random.Generator) -> tuple[Plane, ...]:
    """Draw floor, ceiling, left, right and back wall of a room around the camera."""
    paper, flooring = materials.draw_wallpaper(rng), materials.draw_flooring(rng)
    floor, wall, ceiling = (config.stuff_id(name) for name in ("floor", "wall", "ceiling"))
    return (
        Plane(1, rng.uniform(1.3, 1.6), floor, flooring),
        Plane(1, -rng.uniform(1.1, 1.4), ceiling, materials.CEILING),
        Plane(0, -rng.uniform(1.6, 2.4), wall, paper),
        Plane(0, rng.uniform(1.6, 2.4), wall, paper),
        Plane(2, rng.uniform(4.2, 5.5), wall, paper),
    )


def _draw_patches(config: SceneConfig, rng: np.random.Generator, planes: tuple[Plane, ...]) -> tuple[Patch, ...]:
    """Draw an optional rug on the floor, and an optional window and mirror in the halves of the back wall."""
    floor, ceiling, left, right, back = (plane.offset for plane in planes)
    patches = []
    if rng.uniform() < config.rug_prob:
        x, z = rng.uniform(-0.5, 0.5), rng.uniform(2.8, 3.4)
        half_x, half_z = rng.uniform(0.6, 1.1), rng.uniform(0.5, 0.8)
        low, high = (x - half_x, floor - 0.01, z - half_z), (x + half_x, floor + 0.01, z + half_z)
        patches.append(Patch(0, low, high, config.stuff_id("rug"), materials.draw_rug(rng)))
    sides = (0.08, 0.56) if rng.uniform() < 0.5 else (0.56, 0.08)
    for side, prob, class_id, material in (
        (sides[0], config.window_prob, config.stuff_id("window"), materials.WINDOW),
        (sides[1], config.mirror_prob, IGNORE_INDEX, materials.MIRROR),
    ):
        first, last = side + rng.uniform(0, 0.06), side + rng.uniform(0.3, 0.36)
        low = (left + first * (right - left), ceiling * rng.uniform(0.6, 0.85), back - 0.01)
        high = (left + last * (right - left), floor * rng.uniform(-0.05, 0.3), back + 0.01)
        if rng.uniform() < prob:
            patches.append(Patch(4, low, high, class_id, material))
    return tuple(patches)


def _draw_light(rng: np.random.Generator) -> Vector:
    """Draw a light direction from above and behind the camera, so that shadows fall away from it."""
    x, y, z = rng.uniform(-0.7, 0.7), -1.0, -rng.uniform(0.2, 0.7)
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


def _draw_solids(
    config: SceneConfig, rng: np.random.Generator, planes: tuple[Plane, ...], camera: CameraIntrinsics
) -> tuple[Solid, ...]:
    """Draw objects on the floor and on boxes; an object without a free place is left out."""
    shares = list(accumulate((c + 1.0) ** -config.long_tail for c in range(config.num_classes)))
    solids: list[Solid] = []
    loaded: set[int] = set()
    for _ in range(int(rng.integers(*config.num_objects_range, endpoint=True))):
        class_id = min(bisect(shares, rng.uniform() * shares[-1]), config.num_classes - 1)
        size = rng.uniform(*_SIZE_RANGE_M)
        h_x, h_y, h_z = (size * part for part in SHAPES[shape_of(class_id)])
        solid_type, axes = (Sphere, _tumbled(rng)) if shape_of(class_id) == "ball" else (Box, _turned(rng))
        below = _find_support(solids, loaded, (h_x, h_y, h_z))
        if below is not None and rng.uniform() < _STACKED_PROB:
            base = solids[below]
            center = (base.center[0], base.center[1] - base.half_size[1] - h_y, base.center[2])
            loaded |= {below, len(solids)}
        else:
            place = _draw_place(config, rng, planes, camera, _radius((h_x, h_y, h_z)), solids)
            if place is None:
                continue
            center = (place[0], planes[0].offset - h_y, place[1])
        solids.append(solid_type(center, axes, (h_x, h_y, h_z), class_id, materials.draw_thing(rng, class_id)))
    return tuple(solids)


def _find_support(solids: list[Solid], loaded: set[int], half_size: Vector) -> int | None:
    """Return the first free box that is wide enough; two stacked objects are always lower than the room."""
    for index, base in enumerate(solids):
        wide = _radius(half_size) <= min(base.half_size[0], base.half_size[2])
        if isinstance(base, Box) and index not in loaded and wide:
            return index
    return None


def _draw_place(
    config: SceneConfig,
    rng: np.random.Generator,
    planes: tuple[Plane, ...],
    camera: CameraIntrinsics,
    radius: float,
    solids: list[Solid],
) -> tuple[float, float] | None:
    """Draw a free (x, z) on the visible floor for an upright cylinder of this radius; None after too many tries."""
    _, _, left, right, back = (plane.offset for plane in planes)
    for _ in range(_MAX_TRIES):
        z = rng.uniform(_NEAREST_M, back - radius)
        x = z * (config.width * rng.uniform(0.05, 0.95) - camera.cx) / camera.fx
        free = all(
            (x - s.center[0]) ** 2 + (z - s.center[2]) ** 2 > (radius + _radius(s.half_size)) ** 2 for s in solids
        )
        if free and left + radius < x < right - radius:
            return x, z
    return None


def _radius(half_size: Vector) -> float:
    """Return the radius of an upright cylinder that encloses the body in any rotation."""
    return math.sqrt(half_size[0] ** 2 + half_size[2] ** 2)


def _turned(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    """Draw axes rotated about the vertical by up to a right angle either way; tan(angle / 2) is drawn."""
    t = rng.uniform(-1, 1)
    cos, sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    return (cos, 0.0, sin), (0.0, 1.0, 0.0), (-sin, 0.0, cos)


def _tumbled(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    """Draw axes in any rotation, as the matrix of a quaternion."""
    w, (x, y, z) = rng.uniform(0.05, 1), (rng.uniform(-1, 1) for _ in range(3))
    s = 2 / (w * w + x * x + y * y + z * z)
    return (
        (1 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)),
        (s * (x * y + z * w), 1 - s * (x * x + z * z), s * (y * z - x * w)),
        (s * (x * z - y * w), s * (y * z + x * w), 1 - s * (x * x + y * y)),
    )
