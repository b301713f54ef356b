"""Casting of rays into a scene, and its image and keypoints.

One array operation finds the hits of all rays with a surface. Each surface is cast only over the part of the image that
it can cover. Rays are sorted along both axes, so two binary searches find the rectangle around the projected corners of
its box.

The image has procedural textures, sunlight with hard shadows, ambient light and highlights. Textures are functions of a
point in the surface's own frame (solid textures, after Perlin: "An image synthesizer", SIGGRAPH 1985), so they have no
seams. Shading follows Lambert and Phong; the transfer to display values is a square root. Keypoints are the corners of
boxes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from segpaste.datasets.scenes._geometry import Array, Box, Material, Plane, Points, Scene, Texture, Vector
from segpaste.types import KeypointSchema
from segpaste.types.keypoints import HIDDEN, VISIBLE

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


_SUN, _AMBIENT = 0.72, 0.54
_LUMINOUS = ("sky", "glass")
_LATTICE = np.random.Generator(np.random.Philox(key=1)).random((16, 16, 16), np.float32)


def render_image(scene: Scene, rays_per_px: int) -> Array:
    """Return the image of a scene, [3, H, W] uint8; a pixel is the mean of its ``rays_per_px`` squared rays."""
    colors = _shade(scene, rays_per_px)
    tiles = colors.reshape(scene.height, rays_per_px, scene.width, rays_per_px, 3)
    total = np.zeros((scene.height, scene.width, 3), np.float32)
    for i, j in np.ndindex(rays_per_px, rays_per_px):  # in this order, which a reduction would leave open
        total += tiles[:, i, :, j]
    pixels = (total * (255 / rays_per_px**2) + 0.5).astype(np.uint8)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _shade(scene: Scene, rays_per_px: int) -> Array:
    """Return the display values of all rays in [0, 1], [H r, W r, 3] float32."""
    rays = tuple(component.astype(np.float32) for component in scene.rays(rays_per_px))
    hits = cast_scene(scene, rays)
    shape = hits.surface.shape
    points = tuple(component * hits.depth for component in rays)
    light = _incoming_light(scene, points, hits.surface, hits.normals).reshape(-1)
    sun = np.maximum(_dot(hits.normals, scene.towards_light), 0)
    sun[cast_shadows(scene, rays, hits)] = 0
    sun = sun.reshape(-1)
    flat_rays = np.stack([np.broadcast_to(component, shape).reshape(-1) for component in rays])
    depth, surface, normals = hits.depth.reshape(-1), hits.surface.reshape(-1), hits.normals.reshape(3, -1)
    colors = np.empty((surface.size, 3), np.float32)
    for index, what in enumerate(scene.surfaces):
        here = np.flatnonzero(surface == index)
        if not here.size:
            continue
        way = flat_rays[:, here]
        base = _albedo(what.material, what.to_local(way * depth[here]))
        if what.material.texture not in _LUMINOUS:
            base *= (light[here] + _SUN * sun[here])[:, None]
        if what.material.gloss:
            shine = _highlight(normals[:, here], way, scene.towards_light)
            base += (what.material.gloss * (sun[here] > 0) * shine)[:, None]
        colors[here] = base
    display: Array = np.sqrt(np.clip(colors, 0, 1)).reshape(*shape, 3)
    return display


def _incoming_light(scene: Scene, points: Points, surface: Array, normals: Array) -> Array:
    """Return the ambient light [H, W]: more from above, less in the corners of the room and close to the floor."""
    light: Array = _AMBIENT * (1 - 0.06 * normals[1])
    for index, plane in enumerate(scene.planes):
        distance = np.abs(points[plane.axis] - plane.offset)
        light *= np.where(surface == index, 1, 1 - 0.06 / (0.12 + distance))
    return light


def _highlight(normals: Points, rays: Points, towards_light: Vector) -> Array:
    """Return Phong's highlight: the cosine between mirrored light and line of sight, to the 32nd power."""
    twice = 2 * _dot(normals, towards_light)
    mirrored = tuple(light - twice * n for n, light in zip(normals, towards_light, strict=True))
    shine = np.maximum(_dot(mirrored, rays) / np.sqrt(_dot(rays, rays)), 0)
    for _ in range(5):
        shine = shine * shine
    return np.asarray(shine)


def _dot(a: Points, b: Points | Vector) -> Array:
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def _albedo(material: Material, local: Points) -> Array:
    """Return the colour of points in the surface's own frame, [N, 3]."""
    x, y, z = (p / material.cell + 0.5 for p in local)  # a face at 0 is not on the border of two cells
    first, second = (np.array(color, np.float32) for color in material.colors)
    return _blend(first, second, _TEXTURES[material.texture](x, y, z)[:, None])


def _triangle(phase: Array) -> Array:
    """Return a triangle wave from 0 to 1 and back, of period 1."""
    wave: Array = np.abs(2 * (phase - np.floor(phase)) - 1)
    return wave


