"""A small U-Net for images of a few thousand pixels, trained from scratch on one core.

Blocks of 2 x 2 pixels are folded into channels before the first convolution and unfolded after the last: a third of the
arithmetic, and no detail is lost (Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient
Sub-Pixel Convolutional Neural Network", CVPR 2016).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UNet(nn.Module):
    """U-Net with batch normalisation: two convolutions at each level, and one skip connection.

    Args:
        num_outputs: channels of the output.
        widths: channels of each level; every further level halves the resolution.

    After Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI 2015.
    """

    def __init__(self, num_outputs: int, widths: tuple[int, ...] = (24, 48, 96)) -> None:
        super().__init__()
        inputs = (12, *widths[:-1])
        self.down = nn.ModuleList(_block(i, o) for i, o in zip(inputs, widths, strict=True))
        pairs = list(pairwise(widths))
        self.up = nn.ModuleList(_block(fine + coarse, fine) for fine, coarse in reversed(pairs))
        self.head = nn.Conv2d(widths[0], 4 * num_outputs, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return [B, num_outputs, H, W] for images [B, 3, H, W] in [0, 1]; H and W are multiples of 2**levels."""
        x, skips = F.pixel_unshuffle(images * 4 - 2, 2), []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            skips.append(x)
        for block, skip in zip(self.up, reversed(skips[:-1]), strict=True):
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), skip], 1))
        return F.pixel_shuffle(self.head(x), 2)


def _block(num_inputs: int, num_outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for num in (num_inputs, num_outputs):
        layers += [
            nn.Conv2d(num, num_outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(num_outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)
