"""A small vision transformer that gives a class for each patch, trained from scratch on one core."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PATCH = 8


class PatchTransformer(nn.Module):
    """Vision transformer with learned positions and a linear head on each token.

    Args:
        num_outputs: classes of a patch.
        size: height and width of the images, multiples of `PATCH`.
        shape: width of a token, number of heads, number of blocks.

    After Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021.
    """

    def __init__(self, num_outputs: int, size: tuple[int, int], shape: tuple[int, int, int]) -> None:
        super().__init__()
        width, heads, blocks = shape
        self.grid = (size[0] // PATCH, size[1] // PATCH)
        self.embed = nn.Conv2d(3, width, PATCH, PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, self.grid[0] * self.grid[1], width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, blocks, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return [B, num_outputs, H / patch, W / patch] for images [B, 3, H, W] in [0, 1]."""
        tokens = self.embed(images * 4 - 2).flatten(2).transpose(1, 2) + self.positions
        logits: Tensor = self.head(self.blocks(tokens))
        return torch.unflatten(logits.transpose(1, 2), 2, self.grid)
