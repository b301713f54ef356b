"""Pixel geometry of a layer: its boxes and its look-up tables.

The map of a layer swaps the axes of the source or not, flips it within its valid extent, scales each axis by
``scale_num / scale_den`` and translates by whole pixels. It is axis-aligned and therefore separable: each output column
has one source column for nearest reads, and taps with weights for interpolated reads, the same in every row. If the
axes are swapped, an output column has source rows instead. All arithmetic is in integers (`segpaste.types.sampling`),
so that all backends agree exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.orientation import Orientation
from segpaste.engine.reference.plan import AxisTable, Region, in_boxes
from segpaste.engine.schema import Placement
from segpaste.types import PaddedBatchedDenseSample, sampling
from segpaste.types.check import not_none
from segpaste.types.sampling import outward_boxes


def _pair(width: int, height: int, device: torch.device) -> Tensor:
    """Return (width, height) as [2] int64, made on the device, since a copy from the host would have to wait."""
    return torch.stack([torch.full((), size, dtype=torch.int64, device=device) for size in (width, height)])


def valid_extent(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the (width, height) of each image without padding, [B, 2] int64.

    Padding is to the right and below; the extent ends after the last column and row with a pixel that is not padding.
    """
    height, width = batch.canvas_size
    if batch.padding_mask is None:
        return _pair(width, height, batch.device).expand(batch.batch_size, 2)
    picture = ~batch.padding_mask[:, 0]
    cols = picture.any(1) * torch.arange(1, width + 1, device=batch.device)
    rows = picture.any(2) * torch.arange(1, height + 1, device=batch.device)
    return torch.stack([cols.amax(1), rows.amax(1)], dim=1)


def oriented_extent(extent: Tensor, swap_axes: Tensor) -> Tensor:
    """Return the (width, height) [..., 2] of sources whose axes are swapped or not, ``swap_axes`` [...] bool."""
    return torch.where(swap_axes.unsqueeze(-1), extent.flip(-1), extent)


def oriented(boxes: Tensor, extent: Tensor, orientation: Orientation) -> Tensor:
    """Return boxes as their layers turn and flip them: an edge x goes to width - x, an edge y to height - y.

    Args:
        boxes: [B, L, K_s, 4] int64, boxes of each layer's source.
        extent: [B, L, 2] int64, its (width, height).
        orientation: turns and flips of the layers.
    """
    hflip, vflip, swap_axes = (flags.unsqueeze(-1) for flags in orientation)
    x1, y1, x2, y2 = torch.where(swap_axes.unsqueeze(-1), boxes[..., [1, 0, 3, 2]], boxes).unbind(-1)
    width, height = oriented_extent(extent, orientation.swap_axes).unsqueeze(2).unbind(-1)
    x1, x2 = torch.where(hflip, width - x2, x1), torch.where(hflip, width - x1, x2)
    y1, y2 = torch.where(vflip, height - y2, y1), torch.where(vflip, height - y1, y2)
    return torch.stack([x1, y1, x2, y2], -1)


def scaled_boxes(boxes: Tensor, scale_num: Tensor, scale_den: Tensor) -> Tensor:
    """Return the pixels that source boxes [..., 4] cover after scaling by (x, y) factors [..., 2], before translation.

    An output pixel is covered if its centre maps into the box, so an edge e goes to ceil(e * scale - 1/2).
    """
    num, den = (torch.cat([pair, pair], -1) for pair in (scale_num, scale_den))
    return -torch.div(den - 2 * num * boxes, 2 * den, rounding_mode="floor")


