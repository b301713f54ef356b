"""Inputs and outputs of the three pixel functions: plan of layers, visibility buffer, measures, output slots.

Boxes are xyxy.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.schema import Scene


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
