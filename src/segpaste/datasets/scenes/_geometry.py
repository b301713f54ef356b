"""Geometry of a synthetic room: planes, patches on them, spheres and boxes, and their intersections with rays.

The frame is the camera's: x right, y down, z into the scene, metres, the camera at the origin. A ray through the
pixel centre (x, y) is ((x - cx) / fx, (y - cy) / fy, 1), so the parameter of a hit is its depth. Arithmetic on pixels
is + - * / and square roots only, which IEEE 754 rounds alike everywhere: a scene has the same bytes on every machine.

Not a general ray tracer: rooms are axis-aligned and enclose the camera, solids are convex and in front of it.
`segpaste.datasets.scenes._rendering` finds the surface in each pixel, `segpaste.datasets.scenes._rendering` colours it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste.types.tensors import CameraIntrinsics

Array: TypeAlias = NDArray[Any]
Vector: TypeAlias = tuple[float, float, float]
Points: TypeAlias = tuple[Array, ...] | Array
"""x, y and z of points or rays: three arrays that broadcast together, or one [3, ...]."""

Texture: TypeAlias = Literal["plain", "striped", "checkered", "marbled", "planks", "sky", "glass"]


@dataclass(frozen=True, slots=True)
class Material:
    """Appearance of a surface.

    Attributes:
        texture: the pattern that mixes the two colours.
        colors: two linear RGB colours in [0, 1].
        cell: the pattern's period in the surface's own coordinates (see each ``to_local``).
        gloss: strength of the highlight in [0, 1].
    """

    texture: Texture
    colors: tuple[Vector, Vector]
    cell: float
    gloss: float = 0.0


@dataclass(frozen=True, slots=True)
class Plane:
    """Side of the room: all points whose coordinate ``axis`` is ``offset``, seen from the camera's side.

    Attributes:
        axis: 0, 1 or 2 for x, y or z.
        offset: metres, not 0.
        class_id: its stuff class.
        material: its appearance.
    """

    axis: int
    offset: float
    class_id: int
    material: Material

    @property
    def normal(self) -> Vector:
        """Unit normal towards the camera."""
        x, y, z = (0.0 if axis != self.axis else -np.sign(self.offset).item() for axis in range(3))
        return x, y, z

    def to_local(self, points: Points) -> Points:
        """Convert points to a frame whose origin lies on the plane, metres."""
        return tuple(p - self.offset if axis == self.axis else p for axis, p in enumerate(points))

    def cast(self, rays: Points) -> Array:
        """Return the depth at which rays from the camera meet the plane, infinite where they do not."""
        with np.errstate(divide="ignore"):
            depth = self.offset / rays[self.axis]
        return np.where(depth > 0, depth, np.inf)


@dataclass(frozen=True, slots=True)
class Patch:
    """Rectangle on a side of the room with its own class: a rug, a window, a mirror.

    Attributes:
        plane_idx: the side of the room, an index into `Scene.planes`.
        low: the smallest x, y, z of a box that cuts the rectangle out of its plane, metres.
        high: the largest.
        class_id: its stuff class, or the ignore index.
        material: its appearance.
    """

    plane_idx: int
    low: Vector
    high: Vector
    class_id: int
    material: Material

    def corners(self) -> Array:
        """Return the corners of its box, [8, 3] float64, metres."""
        return _box_corners(self.low, self.high)

    def to_local(self, points: Points) -> Points:
        """Convert points to the box's centre and units of its half size: from -1 to 1 on the rectangle."""
        return tuple((2 * p - (a + b)) / (b - a) for p, a, b in zip(points, self.low, self.high, strict=True))

    def covers(self, points: Points) -> Array:
        """Return which points of the plane belong to the patch, bool."""
        x, y, z = ((p > a) & (p < b) for p, a, b in zip(points, self.low, self.high, strict=True))
        return np.asarray(x & y & z)


