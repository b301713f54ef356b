"""Boxes of frameworks: conversion from their formats to xyxy in pixels, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.types.tensors import tensor_of

_UPRIGHT = (tv_tensors.BoundingBoxFormat.XYXY, tv_tensors.BoundingBoxFormat.XYWH, tv_tensors.BoundingBoxFormat.CXCYWH)
_MOST = 4.0
"""Upper bound of fractions of an image, even for a box that extends beyond the image."""


def corners(place: str, boxes: Any) -> Tensor:
    """Return boxes as plain xyxy in pixels, [N, 4] float32.

    Args:
        place: name for the error.
        boxes: `torchvision.tv_tensors.BoundingBoxes` of a format without an angle, or other values as xyxy; [0] if
            there are none.

    Raises:
        ValueError: they have an angle, or another shape.
    """
    if isinstance(boxes, tv_tensors.BoundingBoxes):
        if boxes.format not in _UPRIGHT:
            raise ValueError(
                f"{place}: expected boxes of format XYXY, XYWH or CXCYWH, got {boxes.format.name}: an angle does not "
                "follow a paste"
            )
        boxes = F.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
    return _of_four(place, tensor_of(boxes).float())


def _of_four(place: str, boxes: Tensor) -> Tensor:
    """Return boxes [N, 4]; those of no object may have another shape."""
    if boxes.shape[1:] != (4,) and boxes.numel():
        raise ValueError(f"{place}: expected boxes [N, 4], got the shape {list(boxes.shape)}")
    return boxes if boxes.numel() else boxes.reshape(0, 4)


def cxcywh(boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Return xyxy boxes [N, 4] as (centre x, centre y, width, height) over (width, height) of ``size`` (H, W)."""
    low, high = boxes[:, :2], boxes[:, 2:]
    edges = edges_of(size, low)
    return torch.cat([(low + high) / 2 / edges, (high - low) / edges], 1)


def xyxy(boxes: Tensor, size: Sequence[int], place: str | None = None) -> Tensor:
    """Return boxes [N, 4] as xyxy in pixels, float32: the inverse of `cxcywh`.

    Args:
        boxes: (centre x, centre y, width, height) as fractions.
        size: H and W.
        place: name for errors; None does not check the boxes, which waits for their device.

    Raises:
        ValueError: the boxes are in pixels, or have another shape.
    """
    if place is not None and (boxes := _of_four(place, boxes)).numel() and (most := float(boxes.abs().max())) > _MOST:
        raise ValueError(
            f"{place}: expected boxes (centre x, centre y, width, height) as fractions of the image, got numbers up to "
            f"{most:.4g}; are these pixels? Give the batch that the model gets"
        )
    centres, sides = boxes.float().reshape(-1, 2, 2).mul(edges_of(size, boxes)).unbind(1)
    return torch.cat([centres - sides / 2, centres + sides / 2], 1)


def scaled_points(points: Tensor, size: Sequence[int]) -> Tensor:
    """Return keypoints [N, P, 2 or 3] with x and y as fractions of ``size`` (H, W) in pixels, float32."""
    return torch.cat([points[..., :2].float() * edges_of(size, points), points[..., 2:].float()], -1)


def edges_of(size: Sequence[int], like: Tensor) -> Tensor:
    """Return (width, height) of ``size`` (H, W), [2] float32 on the device of a tensor."""
    return torch.tensor([size[1], size[0]], dtype=torch.float32, device=like.device)


def box_areas(boxes: Tensor) -> Tensor:
    """Return the areas of xyxy boxes, [N]."""
    return (boxes[:, 2:] - boxes[:, :2]).prod(1)


def visible_areas(boxes: Tensor, masks: Tensor | None) -> Tensor:
    """Return the number of pixels of each mask [N, H, W], or the area of each xyxy box without masks, [N] float32."""
    return box_areas(boxes) if masks is None else masks.flatten(1).sum(1, dtype=torch.float32)
