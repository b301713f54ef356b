"""Areas and bounding boxes of masks, accumulated tile by tile."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.reference._layer_view import Region


class Extents:
    """Areas and bounding boxes of [B, K, H, W] masks, accumulated tile by tile."""

    def __init__(self, shape: tuple[int, int], height: int, width: int, device: torch.device) -> None:
        self.area = torch.zeros(shape, dtype=torch.int64, device=device)
        self.cols = torch.zeros(*shape, width, dtype=torch.bool, device=device)
        self.rows = torch.zeros(*shape, height, dtype=torch.bool, device=device)

    def add(self, masks: Tensor, tile: Region) -> None:
        """Add the masks [B, K, h, w] of a tile."""
        pixels = masks.view(torch.uint8)  # torch reduces bytes many times faster than bools
        sums = [mask.sum() for row in pixels for mask in row]
        if sums:
            self.area += torch.stack(sums).view_as(self.area)
            self.cols[..., tile.cols] |= pixels.amax(2).bool()
            self.rows[..., tile.rows] |= pixels.amax(3).bool()

    def box(self) -> Tensor:
        """Return the bounding boxes, [B, K, 4] int64 xyxy, zero where nothing was added."""
        (x1, x2), (y1, y2) = _first_and_end(self.cols), _first_and_end(self.rows)
        return torch.stack([x1, y1, x2, y2], -1)


def _first_and_end(hits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index of the first True and one past the last along the last axis; 0, 0 where there is none."""
    size = hits.shape[-1]
    index = torch.arange(size, device=hits.device)
    end = (hits * (index + 1)).amax(-1)
    first = torch.where(hits, index, size).amin(-1)
    return torch.minimum(first, end), end
