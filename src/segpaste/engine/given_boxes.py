"""Boxes of an output whose masks were made from boxes.

Such an instance has no outline: its box is the annotation, and its mask says only which pixels are cut out. So boxes
are not those of the masks:

1. A box of which no pixel, rounded outwards, was pasted over keeps every bit.
2. A box that was cut becomes its part within the box of the pixels that remain visible.
3. The box of a paste is the one of its source, moved by the map of its layer, within the box of its visible pixels; or
   the latter alone, if that part is empty. Masks cover whole source pixels, so an enlarged object may show pixels only
   beyond its box.

The rules run after `Engine.compose` on its results, so all backends, eager and compiled, give the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.regions import region_sums
from segpaste.engine.schema import GivenBoxes, Outcome, Placement, Scene
from segpaste.engine.slot_maps import slot_maps
from segpaste.types.sampling import common_boxes, outward_boxes


def output_boxes(given: GivenBoxes, scene: Scene, placement: Placement, outcome: Outcome) -> Tensor:
    """Return the boxes of survivors and pastes, [B, K, 4] float32, zero in empty slots.

    Args:
        given: the boxes before the paste.
        scene: the composed scene.
        placement: the maps of its layers.
        outcome: outcome with ``visible_layer``, whose boxes are those of the visible pixels.
    """
    visible, is_paste = outcome.batch.boxes, (outcome.slot_layer >= 0)[..., None]
    placed = None if given.source is None else _placed(given.source, scene, placement, outcome)
    boxes = torch.where(is_paste, visible if placed is None else placed, given.target)
    common = common_boxes(boxes, visible)
    if placed is not None:
        is_empty = (common[..., 2:] <= common[..., :2]).any(-1, keepdim=True)
        common = torch.where(is_paste & is_empty, visible, common)
    boxes = torch.where(is_paste | _is_cut(given.target, outcome)[..., None], common, boxes)
    return torch.where(outcome.batch.instance_valid[..., None], boxes, 0.0)


def _is_cut(boxes: Tensor, outcome: Outcome) -> Tensor:
    """Return the boxes of which a pixel was pasted over, [B, K] bool."""
    height, width = outcome.visible_layer.shape[1:]
    sums = region_sums(outcome.visible_layer >= 0, None, ())
    assert sums is not None
    whole = outward_boxes(boxes)
    x, y = whole[..., 0::2].clamp(0, width), whole[..., 1::2].clamp(0, height)
    corners = (y * (width + 1))[..., None] + x[..., None, :]  # [B, K, 2, 2]
    above_left, above, left, inside = sums.flatten(1).gather(1, corners.flatten(1)).view(*boxes.shape).unbind(-1)
    return inside - left - above + above_left > 0


def _placed(boxes: Tensor, scene: Scene, placement: Placement, outcome: Outcome) -> Tensor | None:
    """Return the box of the paste in each output slot before it is cut, [B, K, 4]; None without layers or slots."""
    maps = slot_maps(scene, placement, outcome)
    if maps is None:
        return None
    corners = maps.placed(boxes[maps.rows, maps.slots].double().view(*maps.rows.shape, 2, 2))
    return torch.cat([corners.amin(2), corners.amax(2)], -1).float()
