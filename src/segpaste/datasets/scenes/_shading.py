"""Rendering of the image of a scene: procedural textures, sunlight with hard shadows, ambient light, highlights.

The exact ground truth is in `segpaste.datasets.scenes._casting`. Textures are functions of a point in the surface's own
frame (solid textures, after Perlin: "An image synthesizer", SIGGRAPH 1985), so they have no seams. Shading follows
Lambert and Phong; the transfer to display values is a square root.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from segpaste.datasets.scenes._casting import cast_scene, cast_shadows
from segpaste.datasets.scenes._geometry import Array, Material, Points, Scene, Texture, Vector

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
