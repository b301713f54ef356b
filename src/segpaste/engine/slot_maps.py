"""Maps of the pastes in the output slots, for coordinates in pixel edges.

An edge X of the source is at ``X * num / den + translate``, in float64. A division stands between product and sum, so
no compiler fuses them, and every device gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.reference import geometry
from segpaste.engine.schema import Outcome, Placement, Scene


class SlotMaps(NamedTuple):
    """Source and map of the paste in each output slot; meaningless in slots without a paste.

    Attributes:
        rows: [B, K] int64, row of the source.
        slots: [B, K] int64, slot of the source.
        hflip: [B, K] bool.
        width: [B, K] float64, width of the source without padding.
        scale_num, scale_den, translate: [B, K, 2] float64, for x and y.
    """

    rows: Tensor
    slots: Tensor
    hflip: Tensor
    width: Tensor
    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor

    def placed(self, points: Tensor) -> Tensor:
        """Return where points (x, y) of the source, [B, K, N, 2] float64, are in the target."""
        x, y = points.unbind(-1)
        points = torch.stack([torch.where(self.hflip[..., None], self.width[..., None] - x, x), y], -1)
        return points * self.scale_num[:, :, None] / self.scale_den[:, :, None] + self.translate[:, :, None]


def slot_maps(scene: Scene, placement: Placement, outcome: Outcome) -> SlotMaps | None:
    """Return the maps of the pastes in the output slots; None if the source has no slot, or there is no layer."""
    source = scene.source
    if not source.labels.numel() or not placement.source_idx.numel():
        return None
    rows, hflip = placement.source_idx[..., None], placement.hflip[..., None]
    width = geometry.valid_extent(source)[placement.source_idx, :1]
    of_layers = torch.cat([placement.scale_num, placement.scale_den, placement.translate, width, rows, hflip], -1)
    found = of_layers.gather(1, outcome.slot_layer.clamp(min=0)[..., None].expand(-1, -1, of_layers.shape[-1]))
    values, slots = found.double(), outcome.slot_source.clamp(0, source.max_instances - 1)
    num, den, translate = values[..., :2], values[..., 2:4], values[..., 4:6]
    return SlotMaps(found[..., 7], slots, found[..., 8] > 0, values[..., 6], num, den, translate)
