"""Detection of the grey borders that Ultralytics' loader adds to images."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.targets.yolo_rows import Batch


class Moves(NamedTuple):
    """Moves of whole images by a loader, without mosaic, rotation, shear or perspective.

    Attributes:
        scale: smallest factor that it scales images by.
        translate: largest shift, as a fraction of the canvas.
    """

    scale: float
    translate: float


FILLED = 114
"""Grey value of the borders of Ultralytics."""


def borders_of(images: Tensor, hsv_v: float = 0.4, widest: Tensor | None = None) -> Tensor:
    """Return which pixels belong to a grey border, [B, 1, H, W] bool.

    A loader that fits images into a square fills the remaining pixels with grey, on all sides, and may then change the
    brightness. A border therefore consists of whole rows and columns, from an edge inwards, of one such grey. If an
    image has such an edge itself, nothing is pasted there, and nothing else changes.

    Args:
        images: [B, C, H, W] uint8.
        hsv_v: the largest relative change of brightness.
        widest: [B, 2] int64, the largest number of border rows at the top and at the bottom, and of border columns at
            the left and at the right; None sets no limit.
    """
    darkest, brightest = FILLED * (1 - hsv_v) - 1, FILLED * (1 + hsv_v) + 1
    padding = images.new_zeros(len(images), 1, *images.shape[-2:], dtype=torch.bool)
    for dim in (2, 3):
        others = [d for d in (1, 2, 3) if d != dim]
        least, most = images.amin(others), images.amax(others)
        for corner in (0, -1):
            is_filled = (least == most) & (most == images[:, :1, corner, corner])
            is_filled &= (most >= darkest) & (most <= brightest)
            if widest is not None:
                distance = torch.arange(is_filled.shape[1], device=images.device)
                is_filled &= (distance.flip(0) if corner else distance) < widest[:, dim - 2, None]
            reached = (is_filled.flip(1) if corner else is_filled).cumprod(1).bool()
            lines = reached.flip(1) if corner else reached
            padding |= lines[:, None, :, None] if dim == 2 else lines[:, None, None, :]
    return padding


def widest_borders(batch: Batch, moves: Moves) -> Tensor:
    """Return the largest possible numbers of border rows and columns on one side of each image, [B, 2] int64.

    An image is resized to ``ori_shape`` times ``ratio_pad``, shrunk by ``moves.scale`` at most, and its centre is at
    that of the canvas, up to ``moves.translate``. Pixels that it covers in all cases are not border. An image without
    these entries, or with shapes that do not fit the canvas, may have any border.

    Args:
        batch: ``img`` [B, C, H, W]; optionally ``ori_shape``, B pairs (height, width), and ``ratio_pad``, B pairs of
            factors (height, width), or pairs of such a pair and of the padding.
        moves: moves of the loader.
    """
    canvas = batch["img"].shape[-2:]
    widest = torch.tensor(canvas, dtype=torch.int64, device="cpu").repeat(len(batch["img"]), 1)
    for b, (shape, ratio) in enumerate(zip(batch.get("ori_shape", ()), batch.get("ratio_pad", ()), strict=False)):
        factors = ratio[0] if isinstance(ratio[0], tuple | list) else ratio
        sides = [int(side) * float(factor) for side, factor in zip(shape, factors, strict=True)]
        if any(side > whole + 1 for side, whole in zip(sides, canvas, strict=True)):
            continue
        for axis, (side, whole) in enumerate(zip(sides, canvas, strict=True)):
            first = (0.5 + moves.translate) * whole - moves.scale * side / 2
            widest[b, axis] = max(0, math.ceil(first - 1e-3))  # tolerance: sides are rounded to whole pixels
    return widest.to(batch["img"].device)