@dataclass(frozen=True, slots=True)
class Solid:
    """Convex body, the base of `Sphere` and `Box`.

    Attributes:
        center: metres.
        axes: the body's own x, y and z axis as unit vectors of the camera frame.
        half_size: half the extent along each of these axes, metres.
        class_id: its thing class.
        material: its appearance.
    """

    center: Vector
    axes: tuple[Vector, Vector, Vector]
    half_size: Vector
    class_id: int
    material: Material

    def corners(self) -> Array:
        """Return the corners of its box, [8, 3] float64, metres; the body lies within their hull."""
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
        edges = np.array(self.axes) * np.array(self.half_size)[:, None]
        corners: Array = np.array(self.center) + (signs[:, :, None] * edges).sum(1)
        return corners

    def to_local(self, points: Points) -> Points:
        """Convert points to the body's own frame, metres."""
        return _rotate(self.axes, tuple(p - c for p, c in zip(points, self.center, strict=True)))

    def cast(self, rays: Points) -> tuple[Array, Points]:
        """Return the depth where rays hit the body, infinite where they miss, and the unit normal, undefined there."""
        raise NotImplementedError

    def shades(self, points: Points, towards_light: Vector) -> Array:
        """Return for points outside the body whether it is between them and the light, bool."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sphere(Solid):
    """Ball of radius ``half_size[0]``; its axes only rotate its texture."""

    def corners(self) -> Array:
        """See `Solid.corners`; the box of a ball does not rotate with it."""
        return _box_corners(*(np.array(self.center) + sign * self.half_size[0] for sign in (-1.0, 1.0)))

    def cast(self, rays: Points) -> tuple[Array, Points]:
        """See `Solid.cast`."""
        depth, hit = self._enter((0.0, 0.0, 0.0), rays)
        radius = self.half_size[0]
        normals = tuple((depth * r - c) / radius for r, c in zip(rays, self.center, strict=True))
        return np.where(hit, depth, np.inf), normals

    def shades(self, points: Points, towards_light: Vector) -> Array:
        """See `Solid.shades`."""
        return self._enter(points, towards_light)[1]

    def _enter(self, origin: Points | Vector, way: Points | Vector) -> tuple[Array, Array]:
        """Return the smaller t with |origin + t way - center| = radius, and whether the ball is hit ahead."""
        o_x, o_y, o_z = (o - c for o, c in zip(origin, self.center, strict=True))
        w_x, w_y, w_z = way
        a = w_x * w_x + w_y * w_y + w_z * w_z
        b = o_x * w_x + o_y * w_y + o_z * w_z
        c = o_x * o_x + o_y * o_y + o_z * o_z - self.half_size[0] ** 2
        discriminant = b * b - a * c
        t = (-b - np.sqrt(np.maximum(discriminant, 0.0))) / a
        return t, (discriminant > 0) & (t > 0)


@dataclass(frozen=True, slots=True)
class Box(Solid):
    """Cuboid whose faces are perpendicular to its own axes."""

    def cast(self, rays: Points) -> tuple[Array, Points]:
        """See `Solid.cast`."""
        way = _rotate(self.axes, rays)
        c_x, c_y, c_z = self.center
        entries, hit = self._enter(_rotate(self.axes, (-c_x, -c_y, -c_z)), way)
        depth = np.maximum.reduce(entries)
        face = np.where(entries[0] == depth, 0, np.where(entries[1] == depth, 1, 2))
        outward = -np.sign(np.choose(face, way))
        normals = tuple(outward * np.asarray(row, outward.dtype)[face] for row in zip(*self.axes, strict=True))
        return np.where(hit, depth, np.inf), normals

    def shades(self, points: Points, towards_light: Vector) -> Array:
        """See `Solid.shades`."""
        return self._enter(self.to_local(points), _rotate(self.axes, towards_light))[1]

    def _enter(self, origin: Points | Vector, way: Points | Vector) -> tuple[list[Array], Array]:
        """Return the t at which a ray enters the slab between each pair of faces, and whether the box is hit ahead."""
        entries, exits = [], []
        for o, w, half in zip(origin, way, self.half_size, strict=True):
            with np.errstate(divide="ignore"):
                inverse = np.divide(1.0, w, dtype=np.result_type(o, w))
            low, high = (-half - o) * inverse, (half - o) * inverse
            entries.append(np.minimum(low, high))
            exits.append(np.maximum(low, high))
        entry = np.maximum.reduce(entries)
        return entries, (entry < np.minimum.reduce(exits)) & (entry > 0)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a sample is rendered from: a room, the solids in it, a light, and the camera.

    Attributes:
        height: height of the image, pixels.
        width: width of the image, pixels.
        camera: intrinsics of the camera.
        planes: floor, ceiling, left wall, right wall, back wall.
        patches: rectangles on these.
        solids: the things; the instance id of ``solids[i]`` is i + 1, even if others are hidden.
        towards_light: unit vector towards the light.
    """

    height: int
    width: int
    camera: CameraIntrinsics
    planes: tuple[Plane, ...]
    patches: tuple[Patch, ...]
    solids: tuple[Solid, ...]
    towards_light: Vector

    @property
    def surfaces(self) -> tuple[Plane | Patch | Solid, ...]:
        """All planes, patches and solids, in the order of surface indices."""
        return (*self.planes, *self.patches, *self.solids)

    def rays(self, rays_per_px: int = 1) -> Points:
        """Return rays through a regular grid of ``rays_per_px`` squared points in each pixel; 1 gives its centre.

        Returns:
            x as [1, W r], y as [H r, 1], z as [1, 1], float64.
        """
        x = (np.arange(self.width * rays_per_px) + 0.5) / rays_per_px
        y = (np.arange(self.height * rays_per_px) + 0.5) / rays_per_px
        across, down = (x - self.camera.cx) / self.camera.fx, (y - self.camera.cy) / self.camera.fy
        return across[None, :], down[:, None], np.ones((1, 1))


def _rotate(axes: Sequence[Vector], v: Points | Vector) -> tuple[Any, ...]:
    """Return the components of ``v`` along three axes."""
    return tuple(v[0] * x + v[1] * y + v[2] * z for x, y, z in axes)


def _box_corners(low: ArrayLike, high: ArrayLike) -> Array:
    return np.array(list(itertools.product(*np.stack([low, high], 1))))
