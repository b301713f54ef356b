"""Casting of camera rays and shadows: the first surface along each ray, with one array operation per surface.

Each surface is cast only over the part of the image that it can cover. Rays are sorted along both axes, so two binary
searches find the rectangle around the projected corners of its box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segpaste.datasets.scenes._geometry import Array, Plane, Points, Scene

Slices = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class Hits:
    """First hits of the rays of an [H, W] grid.

    Attributes:
        depth: [H, W], z of the hit, metres; finite in a closed room.
        surface: [H, W], int64, index into `Scene.surfaces`.
        normals: [3, H, W], unit, against the ray.
    """

    depth: Array
    surface: Array
    normals: Array


def cast_scene(scene: Scene, rays: Points) -> Hits:
    """Return the first surface along every ray of a grid from `Scene.rays`; the result has the dtype of the rays."""
    depths = [plane.cast(rays) for plane in scene.planes]
    depth = np.minimum.reduce(np.broadcast_arrays(*depths))
    surface = np.select([d == depth for d in depths], range(len(depths)))
    _cast_patches(scene, rays, depth, surface)
    plane_of = [*range(len(scene.planes)), *(patch.plane_idx for patch in scene.patches)]
    table = np.array([scene.planes[i].normal for i in plane_of], depth.dtype)
    normals = table.T[:, surface]
    for index, solid in enumerate(scene.solids, start=len(plane_of)):
        window = window_of(solid.corners(), rays)
        solid_depth, solid_normals = solid.cast(cut(rays, window))
        nearer = solid_depth < depth[window]
        depth[window][nearer] = solid_depth[nearer]
        surface[window][nearer] = index
        for component, values in zip(normals, solid_normals, strict=True):
            component[window][nearer] = values[nearer]
    return Hits(depth, surface, normals)


def _cast_patches(scene: Scene, rays: Points, depth: Array, surface: Array) -> None:
    """Claim the pixels of the planes that belong to patches."""
    for index, patch in enumerate(scene.patches, start=len(scene.planes)):
        window = window_of(patch.corners(), rays)
        points = tuple(depth[window] * r for r in cut(rays, window))
        surface[window][(surface[window] == patch.plane_idx) & patch.covers(points)] = index


def cast_shadows(scene: Scene, rays: Points, hits: Hits) -> Array:
    """Return for each ray whether its hit is in the shadow of a solid, [H, W] bool.

    A solid does not shade itself here. It is convex, so the points that it hides from the light face away from it.
    """
    shaded = np.zeros(hits.surface.shape, bool)
    floor = scene.planes[0]
    for index, solid in enumerate(scene.solids, start=len(scene.planes) + len(scene.patches)):
        corners = solid.corners()
        window = window_of(np.concatenate([corners, _fallen(corners, floor, scene.towards_light)]), rays)
        points = tuple(hits.depth[window] * r for r in cut(rays, window))
        shaded[window] |= (hits.surface[window] != index) & solid.shades(points, scene.towards_light)
    return shaded


def _fallen(corners: Array, floor: Plane, towards_light: tuple[float, float, float]) -> Array:
    """Project points [N, 3] along the light onto the floor."""
    light = np.array(towards_light)
    steps = (floor.offset - corners[:, floor.axis]) / light[floor.axis]
    fallen: Array = corners + steps[:, None] * light
    return fallen


def window_of(corners: Array, rays: Points) -> Slices:
    """Return the smallest rectangle of rays around the projection of points [N, 3] that have z > 0."""
    across, down = corners[:, 0] / corners[:, 2], corners[:, 1] / corners[:, 2]
    columns = np.searchsorted(rays[0][0], (across.min(), across.max()))
    rows = np.searchsorted(rays[1][:, 0], (down.min(), down.max()))
    return slice(*map(int, rows)), slice(*map(int, columns))


def cut(rays: Points, window: Slices) -> Points:
    """Return the rays of a rectangle."""
    return rays[0][:, window[1]], rays[1][window[0]], rays[2]