def clipped(boxes: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    """Clip boxes [..., 4] to a canvas (H, W)."""
    height, width = canvas_size
    return torch.minimum(boxes.clamp(min=0), _pair(width, height, boxes.device).repeat(2))


def inside_extent(boxes: Tensor, extent: Tensor) -> Tensor:
    """Return whether boxes [..., 4] lie within (0, 0, width, height), with ``extent`` [..., 2] = (width, height)."""
    return (boxes[..., :2] >= 0).all(-1) & (boxes[..., 2:] <= extent).all(-1)


def cut_sides(boxes: Tensor, extent: Tensor) -> Tensor:
    """Return which sides (x1, y1, x2, y2) of boxes [..., 4] lie on or beyond the border of (0, 0, width, height).

    Args:
        boxes: [..., 4] int64.
        extent: [..., 2] int64, (width, height).

    Returns:
        [..., 4] bool.
    """
    return torch.cat([boxes[..., :2] <= 0, boxes[..., 2:] >= extent], -1)


def box_overlap(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the intersection areas of boxes [..., N, 4] with boxes [..., M, 4], [..., N, M]."""
    low = torch.maximum(boxes[..., :, None, :2], others[..., None, :, :2])
    high = torch.minimum(boxes[..., :, None, 2:], others[..., None, :, 2:])
    return (high - low).clamp(min=0).prod(-1)


def covered(batch: PaddedBatchedDenseSample, chosen: Tensor) -> Tensor:
    """Return the pixels that any of the ``chosen`` instances [B, K] covers within its box, [B, H, W] bool."""
    masks, boxes = not_none(batch.instance_masks), outward_boxes(batch.boxes)
    if batch.device.type == "cpu":  # usually few of many slots
        slots = chosen.any(0).nonzero()[:, 0]
        masks, boxes, chosen = masks[:, slots], boxes[:, slots], chosen[:, slots]
    height, width = batch.canvas_size
    everything = Region(slice(0, height), slice(0, width))
    return (masks & in_boxes(boxes, everything) & chosen[:, :, None, None]).any(1)


def axis_table(
    placement: Placement, axis: int, out_size: int, extent: Tensor, num_taps: int, with_linear: bool
) -> AxisTable:
    """Build the look-up table of one axis.

    Args:
        placement: the maps of all layers.
        axis: 0 for x, 1 for y.
        out_size: W or H of the target canvas.
        extent: [B, L] int64, the width or height of the source without padding, after its axes are swapped.
        num_taps: T of the image filter.
        with_linear: build the taps of linear interpolation; if False they are empty, [B, L, 2, 0].
    """
    num, den = (pair[..., axis].unsqueeze(-1) for pair in (placement.scale_num, placement.scale_den))
    extent = extent.unsqueeze(-1)
    pixels = torch.arange(out_size, device=num.device)
    position = sampling.source_position(pixels, placement.translate[..., axis].unsqueeze(-1), num, den)
    nearest = sampling.nearest_index(position, num)
    outside = (nearest < 0) | (nearest >= extent)
    flip = (placement.hflip, placement.vflip)[axis].unsqueeze(-1)
    radius = num if num_taps == 2 else den
    filter_idx, filter_weight = _taps(position, num, radius, num_taps, extent, flip)
    linear_idx, linear_weight = filter_idx[:, :, :2, :0], filter_weight[:, :, :2, :0]
    if with_linear:
        linear_idx, linear_weight = _taps(position, num, num, 2, extent, flip)
    nearest = _mirrored_index(nearest, extent, flip).masked_fill(outside, -1)
    return AxisTable(nearest.int(), linear_idx, linear_weight, filter_idx, filter_weight)


def _taps(
    position: Tensor, num: Tensor, den: Tensor, num_taps: int, extent: Tensor, flip: Tensor
) -> tuple[Tensor, Tensor]:
    first, weights = sampling.filter_taps(position, num, den, num_taps)
    index = first.unsqueeze(-1) + torch.arange(num_taps, device=first.device)
    used = index.gather(-1, weights.argmax(-1, keepdim=True))
    index = torch.where(weights == 0, used, index)  # pixels without weight are not read
    extent = extent.unsqueeze(-1)
    index = torch.minimum(index.clamp(min=0), (extent - 1).clamp(min=0))
    index = _mirrored_index(index, extent, flip.unsqueeze(-1)).clamp(min=0)
    return index.mT.int().contiguous(), weights.mT.int().contiguous()


def _mirrored_index(index: Tensor, extent: Tensor, flip: Tensor) -> Tensor:
    return torch.where(flip, extent - 1 - index, index)
