"""Keypoints of COCO files: https://cocodataset.org/#format-data, "Keypoint Detection".

A category names its ``keypoints`` and joins them in a ``skeleton`` of pairs that count from 1. An annotation has
``keypoints`` [x1, y1, v1, x2, ...], where x and y are whole pixels. In samples the centre of pixel i is at i + 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.types import KeypointSchema
from segpaste.types.keypoints import MovingKeypoints, moved_points
from segpaste.types.sampling import Size, Window

CocoPoints = Sequence[float]
_FARTHEST = 1e6  # pixels


def keypoints_of(rows: Sequence[CocoPoints | None], schema: KeypointSchema, canvas_size: Size) -> Tensor:
    """Return the keypoints of instances, [N, P, 3] float32; zero if missing or outside of the image."""
    nothing = [0.0] * (3 * schema.num_points)
    found = torch.tensor([row or nothing for row in rows], dtype=torch.float64, device="cpu")
    found = found.reshape(-1, schema.num_points, 3)
    found[..., :2] += 0.5
    height, width = canvas_size
    inside = ((found[..., :2] >= 0) & (found[..., :2] <= found.new_tensor([width, height]))).all(-1, keepdim=True)
    return torch.where((found[..., 2:] > 0) & inside, found, 0.0).float()


def through_window(keypoints: Tensor, schema: KeypointSchema, window: Window) -> Tensor:
    """Return the keypoints [N, P, 3] of an image in the frame of a window."""
    if not keypoints.numel():
        return keypoints

    def moved(box: tuple[int, int, int, int], size: Size, canvas_size: Size, mirror: str | None = None) -> Tensor:
        points: Tensor = MovingKeypoints.tag(keypoints, schema, canvas_size).as_subclass(Tensor)
        return moved_points(points, box, size, mirror)[..., :3].float()

    keypoints = moved((0, 0, *window.canvas_size), window.resized, window.canvas_size)
    if window.flip:
        keypoints = moved((0, 0, *window.resized), window.resized, window.resized, "horizontal")
    return moved((*window.corner, *window.inside), window.inside, window.resized)


def keypoint_rows(keypoints: Tensor) -> list[dict[str, Any]]:
    """Return the keys of annotations for keypoints [N, P, 3]: ``keypoints`` and ``num_keypoints``."""
    rows = []
    for points in keypoints.tolist():
        values = [
            value for x, y, v in points for value in ((_coordinate(x), _coordinate(y), int(v)) if v else (0, 0, 0))
        ]
        rows.append({"keypoints": values, "num_keypoints": sum(v > 0 for *_, v in points)})
    return rows


def _coordinate(edge: float) -> int | float:
    """Return a pixel coordinate with the fewest decimals that give the same float32."""
    for decimals in range(8):
        place = round(edge - 0.5, decimals)
        if np.float32(place + 0.5) == edge:
            break
    return int(place) if place.is_integer() else place
