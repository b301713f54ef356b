"""Inputs and outputs of the three pixel functions: plan of layers, visibility buffer, measures, output slots.

`LayerView` reads the source through one layer of a plan, at the pixels of one tile of the target. Boxes are xyxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.schema import Scene
from segpaste.types import PaddedBatchedDenseSample, sampling
from segpaste.types.check import not_none


class AxisTable(NamedTuple):
    """Look-up table of one axis: the source indices that each output column (or row) of each layer reads."""

    nearest: Annotated[Tensor, "[B, L, out] int32"]
    """Source index of the nearest pixel, -1 where the layer does not reach."""
    linear_idx: Annotated[Tensor, "[B, L, 2, linear] int32"]
    """Taps of linear interpolation, clamped to the valid extent. ``linear`` is ``out``, or 0 where the target has
    neither depth nor normals.
    """
    linear_weight: Annotated[Tensor, "[B, L, 2, linear] int32"]
    """They sum to `segpaste.types.sampling.WEIGHT_ONE`."""
    filter_idx: Annotated[Tensor, "[B, L, T, out] int32"]
    """Taps of the image filter."""
    filter_weight: Annotated[Tensor, "[B, L, T, out] int32"]


class LayerPlan(NamedTuple):
    """Source row of each layer, and the map through which it is read."""

    source_idx: Annotated[Tensor, "[B, L] int64"]
    """Row of the source batch."""
    carried: Annotated[Tensor, "[B, L, K_s] bool"]
    """The source's instance slots that the layer carries."""
    hflip: Annotated[Tensor, "[B, L] bool"]
    vflip: Annotated[Tensor, "[B, L] bool"]
    swap_axes: Annotated[Tensor, "[B, L] bool"]
    """Layers whose columns are rows of the source; the x tables then hold rows, the y tables columns."""
    depth_scale: Annotated[Tensor, "[B, L] float32"]
    """Factor on source depth."""
    paste_box: Annotated[Tensor, "[B, L, K_s, 4] int64"]
    """Box of each source slot on the target, clipped to the canvas."""
    target_box: Annotated[Tensor, "[B, K_t, 4] int64"]
    """Box of each slot of the target, clipped to the canvas. Pixels of a mask outside of its box do not count."""
    x: AxisTable
    """Table of the columns."""
    y: AxisTable
    """Table of the rows."""


class Visible(NamedTuple):
    """Visibility buffer: the visible layer at each pixel, and the source slot that owns the pixel."""

    layer: Annotated[Tensor, "[B, H, W] int16"]
    """-1 for the target."""
    owner: Annotated[Tensor, "[num_owned, H, W] int16"]
    """The slot of that layer that covers the pixel: the one of the highest rank, of equal ones the lowest; -1 for the
    target. ``num_owned`` is B, or 0 if no field needs it.
    """


class Measures(NamedTuple):
    """Areas in pixels, and boxes, of the visible parts of instances; a box is zero where its area is."""

    area_before: Annotated[Tensor, "[B, K_t] int64"]
    """Areas of the target's instances before the paste."""
    area: Annotated[Tensor, "[B, K_t] int64"]
    """Their visible areas."""
    box: Annotated[Tensor, "[B, K_t, 4] int64"]
    """Boxes of the visible parts."""
    paste_area: Annotated[Tensor, "[B, L, K_s] int64"]
    """Visible areas of the pastes."""
    paste_box: Annotated[Tensor, "[B, L, K_s, 4] int64"]
    """Boxes of the visible parts."""
    class_before: Annotated[Tensor, "[B, num_classes] int64"]
    """Pixels of each semantic class in the target."""
    class_after: Annotated[Tensor, "[B, num_classes] int64"]
    """Pixels of them that no layer hides."""


class SlotPlan(NamedTuple):
    """Instance that each output slot holds."""

    survives: Annotated[Tensor, "[B, K_t] bool"]
    """True where the target's instance stays in its slot."""
    dropped: Annotated[Tensor, "[B, K_t] bool"]
    """True where the target's instance loses its row."""
    paste_layer: Annotated[Tensor, "[B, K] int64"]
    """Layer of the paste that the slot holds, -1 if none."""
    paste_slot: Annotated[Tensor, "[B, K] int64"]
    """Source slot of that paste, -1 if none."""
    fresh_id: Annotated[Tensor, "[B, L, K_s] int64"]
    """The id of each placed paste, 0 if not placed."""
    paste_class: Annotated[Tensor, "[B, L, K_s] int64"]
    """The semantic class of a paste whose source has no semantic map."""
    ignored_class: Annotated[Tensor, "[B, num_classes] bool"]
    """Semantic classes whose remaining pixels become ignore."""


def empty_visible(scene: Scene) -> Visible:
    """Allocate the tensors that ``resolve`` writes."""
    b, (height, width) = scene.target.batch_size, scene.target.canvas_size
    sizes = {"B": b, "num_owned": b if scene.needs_owner else 0, "H": height, "W": width}
    return empty(Visible, scene.target.device, sizes)


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
        self.hflip, self.vflip, self.swap_axes = (t[:, layer] for t in (plan.hflip, plan.vflip, plan.swap_axes))
        self.depth_scale = plan.depth_scale[:, layer]
        self.reach = in_boxes(plan.paste_box[:, layer], tile)
        self.x = AxisTable(*(t[:, layer, ..., tile.cols].long() for t in plan.x))
        self.y = AxisTable(*(t[:, layer, ..., tile.rows].long() for t in plan.y))

    def at(self, plane: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Read a plane [S, C, H_s, W_s] where tables of y [B, h] and x [B, w] say, [B, C, h, w]."""
        read = plane.new_empty(len(self.row), plane.shape[1], y.shape[1], x.shape[1])
        for b in range(len(self.row)):
            picture, down, across = plane.index_select(0, self.row[b : b + 1])[0], y[b].clamp(min=0), x[b].clamp(min=0)
            if picture.device.type == "cpu" and not self.swap_axes[b]:  # faster; on other devices it would have to wait
                read[b] = picture.index_select(1, down).index_select(2, across)
                continue
            down, across = down[:, None], across[None]
            rows, cols = torch.where(self.swap_axes[b], across, down), torch.where(self.swap_axes[b], down, across)
            read[b] = picture[:, rows, cols]
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
        """Return the normals, turned and flipped with the layer, [B, 3, h, w] float32."""
        plane = not_none(self.source.normals)
        taps, weights = self.linear(plane)
        nearest = self.nearest(plane).transpose(0, 1)
        unit = sampling.mix_normals(taps.transpose(0, 1), weights[:, 0], nearest).transpose(0, 1)
        x, y, z = unit.unbind(1)
        hflip, vflip, swap_axes = (flags[:, None, None] for flags in (self.hflip, self.vflip, self.swap_axes))
        x, y = torch.where(swap_axes, y, x), torch.where(swap_axes, x, y)
        return torch.stack([torch.where(hflip, -x, x), torch.where(vflip, -y, y), z], dim=1)

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
