"""Reads of the source through one layer, at the pixels of one tile of the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.reference.plan import AxisTable, LayerPlan
from segpaste.types import PaddedBatchedDenseSample, sampling
from segpaste.types.check import not_none


class Region(NamedTuple):
    """Rectangle of the target canvas."""

    rows: slice
    cols: slice


def tiles(height: int, width: int, size: int) -> Iterator[Region]:
    """Yield the rectangles of at most size x size pixels that make up the canvas, row by row."""
    for y in range(0, height, size):
        for x in range(0, width, size):
            yield Region(slice(y, min(y + size, height)), slice(x, min(x + size, width)))


def in_boxes(boxes: Tensor, tile: Region) -> Tensor:
    """Return which pixels of a tile lie in each of the boxes [B, K, 4], [B, K, h, w] bool."""
    ys = torch.arange(tile.rows.start, tile.rows.stop, device=boxes.device)
    xs = torch.arange(tile.cols.start, tile.cols.stop, device=boxes.device)
    x1, y1, x2, y2 = boxes.unsqueeze(-1).unbind(-2)
    return ((ys >= y1) & (ys < y2))[..., None] & ((xs >= x1) & (xs < x2))[..., None, :]


class LayerView:
    """Reads of the source through one layer, at the pixels of one tile."""

    def __init__(self, source: PaddedBatchedDenseSample, plan: LayerPlan, layer: int, tile: Region) -> None:
        self.source = source
        self.row = plan.source_idx[:, layer]
        self.carried = plan.carried[:, layer]
        self.hflip = plan.hflip[:, layer]
        self.depth_scale = plan.depth_scale[:, layer]
        self.reach = in_boxes(plan.paste_box[:, layer], tile)
        self.x = AxisTable(*(t[:, layer, ..., tile.cols].long() for t in plan.x))
        self.y = AxisTable(*(t[:, layer, ..., tile.rows].long() for t in plan.y))

    def at(self, plane: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Read a plane [S, C, H_s, W_s] at rows y [B, h] and columns x [B, w], [B, C, h, w]."""
        read = plane.new_empty(len(self.row), plane.shape[1], y.shape[1], x.shape[1])
        for b in range(len(self.row)):
            picture = plane.index_select(0, self.row[b : b + 1])[0]
            read[b] = picture.index_select(1, y[b].clamp(min=0)).index_select(2, x[b].clamp(min=0))
        return read

    def nearest(self, plane: Tensor) -> Tensor:
        """Read a plane [S, C, H_s, W_s] at the nearest source pixels, [B, C, h, w]; meaningless outside `reaches`."""
        return self.at(plane, self.y.nearest, self.x.nearest)

    def reaches(self) -> Tensor:
        """Return the pixels that the layer's source image reaches, [B, h, w] bool."""
        return (self.y.nearest >= 0)[:, :, None] & (self.x.nearest >= 0)[:, None, :]

    def masks(self) -> Tensor:
        """Return the carried masks within their boxes, [B, K_s, h, w] bool."""
        masks = not_none(self.source.instance_masks)
        read = masks.new_zeros(*self.carried.shape, self.y.nearest.shape[1], self.x.nearest.shape[1])
        slots = self.carried.any(0).nonzero()[:, 0]
        read[:, slots] = self.nearest(masks[:, slots]) & self.reaches()[:, None]
        return read & self.reach & self.carried[:, :, None, None]

    def linear(self, plane: Tensor) -> tuple[Tensor, Tensor]:
        """Return the four taps of linear interpolation, [B, C, h, w, 4], and their weights, [B, 1, h, w, 4] float32."""
        pairs = [(i, j) for i in range(2) for j in range(2)]
        taps = [self.at(plane, self.y.linear_idx[:, i], self.x.linear_idx[:, j]) for i, j in pairs]
        weights = [
            self.y.linear_weight[:, i, None, :, None] * self.x.linear_weight[:, j, None, None, :] for i, j in pairs
        ]
        return torch.stack(taps, -1), torch.stack(weights, -1).to(torch.float32) * (1 / sampling.WEIGHT_ONE**2)

    def depth(self, *, by_value: bool = False) -> tuple[Tensor, Tensor]:
        """Return depth on the target's scale, 0 where invalid, and its validity, [B, h, w] float32 and bool.

        With ``by_value`` every finite depth above 0 counts as valid.
        """
        plane, valid_plane = not_none(self.source.depth), not_none(self.source.depth_valid)
        taps, weights = self.linear(plane)
        valid, _ = self.linear(torch.ones_like(valid_plane) if by_value else valid_plane)
        depth, ok = sampling.mix_depth(taps[:, 0], valid[:, 0], weights[:, 0], self.nearest(plane)[:, 0])
        return sampling.rescaled_depth(depth, ok, self.depth_scale[:, None, None])

    def normals(self) -> Tensor:
        """Return the normals, flipped with the layer, [B, 3, h, w] float32."""
        plane = not_none(self.source.normals)
        taps, weights = self.linear(plane)
        nearest = self.nearest(plane).transpose(0, 1)
        unit = sampling.mix_normals(taps.transpose(0, 1), weights[:, 0], nearest).transpose(0, 1)
        x, y, z = unit.unbind(1)
        return torch.stack([torch.where(self.hflip[:, None, None], -x, x), y, z], dim=1)

    def image(self) -> Tensor:
        """Return the filtered image, [B, C, h, w], in its own dtype; uint8 in exact integers, rounded half up.

        Sums go down the columns first, then along the row, so that a kernel can keep sums that several pixels share.
        """
        images = self.source.images
        is_integer = images.dtype == torch.uint8
        wide = torch.int32 if is_integer else torch.float32
        total: Tensor | None = None
        for j in range(self.x.filter_idx.shape[1]):
            column: Tensor | None = None
            for i in range(self.y.filter_idx.shape[1]):
                tap = self.at(images, self.y.filter_idx[:, i], self.x.filter_idx[:, j]).to(wide)
                column = _plus(column, tap, self.y.filter_weight[:, i, None, :, None].to(wide))
            total = _plus(total, not_none(column), self.x.filter_weight[:, j, None, None, :].to(wide))
        assert total is not None
        bits = 2 * sampling.WEIGHT_BITS
        if is_integer:
            return ((total + (1 << (bits - 1))) >> bits).to(torch.uint8)
        return (total * 2.0**-bits).to(images.dtype)


def _plus(total: Tensor | None, value: Tensor, weight: Tensor) -> Tensor:
    """Return ``total + value * weight``; a weight of 0 adds nothing, not even a NaN."""
    part = torch.where(weight == 0, torch.zeros((), dtype=value.dtype, device=value.device), value * weight)
    return part if total is None else total + part
