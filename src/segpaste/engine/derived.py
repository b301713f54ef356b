"""Fields that no backend writes: they are computed from the outcome of any backend, in a few small tensor operations.

`RULES` has one function for each field that the field table calls ``derived``. They run after `Engine.compose`, on any
device, in eager and in compiled code, and give the same bits everywhere.

Boxes are derived, too, if the masks of a batch were made from boxes. Such an instance has no outline: its box is the
annotation, and its mask says only which pixels are cut out. So boxes are not those of the masks:

1. A box of which no pixel, rounded outwards, was pasted over keeps every bit.
2. A box that was cut becomes its part within the box of the pixels that remain visible.
3. The box of a paste is the one of its source, moved by the map of its layer, within the box of its visible pixels; or
   the latter alone, if that part is empty. Masks cover whole source pixels, so an enlarged object may show pixels only
   beyond its box.

`SlotMaps` moves coordinates in pixel edges: an edge X of the source is at ``X * num / den + translate``, in float64. A
division stands between product and sum, so no compiler fuses them, and every device gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.orientation import Orientation
from segpaste.engine.planes import write_back
from segpaste.engine.reference import geometry
from segpaste.engine.regions import region_sums
from segpaste.engine.schema import GivenBoxes, Outcome, Placement, Scene
from segpaste.types import FIELDS
from segpaste.types.check import not_none
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE
from segpaste.types.sampling import common_boxes, outward_boxes

DERIVED = tuple(field.batched_name for field in FIELDS if field.paste == "derived")
"""Fields that a paste changes and no backend writes."""


def needs_layer(scene: Scene) -> bool:
    """Return whether a field of the output is computed from ``Outcome.visible_layer``."""
    return scene.given_boxes is not None or any(getattr(scene.target, name) is not None for name in DERIVED)


def with_derived(scene: Scene, placement: Placement, outcome: Outcome, in_place: bool) -> Outcome:
    """Return an outcome with updated derived fields.

    Args:
        scene: the composed scene; in place its derived fields are still those of the target.
        placement: the maps of its layers.
        outcome: outcome with ``visible_layer``.
        in_place: write into the tensors of the target.
    """
    present = [name for name in DERIVED if getattr(scene.target, name) is not None]
    found = {name: RULES[name](scene, placement, outcome) for name in present}
    if scene.given_boxes is not None:
        found["boxes"] = output_boxes(scene.given_boxes, scene, placement, outcome)
    if not found:
        return outcome
    batch = outcome.batch.derived(**found)
    return outcome._replace(batch=write_back(scene.target, batch) if in_place else batch)


def crowd_mask(scene: Scene, placement: Placement, outcome: Outcome) -> Tensor:
    """Return the crowd regions that no paste covers, [B, 1, H, W] bool."""
    return not_none(scene.target.crowd_mask) & (outcome.visible_layer < 0)[:, None]


def keypoints(scene: Scene, placement: Placement, outcome: Outcome) -> Tensor:
    """Return the keypoints of survivors and pastes, [B, K, P, 3] float32.

    Keypoints of pastes move with their layer. A visible keypoint becomes labelled and not visible if its survivor's
    pixel is pasted over, or its paste does not own the pixel; keypoints of pastes outside of the image become
    unlabelled.
    """
    target, out, is_paste = scene.target, outcome.batch, outcome.slot_layer >= 0
    extent = geometry.valid_extent(target)
    pasted = _pasted_keypoints(scene, placement, outcome, extent)
    survives = out.instance_valid & ~is_paste
    own = torch.where(survives[..., None, None], not_none(target.keypoints), 0.0)
    points = torch.where(is_paste[..., None, None], pasted, own)
    pixels = _pixels(points, extent, target.canvas_size[1])
    owns = not_none(out.instance_masks).flatten(2).gather(2, pixels)
    layers = outcome.visible_layer.flatten(1).gather(1, pixels.flatten(1)).view(pixels.shape)
    is_seen = torch.where(is_paste[..., None], owns, (layers < 0) | ~_is_inside(points, extent))
    v = points[..., 2]
    v = torch.where((v == VISIBLE) & ~is_seen, float(HIDDEN), v)
    return torch.cat([points[..., :2], v[..., None]], -1)


def _pasted_keypoints(scene: Scene, placement: Placement, outcome: Outcome, extent: Tensor) -> Tensor:
    """Return the keypoints of the paste in each output slot, [B, K, P, 3]; meaningless in slots without a paste.

    ``extent`` [B, 2] is (width, height) of the targets without padding.
    """
    target, source = scene.target, scene.source
    schema, own = target.keypoint_schema, source.keypoints
    maps = None if own is None or not own.numel() else slot_maps(scene, placement, outcome)
    if schema is None or own is None or maps is None:
        return torch.zeros_like(not_none(target.keypoints))
    given = own[maps.rows, maps.slots].double()
    swapped = torch.stack([given[..., point, :] for point in schema.flip_order], -2)
    given = torch.where(maps.mirrors[..., None, None], swapped, given)
    v = given[..., 2]
    points = torch.cat([maps.placed(given[..., :2]), v[..., None]], -1)
    return torch.where(((v != UNLABELLED) & _is_inside(points, extent))[..., None], points, 0.0).float()


def _is_inside(points: Tensor, extent: Tensor) -> Tensor:
    """Return which points [B, K, P, 3] lie in the image without its padding, edges included, [B, K, P] bool."""
    places = points[..., :2]
    return ((places >= 0) & (places <= extent[:, None, None])).all(-1)


def _pixels(points: Tensor, extent: Tensor, width: int) -> Tensor:
    """Return the pixel [B, K, P] int64, in row-major order, that each point lies in; the last one on the far edges."""
    last = (extent - 1).clamp(min=0)[:, None, None]
    x, y = points[..., :2].floor().long().clamp(min=0).minimum(last).unbind(-1)
    return y * width + x


RULES: Mapping[str, Callable[[Scene, Placement, Outcome], Tensor]] = {
    "keypoints": keypoints,
    "crowd_mask": crowd_mask,
}


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


class SlotMaps(NamedTuple):
    """Source and map of the paste in each output slot; meaningless in slots without a paste.

    Attributes:
        rows: [B, K] int64, row of the source.
        slots: [B, K] int64, slot of the source.
        hflip: [B, K] bool.
        extent: [B, K, 2] float64, (width, height) of the source without padding, after its axes are swapped.
        scale_num, scale_den, translate: [B, K, 2] float64, for x and y.
        vflip, swap_axes: [B, K] bool; None if the scene is upright.
    """

    rows: Tensor
    slots: Tensor
    hflip: Tensor
    extent: Tensor
    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    vflip: Tensor | None = None
    swap_axes: Tensor | None = None

    @property
    def mirrors(self) -> Tensor:
        """Pastes that exchange left and right, [B, K] bool."""
        if self.vflip is None or self.swap_axes is None:
            return self.hflip
        return Orientation(self.hflip, self.vflip, self.swap_axes).mirrors

    def placed(self, points: Tensor) -> Tensor:
        """Return where points (x, y) of the source, [B, K, N, 2] float64, are in the target."""
        (x, y), (width, height) = points.unbind(-1), self.extent[:, :, None].unbind(-1)
        if self.swap_axes is not None:
            swaps = self.swap_axes[..., None]
            x, y = torch.where(swaps, y, x), torch.where(swaps, x, y)
        x = torch.where(self.hflip[..., None], width - x, x)
        if self.vflip is not None:
            y = torch.where(self.vflip[..., None], height - y, y)
        points = torch.stack([x, y], -1)
        return points * self.scale_num[:, :, None] / self.scale_den[:, :, None] + self.translate[:, :, None]


def slot_maps(scene: Scene, placement: Placement, outcome: Outcome) -> SlotMaps | None:
    """Return the maps of the pastes in the output slots; None if the source has no slot, or there is no layer."""
    source = scene.source
    if not source.labels.numel() or not placement.source_idx.numel():
        return None
    extent = geometry.valid_extent(source)[placement.source_idx]
    if not scene.upright:
        extent = geometry.oriented_extent(extent, placement.swap_axes)
    flags = placement.orientation[: 1 if scene.upright else None]
    ones = (values[..., None] for values in (placement.source_idx, *flags))
    of_layers = torch.cat([placement.scale_num, placement.scale_den, placement.translate, extent, *ones], -1)
    found = of_layers.gather(1, outcome.slot_layer.clamp(min=0)[..., None].expand(-1, -1, of_layers.shape[-1]))
    values, slots = found.double(), outcome.slot_source.clamp(0, source.max_instances - 1)
    num, den, translate, extent = (values[..., i : i + 2] for i in range(0, 8, 2))
    hflip, *others = (found[..., 9:] > 0).unbind(-1)
    return SlotMaps(found[..., 8], slots, hflip, extent, num, den, translate, *others)
