"""Inputs and outputs of the three pixel functions: plan of layers, visibility buffer, measures, output slots."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.schema import Scene


class AxisTable(NamedTuple):
    """Look-up table of one axis: the source indices that each output column (or row) of each layer reads.

    Attributes:
        nearest: [B, L, out] int32, source index of the nearest pixel, -1 where the layer does not reach.
        linear_idx: [B, L, 2, out] int32, taps of linear interpolation, clamped to the valid extent.
        linear_weight: [B, L, 2, out] int32, sum to `segpaste.types.sampling.WEIGHT_ONE`. Both are empty, [B, L, 2, 0],
            where the target has neither depth nor normals.
        filter_idx: [B, L, T, out] int32, taps of the image filter.
        filter_weight: [B, L, T, out] int32.
    """

    nearest: Tensor
    linear_idx: Tensor
    linear_weight: Tensor
    filter_idx: Tensor
    filter_weight: Tensor


class LayerPlan(NamedTuple):
    """Source row of each layer, and the map through which it is read.

    Attributes:
        source_idx: [B, L] int64, row of the source batch.
        carried: [B, L, K_s] bool, the source's instance slots that the layer carries.
        hflip: [B, L] bool.
        depth_scale: [B, L] float32, factor on source depth.
        paste_box: [B, L, K_s, 4] int64 xyxy, box of each source slot on the target, clipped to the canvas.
        target_box: [B, K_t, 4] int64 xyxy, box of each slot of the target, clipped to the canvas. Pixels of a mask
            outside of its box do not count.
        x: table of the columns.
        y: table of the rows.
    """

    source_idx: Tensor
    carried: Tensor
    hflip: Tensor
    depth_scale: Tensor
    paste_box: Tensor
    target_box: Tensor
    x: AxisTable
    y: AxisTable


class Visible(NamedTuple):
    """Visibility buffer: the visible layer at each pixel, and the source slot that owns the pixel.

    Attributes:
        layer: [B, H, W] int16, -1 for the target.
        owner: [B, H, W] int16, the slot of that layer that covers the pixel: the one of the highest rank, of equal ones
            the lowest; -1 for the target; [0, H, W] if no field needs it.
    """

    layer: Tensor
    owner: Tensor


class Measures(NamedTuple):
    """Areas in pixels, and boxes, of the visible parts of instances; a box is zero where its area is.

    Attributes:
        area_before: [B, K_t] int64, areas of the target's instances before the paste.
        area: [B, K_t] int64, their visible areas.
        box: [B, K_t, 4] int64 xyxy, boxes of the visible parts.
        paste_area: [B, L, K_s] int64, visible areas of the pastes.
        paste_box: [B, L, K_s, 4] int64 xyxy, boxes of the visible parts.
        class_before: [B, num_classes] int64, pixels of each semantic class in the target.
        class_after: [B, num_classes] int64, pixels of them that no layer hides.
    """

    area_before: Tensor
    area: Tensor
    box: Tensor
    paste_area: Tensor
    paste_box: Tensor
    class_before: Tensor
    class_after: Tensor


class SlotPlan(NamedTuple):
    """Instance that each output slot holds.

    Attributes:
        survives: [B, K_t] bool, True where the target's instance stays in its slot.
        dropped: [B, K_t] bool, True where the target's instance loses its row.
        paste_layer: [B, K] int64, layer of the paste that the slot holds, -1 if none.
        paste_slot: [B, K] int64, source slot of that paste, -1 if none.
        fresh_id: [B, L, K_s] int64, the id of each placed paste, 0 if not placed.
        paste_class: [B, L, K_s] int64, the semantic class of a paste whose source has no semantic map.
        ignored_class: [B, num_classes] bool, semantic classes whose remaining pixels become ignore.
    """

    survives: Tensor
    dropped: Tensor
    paste_layer: Tensor
    paste_slot: Tensor
    fresh_id: Tensor
    paste_class: Tensor
    ignored_class: Tensor


def empty_visible(scene: Scene) -> Visible:
    """Allocate the tensors that ``resolve`` writes."""
    b, (height, width) = scene.target.batch_size, scene.target.canvas_size
    layer = torch.empty(b, height, width, dtype=torch.int16, device=scene.target.device)
    return Visible(layer, layer.new_empty(b if scene.needs_owner else 0, height, width))
