"""Random rooms: configuration, classes, camera, light, objects and materials. Nothing here reads or writes pixels.

A scene is drawn from one generator in one fixed order: camera, room, patches, light, solids. Rotations come from
rational formulas instead of sines, so that every number of a scene is the same on every machine. Each class has its hue
and texture, each instance its own shade.
"""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from segpaste.datasets.scenes._geometry import Box, Material, Patch, Plane, Scene, Solid, Sphere, Texture, Vector
from segpaste.types import IGNORE_INDEX, CameraIntrinsics

STUFF_NAMES = ("floor", "wall", "ceiling", "rug", "window")
"""Stuff classes; their ids follow those of the things, in this order."""

SHAPES: dict[str, Vector] = {
    "ball": (1.0, 1.0, 1.0),
    "cube": (0.8, 0.8, 0.8),
    "tower": (0.5, 1.25, 0.5),
    "slab": (1.1, 0.4, 0.8),
}
"""Shape names, with half the extent along each axis relative to the size of the object."""

TEXTURES: tuple[Texture, ...] = ("plain", "striped", "checkered", "marbled")


@dataclass(frozen=True, slots=True)
class SceneConfig:
    """Distribution of the scenes.

    Attributes:
        height: height of the images, pixels.
        width: width of the images, pixels.
        num_objects_range: number of objects to place in a room, inclusive; an object without a free place, or a
            hidden one, is absent.
        num_classes: number of thing classes, 1 to 250.
        long_tail: Zipf exponent: class c is drawn in proportion to 1 / (c + 1) ** long_tail; 0 is uniform.
        focal_frac_range: focal length as a multiple of the shorter side of the image, inclusive.
        rug_prob: probability of a rug, which is stuff.
        window_prob: probability of a window, which is stuff with invalid depth and zero normals.
        mirror_prob: probability of a mirror, which is unlabelled and has invalid depth.
        grazing_cos: depth is invalid where the cosine between normal and line of sight is below this; 0 disables it.
        rays_per_px: rays per pixel of the image, along each axis; all other fields are exact at the pixel centre.

    Raises:
        ValueError: an attribute is out of range; the message names it.
    """

    height: int = 256
    width: int = 256
    num_objects_range: tuple[int, int] = (5, 10)
    num_classes: int = 8
    long_tail: float = 0.0
    focal_frac_range: tuple[float, float] = (0.85, 1.1)
    rug_prob: float = 0.6
    window_prob: float = 0.5
    mirror_prob: float = 0.25
    grazing_cos: float = 0.2
    rays_per_px: int = 2

    def __post_init__(self) -> None:
        for name, low, high in (
            ("height", 1, math.inf),
            ("width", 1, math.inf),
            ("num_classes", 1, 250),
            ("long_tail", 0, math.inf),
            ("rug_prob", 0, 1),
            ("window_prob", 0, 1),
            ("mirror_prob", 0, 1),
            ("grazing_cos", 0, 1),
            ("rays_per_px", 1, 8),
        ):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low <= value <= high:
                wanted = f"at least {low}" if high == math.inf else f"between {low} and {high}"
                raise ValueError(f"SceneConfig.{name}: expected a number {wanted}, got {value!r:.80}")
        for name, least in (("num_objects_range", 0), ("focal_frac_range", 0.2)):
            first, last = getattr(self, name)
            if not least <= first <= last:
                raise ValueError(
                    f"SceneConfig.{name}: expected (low, high) with {least} <= low <= high, got {(first, last)}"
                )

    @property
    def thing_names(self) -> tuple[str, ...]:
        """Names of the thing classes, whose ids are 0 .. num_classes - 1."""
        distinct = len(SHAPES) * len(TEXTURES)
        return tuple(
            f"{texture_of(c)} {shape_of(c)}" + (f" {c // distinct + 1}" if c >= distinct else "")
            for c in range(self.num_classes)
        )

    def stuff_id(self, name: str) -> int:
        """Return the class id of one of `STUFF_NAMES`."""
        return self.num_classes + STUFF_NAMES.index(name)


def shape_of(class_id: int) -> str:
    """Return the shape of a thing class, a key of `SHAPES`."""
    return tuple(SHAPES)[class_id % len(SHAPES)]


