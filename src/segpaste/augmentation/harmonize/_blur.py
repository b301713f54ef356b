"""Weights of pastes whose mask is smoothed by a Gaussian, in integers, for batches of planes [B, 1, H, W]."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

_ONE = 1 << 15
"""Sum of the taps of one axis; the products of two axes sum to 2**30, which int32 holds."""

_NUM_SIGMAS = 3
"""Reach of the filter in standard deviations."""


def blurred_weight(inside: Tensor, outside: Tensor, sigma_px: float) -> Tensor:
    """Return the mask smoothed by a Gaussian, as the weight of the paste at each of its pixels.

    Padding and pixels beyond the canvas do not count: the sum over ``inside`` is divided by the sum over both masks.

    Args:
        inside: [B, 1, H, W] bool, pasted pixels.
        outside: [B, 1, H, W] bool, other pixels of the image.
        sigma_px: standard deviation of the Gaussian in pixels, above 0.

    Returns:
        [B, 1, H, W] float32 in (0, 1], 1 outside.
    """
    known = _smoothed(inside | outside, sigma_px).clamp(min=1)
    return torch.where(inside, _smoothed(inside, sigma_px).float() / known.float(), 1.0)


def _smoothed(pixels: Tensor, sigma_px: float) -> Tensor:
    """Return the sum of the weights of the ``pixels`` around each pixel, int32 of the same shape, from 0 to 2**30."""
    taps = gaussian_taps(sigma_px)
    reach = len(taps) // 2
    height, width = pixels.shape[-2:]
    padded = F.pad(pixels.to(torch.int32), [reach, reach, reach, reach])
    rows = sum(tap * padded[..., i : i + height, :] for i, tap in enumerate(taps))
    assert isinstance(rows, Tensor)
    out = sum(tap * rows[..., i : i + width] for i, tap in enumerate(taps))
    assert isinstance(out, Tensor)
    return out


@cache
def gaussian_taps(sigma_px: float) -> tuple[int, ...]:
    """Return the taps of a Gaussian at whole pixels up to three standard deviations, which sum to 2**15.

    They are rounded from decimal arithmetic, which is the same on every machine; the middle one takes the remainder.
    """
    sigma = Decimal(repr(sigma_px))
    reach = math.ceil(_NUM_SIGMAS * sigma)
    density = [(-((Decimal(i) / sigma) ** 2) / 2).exp() for i in range(-reach, reach + 1)]
    taps = [round(_ONE * value / sum(density)) for value in density]
    taps[reach] += _ONE - sum(taps)
    return tuple(taps)