def _noise(x: Array, y: Array, z: Array) -> Array:
    """Return value noise in [0, 1]: a lattice of random numbers of period 16, interpolated smoothly."""
    floors = [np.floor(p) for p in (x, y, z)]
    s, t, u = ((f := p - low) * f * (3 - 2 * f) for p, low in zip((x, y, z), floors, strict=True))
    i, j, k = (low.astype(np.int32) for low in floors)
    corner = _LATTICE.reshape(-1)
    rows = [((i + a) & 15) * 256 for a in (0, 1)]
    cols = [((j + b) & 15) * 16 for b in (0, 1)]
    deep = [(k + c) & 15 for c in (0, 1)]

    def along_z(row: Array, col: Array) -> Array:
        return _blend(corner[row + col + deep[0]], corner[row + col + deep[1]], u)

    near, far = (_blend(along_z(row, cols[0]), along_z(row, cols[1]), t) for row in rows)
    return _blend(near, far, s)


def _blend(a: Array, b: Array, weight: Array) -> Array:
    blended: Array = a + weight * (b - a)
    return blended


def _plain(x: Array, y: Array, z: Array) -> Array:
    return 0.5 * _noise(x, y, z)


def _striped(x: Array, y: Array, z: Array) -> Array:
    return np.clip(6 * _triangle(x + z) - 2.5, 0, 1)


def _checkered(x: Array, y: Array, z: Array) -> Array:
    return (np.floor(x) + np.floor(y) + np.floor(z)) % 2


def _marbled(x: Array, y: Array, z: Array) -> Array:
    vein = _triangle(x + z + 0.5 * y + 1.5 * _noise(2 * x, 2 * y, 2 * z))
    return vein * vein


def _planks(x: Array, y: Array, z: Array) -> Array:
    row = np.floor(x)
    board = np.floor(z / 8 + 0.37 * row)
    tone = _LATTICE[row.astype(np.int32) & 15, board.astype(np.int32) & 15, 0]
    grain = _noise(7 * x, y, 0.6 * z + 5 * tone)
    gap = (x - row < 0.04) | (z / 8 + 0.37 * row - board < 0.005)
    return np.where(gap, 0, 0.2 + 0.5 * tone + 0.3 * grain)


def _sky(x: Array, y: Array, z: Array) -> Array:
    across, down = np.abs(x - 0.5), np.abs(y - 0.5)
    frame = (across < 0.03) | (down < 0.03) | (across > 0.94) | (down > 0.94)
    return np.where(frame, 1, 0.35 + 0.3 * (y - 0.5))


def _glass(x: Array, y: Array, z: Array) -> Array:
    across, down = np.abs(x - 0.5), np.abs(y - 0.5)
    frame = (across > 0.92) | (down > 0.92)
    return np.where(frame, 0, 0.6 + 0.4 * _triangle(0.6 * (x + y)))


_TEXTURES: dict[Texture, Callable[[Array, Array, Array], Array]] = {
    "plain": _plain,
    "striped": _striped,
    "checkered": _checkered,
    "marbled": _marbled,
    "planks": _planks,
    "sky": _sky,
    "glass": _glass,
}


_SIGNS = np.array(list(itertools.product((-1, 1), repeat=3)))
_NAMES = tuple("_".join(words) for words in itertools.product(("left", "right"), ("top", "bottom"), ("near", "far")))
_EDGES = tuple((a, b) for a, b in itertools.combinations(range(8), 2) if np.abs(_SIGNS[a] - _SIGNS[b]).sum() == 2)

CORNERS = KeypointSchema.of_sides(_NAMES, _EDGES)
"""Corners of a box in its own frame, in the order of `Solid.corners`, and its edges."""


def corner_points(scene: Scene, hits: Hits, ids: Array) -> Tensor:
    """Return the corners of solids, [N, 8, 3] float32 (x, y, v); all zero for solids without corners.

    A corner is visible where its pixel shows its solid and one of its three faces is turned to the camera.
    """
    first_solid = len(scene.surfaces) - len(scene.solids)
    points = np.zeros((len(ids), 8, 3), np.float32)
    for n, instance_id in enumerate(ids.tolist()):
        if isinstance(solid := scene.solids[instance_id - 1], Box):
            points[n] = _corners_of(scene, solid, hits.surface == first_solid + instance_id - 1)
    return torch.from_numpy(points)


def _corners_of(scene: Scene, box: Box, mask: Array) -> Array:
    """Return the corners of one box, [8, 3], whose pixels are ``mask`` [H, W]."""
    corners, camera = box.corners(), scene.camera
    x = (corners[:, 0] / corners[:, 2] * camera.fx + camera.cx).astype(np.float32)
    y = (corners[:, 1] / corners[:, 2] * camera.fy + camera.cy).astype(np.float32)
    inside = (x >= 0) & (x < scene.width) & (y >= 0) & (y < scene.height)
    owned = mask[np.where(inside, y, 0).astype(int), np.where(inside, x, 0).astype(int)]
    from_face = corners @ np.array(box.axes).T * _SIGNS  # along each outward normal
    is_turned = (from_face < 0).any(1)
    v = np.where(owned & is_turned, VISIBLE, HIDDEN)
    found: Array = np.where(inside[:, None], np.stack([x, y, v], 1), 0)
    return found
