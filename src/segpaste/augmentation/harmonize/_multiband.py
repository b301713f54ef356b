"""Blending in bands of detail: coarse colours over a wide strip, fine detail over a narrow one.

After Burt and Adelson, "A Multiresolution Spline with Application to Image Mosaics", ACM Transactions on Graphics
2(4), 1983. The difference between paste and target is blended, in a Laplacian pyramid of the pasted pixels alone: the
source beyond the paste is not known, so each level is an average of pasted pixels only. The weight of a band is the
smoothed mask, stretched so that it falls to 0 at the edge of the paste and not beyond it, since nothing may change
there.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from segpaste.augmentation.config.harmonize import HarmonizeConfig


def multiband(composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor, config: HarmonizeConfig) -> Tensor:
    """Blend the paste into the target, in ``pyramid_levels`` bands."""
    total = torch.where(inside, composed - target, 0.0)
    covered, known = inside.float(), (inside | outside).float()
    means, weights = [total], [covered]
    for _ in range(config.pyramid_levels - 1):
        if max(total.shape[-2:]) == 1:
            break
        total, covered, known = (_reduced(x) for x in (total, covered, known))
        means.append(_ratio(total, covered))
        weights.append((2 * _ratio(covered, known) - 1).clamp(0, 1))
    blended = weights[-1] * means[-1]
    for level in range(len(means) - 2, -1, -1):
        size = means[level].shape[-2:]
        band = means[level] - _expanded(means[level + 1], size)
        blended = _expanded(blended, size) + weights[level] * band
    return target + blended


def _ratio(total: Tensor, weight: Tensor) -> Tensor:
    return torch.where(weight > 0, total / weight, 0.0)


def _reduced(image: Tensor) -> Tensor:
    """Halve the size, rounded up: keep every other pixel after a binomial filter of five taps, 0 beyond the canvas."""
    return _halved(_halved(image).transpose(-2, -1)).transpose(-2, -1)


def _halved(image: Tensor) -> Tensor:
    length = 2 * ((image.shape[-1] + 1) // 2) - 1
    padded = pad(image, (2, 2))
    a, b, c, d, e = (padded[..., tap : tap + length : 2] for tap in range(5))
    return ((a + e) + (b + d) * 4 + c * 6) * 0.0625


def _expanded(image: Tensor, size: torch.Size) -> Tensor:
    """Double the size, cropped to ``size``: apply the same filter to spread pixels, with the outermost repeated."""
    height, width = size
    return _doubled(_doubled(image, width).transpose(-2, -1), height).transpose(-2, -1)


def _doubled(image: Tensor, length: int) -> Tensor:
    before = torch.cat([image[..., :1], image[..., :-1]], -1)
    after = torch.cat([image[..., 1:], image[..., -1:]], -1)
    even = (before + after + image * 6) * 0.125
    odd = (image + after) * 0.5
    return torch.stack([even, odd], -1).flatten(-2)[..., :length]
