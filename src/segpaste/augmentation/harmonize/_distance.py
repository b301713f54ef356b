"""Distances in pixels to the nearest of a set of pixels, in integers, for batches of planes [B, 1, H, W]."""

from __future__ import annotations

import torch
from torch import Tensor

_FAR = 1 << 20
"""Greater than the distance between any two pixels of a canvas."""


def is_near(pixels: Tensor, radius: int) -> Tensor:
    """Return whether one of ``pixels`` lies at most ``radius`` rows and columns away, bool of the same shape."""
    rows = _steps(pixels, -2) <= radius
    return _steps(rows, -1) <= radius


def squared_distance(pixels: Tensor, limit: int) -> Tensor:
    """Return the squared Euclidean distance between pixel centres to the nearest of ``pixels``.

    Args:
        pixels: [B, 1, H, W] bool.
        limit: distances below ``limit + 1`` pixels are exact, others are returned as that or more.

    Returns:
        [B, 1, H, W] int32.
    """
    width = pixels.shape[-1]
    beyond = limit + 1
    along_column = _steps(pixels, -2).clamp(max=beyond).square()
    padded = torch.nn.functional.pad(along_column, (limit, limit), value=beyond * beyond)
    nearest = along_column
    for step in range(1, limit + 1):
        for start in (limit - step, limit + step):
            nearest = torch.minimum(nearest, padded[..., start : start + width] + step * step)
    return nearest


def _steps(pixels: Tensor, dim: int) -> Tensor:
    """Return the steps along one dimension to the nearest of ``pixels``, int32; very many if that line has none."""
    shape = [1] * pixels.ndim
    shape[dim] = pixels.shape[dim]
    index = torch.arange(pixels.shape[dim], dtype=torch.int32, device=pixels.device).view(shape)
    last = torch.where(pixels, index, -_FAR).cummax(dim).values
    upcoming = torch.where(pixels, index, _FAR).flip(dim).cummin(dim).values.flip(dim)
    return torch.minimum(index - last, upcoming - index)
