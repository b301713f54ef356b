"""Sums over the pixels of an image, with the same bits in any batch and on any device."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad


def total(image: Tensor) -> Tensor:
    """Sum the pixels of [B, C, H, W] to [B, C, 1, 1]; halves are added until one value is left."""
    values = image.flatten(2)
    while values.shape[-1] > 1:
        half = (values.shape[-1] + 1) // 2
        head, tail = values[..., :half], values[..., half:]
        values = head + pad(tail, (0, half - tail.shape[-1]))
    return values[..., None]
