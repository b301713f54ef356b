"""Colour transfer by mean and spread, channel by channel.

After Reinhard, Ashikhmin, Gooch, Shirley, "Color Transfer between Images", IEEE Computer Graphics and Applications
21(5), 2001. The paper works in the decorrelated space l-alpha-beta. Here the image's own channels are used, because a
batch may hold any number of channels in any range of values. All pasted pixels of an image are fitted together, to the
target's pixels around them. Pastes that hide the whole image do not change.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config.harmonize import HarmonizeConfig
from segpaste.augmentation.harmonize._distance import is_near
from segpaste.augmentation.harmonize._sums import total
from segpaste.types.sampling import root


def reinhard(composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor, config: HarmonizeConfig) -> Tensor:
    """Match mean and standard deviation of each channel to those of the target within ``surround_px`` of the paste.

    Each deviation is scaled by at most ``max_gain``, up or down.
    """
    around = outside & is_near(inside, config.surround_px)
    mean, spread = _moments(composed, inside)
    new_mean, new_spread = _moments(target, around)
    gain = torch.where(spread > 0, new_spread / spread, 1.0).clamp(1 / config.max_gain, config.max_gain)
    is_known = inside.any(-1, keepdim=True).any(-2, keepdim=True) & around.any(-1, keepdim=True).any(-2, keepdim=True)
    return torch.where(is_known, (composed - mean) * gain + new_mean, composed)


def _moments(image: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel over the pixels ``where``, [B, C, 1, 1] each; 0 without any.

    They are computed from the excess over the smallest value, so that a uniform colour has a spread of exactly 0.
    """
    count = where.sum((-2, -1), keepdim=True).clamp(min=1).float()
    lowest = torch.where(where, image, torch.inf).amin((-2, -1), keepdim=True)
    lowest = torch.where(lowest < torch.inf, lowest, 0.0)
    excess = torch.where(where, image - lowest, 0.0)
    mean = total(excess) / count
    variance = total(torch.where(where, excess - mean, 0.0).square()) / count
    return lowest + mean, root(variance)
