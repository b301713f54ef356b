"""Keypoints: validation against their `KeypointSchema`, and their transformation with an image."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste._point_names import KeypointSchema as KeypointSchema
from segpaste._point_names import Pair as Pair

UNLABELLED, HIDDEN, VISIBLE = 0, 1, 2
"""Values of the third number of a keypoint, as in COCO: not labelled; labelled, not visible; labelled, visible."""

MOVING_COLUMNS = 6
"""Number of columns of `MovingKeypoints`."""


class MovingKeypoints(tv_tensors.TVTensor):
    """Keypoints inside transforms v2: (x, y, v, mirrored, H, W), float64 [..., P, 6].

    ``mirrored`` is the index of the point with which each point swaps in a flip. It and the canvas are stored as
    values, because attributes of a tensor do not survive a clone.
    """

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Height and width of the image, (H, W); (0, 0) if there is no point."""
        if not self.numel():
            return 0, 0
        height, width = (int(size) for size in self.as_subclass(Tensor).reshape(-1, 6)[0, 4:])
        return height, width

    @classmethod
    def tag(cls, keypoints: Tensor, schema: KeypointSchema | None, canvas_size: tuple[int, int]) -> MovingKeypoints:
        """Convert keypoints [..., P, 3] of an image of size (H, W)."""
        order = range(keypoints.shape[-2]) if schema is None else schema.flip_order
        facts = torch.tensor([[point, *canvas_size] for point in order], dtype=torch.float64, device=keypoints.device)
        facts = facts.reshape(-1, 3).expand(*keypoints.shape[:-1], 3)
        return torch.cat([keypoints.double(), facts], -1).as_subclass(cls)


def moved_points(
    keypoints: Tensor, box: tuple[int, int, int, int], out_size: tuple[int, int], mirror: str | None = None
) -> Tensor:
    """Flip, crop and resize packed keypoints, in this order.

    Args:
        keypoints: see `MovingKeypoints`.
        box: (top, left, height, width) of the crop, in the flipped image; it may extend beyond the canvas.
        out_size: (H, W) to which the crop is resized.
        mirror: ``horizontal``, ``vertical``, or None.

    Returns:
        The points, [..., P, 6]; points outside the new canvas are unlabelled, with x = y = v = 0.
    """
    x, y, v, mirrored, height, width = keypoints.unbind(-1)
    if mirror == "horizontal":
        x = width - x
    elif mirror == "vertical":
        y = height - y
    x, y = (x - box[1]) * (out_size[1] / box[3]), (y - box[0]) * (out_size[0] / box[2])
    if mirror is not None:
        order = mirrored.long()
        x, y, v = (value.gather(-1, order) for value in (x, y, v))
    return packed(x, y, v, mirrored, out_size)


def packed(x: Tensor, y: Tensor, v: Tensor, mirrored: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    """Pack keypoints in the layout of `MovingKeypoints`; points outside the canvas become unlabelled, x = y = v = 0."""
    inside = (v > UNLABELLED) & (x >= 0) & (x <= canvas_size[1]) & (y >= 0) & (y <= canvas_size[0])
    zero = torch.zeros_like(x)
    x, y, v = (torch.where(inside, value, zero) for value in (x, y, v))
    height, width = (torch.full_like(x, size) for size in canvas_size)
    return torch.stack([x, y, v, mirrored, height, width], -1)


def check_keypoints(
    container: str, keypoints: Any, schema: KeypointSchema | None, canvas_size: tuple[int, int] | None = None
) -> None:
    """Check that keypoints come with their schema and, with ``canvas_size`` (H, W), lie on the canvas.

    Raises:
        TypeError: the schema is of another class.
        ValueError: one is given without the other, the numbers of points differ, or a point has invalid values.
    """
    if schema is not None and not isinstance(schema, KeypointSchema):
        raise TypeError(f"{container}.keypoint_schema: expected KeypointSchema, got {type(schema).__name__}")
    if (keypoints is None) != (schema is None):
        missing, there = ("keypoint_schema", "keypoints") if schema is None else ("keypoints", "keypoint_schema")
        raise ValueError(f"{container}.{missing}: expected a value beside {there}, got None; give both or neither")
    if schema is None:
        return
    for points in keypoints if isinstance(keypoints, list | tuple) else [keypoints]:
        if points.ndim >= 2 and points.shape[-2] != schema.num_points:
            raise ValueError(
                f"{container}.keypoints: expected {schema.num_points} points for each object, as the schema names, "
                f"got shape {list(points.shape)}"
            )
        _check_values(f"{container}.keypoints", points, canvas_size)


def _check_values(label: str, keypoints: Tensor, canvas_size: tuple[int, int] | None) -> None:
    if keypoints.device.type != "cpu" or keypoints.ndim < 2 or keypoints.shape[-1] != 3:
        return
    v = keypoints[..., 2]
    if not bool(keypoints.isfinite().all()):
        raise ValueError(f"{label}: expected finite numbers, got NaN or infinity; set v = 0 where a point is not known")
    if not bool(((v == UNLABELLED) | (v == HIDDEN) | (v == VISIBLE)).all()):
        raise ValueError(
            f"{label}: expected v to be 0 (not labelled), 1 (labelled, not visible) or 2 (visible), got "
            f"{sorted(set(v.flatten().tolist()) - {0.0, 1.0, 2.0})[:5]}"
        )
    if bool((keypoints[..., :2] != 0)[v == UNLABELLED].any()):
        raise ValueError(f"{label}: expected x = y = 0 where v = 0, got other coordinates; zero them")
    if canvas_size is None:
        return
    places = keypoints[..., :2]
    far = torch.tensor(canvas_size[::-1], dtype=places.dtype, device=places.device)
    if len(outside := places[((places < 0) | (places > far)).any(-1)]):
        raise ValueError(
            f"{label}: expected points on the canvas, 0 <= x <= {canvas_size[1]} and 0 <= y <= {canvas_size[0]}, got "
            f"{outside[0].tolist()}; set x = y = v = 0 where a point is outside of the image"
        )
