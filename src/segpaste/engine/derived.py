"""Fields that no backend writes: they are computed from the outcome of any backend, in a few small tensor operations.

`RULES` has one function for each field that the field table calls ``derived``. They run after `Engine.compose`, on any
device, in eager and in compiled code, and give the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from segpaste.engine.planes import write_back
from segpaste.engine.records import Outcome, Placement, Scene
from segpaste.engine.reference import geometry
from segpaste.types import FIELDS, PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE

DERIVED = tuple(field.batched_name for field in FIELDS if field.paste == "derived")
"""Fields that a paste changes and no backend writes."""


def needs_layer(batch: PaddedBatchedDenseSample) -> bool:
    """Return whether a batch has a field that is computed from ``Outcome.visible_layer``."""
    return any(getattr(batch, name) is not None for name in DERIVED)


def with_derived(scene: Scene, placement: Placement, outcome: Outcome, in_place: bool) -> Outcome:
    """Return an outcome with updated derived fields.

    Args:
        scene: the composed scene; in place its derived fields are still those of the target.
        placement: the maps of its layers.
        outcome: outcome with ``visible_layer``.
        in_place: write into the tensors of the target.
    """
    present = [name for name in DERIVED if getattr(scene.target, name) is not None]
    if not present:
        return outcome
    batch = outcome.batch.derived(**{name: RULES[name](scene, placement, outcome) for name in present})
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

    An edge X of the source is at ``X * num / den + translate``, in float64. A division stands between product and sum,
    so no compiler fuses them, and every device gives the same bits. ``extent`` [B, 2] is (width, height) of the targets
    without padding.
    """
    target, source = scene.target, scene.source
    schema = target.keypoint_schema
    if schema is None or source.keypoints is None or not source.keypoints.numel() or not placement.source_idx.numel():
        return torch.zeros_like(not_none(target.keypoints))
    layer, slot = outcome.slot_layer.clamp(min=0), outcome.slot_source.clamp(0, source.max_instances - 1)
    rows = placement.source_idx.gather(1, layer)
    x, y, v = source.keypoints[rows, slot].double().unbind(-1)
    order = schema.flip_order
    flips = placement.hflip.gather(1, layer)[..., None]
    room = geometry.valid_extent(source)[rows]
    mirrored = [torch.stack([value[..., point] for point in order], -1) for value in (room[..., :1] - x, y, v)]
    x, y, v = (torch.where(flips, one, other) for one, other in zip(mirrored, (x, y, v), strict=True))
    num, den, offset = (
        value.gather(1, layer[..., None].expand(-1, -1, 2)).double()[:, :, None]
        for value in (placement.scale_num, placement.scale_den, placement.translate)
    )
    x, y = (c * num[..., i] / den[..., i] + offset[..., i] for i, c in enumerate((x, y)))
    points = torch.stack([x, y, v], -1)
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