def texture_of(class_id: int) -> Texture:
    """Return the texture of a thing class; pairs of shape and texture repeat only after all combinations."""
    return TEXTURES[(class_id + class_id // len(SHAPES)) % len(TEXTURES)]


CEILING = Material("plain", ((0.85, 0.85, 0.83), (0.78, 0.78, 0.77)), 0.5)
WINDOW = Material("sky", ((0.1, 0.32, 0.75), (0.95, 0.97, 1.0)), 1.0)
MIRROR = Material("glass", ((0.12, 0.07, 0.04), (0.72, 0.8, 0.82)), 1.0)

_GOLDEN_RATIO = 0.6180339887498949


def draw_thing(rng: np.random.Generator, class_id: int) -> Material:
    """Draw the material of an object; the hues of successive classes are a golden section of the circle apart."""
    hue = 0.02 + _GOLDEN_RATIO * class_id + rng.uniform(-0.025, 0.025)
    strong = _rgb(hue, rng.uniform(0.7, 0.9), rng.uniform(0.5, 0.85))
    texture = texture_of(class_id)
    second = _mix(strong, (0.0, 0.0, 0.0), 0.35) if texture == "plain" else _rgb(hue + 0.08, 0.25, 0.9)
    cell = rng.uniform(0.16, 0.26) * (2 if texture == "marbled" else 1)
    return Material(texture, (strong, second), cell, rng.uniform(0.1, 0.5))


def draw_wallpaper(rng: np.random.Generator) -> Material:
    """Draw the material of the walls: pale, sometimes striped."""
    pale = _rgb(rng.uniform(), rng.uniform(0.2, 0.5), rng.uniform(0.6, 0.8))
    colors = (pale, _mix(pale, (1.0, 1.0, 1.0), 0.2))
    return Material("striped" if rng.uniform() < 0.35 else "plain", colors, rng.uniform(0.25, 0.5))


def draw_flooring(rng: np.random.Generator) -> Material:
    """Draw the material of the floor: planks, tiles or marble."""
    kind = int(rng.integers(3))
    if kind == 0:
        wood = _rgb(rng.uniform(0.05, 0.09), rng.uniform(0.5, 0.75), rng.uniform(0.35, 0.65))
        return Material("planks", (_mix(wood, (0.0, 0.0, 0.0), 0.65), wood), rng.uniform(0.12, 0.2), 0.05)
    dark = _rgb(rng.uniform(), rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.4))
    light = _mix(dark, (0.85, 0.83, 0.8), rng.uniform(0.5, 0.9) if kind == 1 else rng.uniform(0.2, 0.4))
    return Material("checkered" if kind == 1 else "marbled", (dark, light), rng.uniform(0.35, 0.6), 0.08)


def draw_rug(rng: np.random.Generator) -> Material:
    """Draw the material of a rug, with a pattern relative to its half size."""
    hue = rng.uniform()
    colors = (_rgb(hue, 0.75, 0.45), _rgb(hue + rng.uniform(0.05, 0.5), 0.4, 0.75))
    return Material(TEXTURES[1 + int(rng.integers(3))], colors, 0.4)


def _rgb(hue: float, saturation: float, value: float) -> Vector:
    """Return the colour of a hue on a circle of length 1, by the usual hexagonal cone."""
    wheel = (abs((hue + shift) % 1 * 6 - 3) - 1 for shift in (0.0, 2 / 3, 1 / 3))
    r, g, b = (value * (1 - saturation * (1 - min(max(w, 0.0), 1.0))) for w in wheel)
    return r, g, b


def _mix(a: Vector, b: Vector, weight: float) -> Vector:
    r, g, b_ = (x + weight * (y - x) for x, y in zip(a, b, strict=True))
    return r, g, b_


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
    paper, flooring = draw_wallpaper(rng), draw_flooring(rng)
    floor, wall, ceiling = (config.stuff_id(name) for name in ("floor", "wall", "ceiling"))
    return (
        Plane(1, rng.uniform(1.3, 1.6), floor, flooring),
        Plane(1, -rng.uniform(1.1, 1.4), ceiling, CEILING),
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
        patches.append(Patch(0, low, high, config.stuff_id("rug"), draw_rug(rng)))
    sides = (0.08, 0.56) if rng.uniform() < 0.5 else (0.56, 0.08)
    for side, prob, class_id, material in (
        (sides[0], config.window_prob, config.stuff_id("window"), WINDOW),
        (sides[1], config.mirror_prob, IGNORE_INDEX, MIRROR),
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
        solids.append(solid_type(center, axes, (h_x, h_y, h_z), class_id, draw_thing(rng, class_id)))
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
