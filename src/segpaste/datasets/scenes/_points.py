"""Keypoints of scenes: the corners of boxes in the image, and their visibility."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from segpaste.datasets.scenes._casting import Hits
from segpaste.datasets.scenes._geometry import Array, Box, Scene
from segpaste.types import KeypointSchema
from segpaste.types.keypoints import HIDDEN, VISIBLE

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
