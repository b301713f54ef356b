"""Fields that no backend writes: they are computed from the outcome of any backend, in a few small tensor operations.

`RULES` has one function for each field that the field table calls ``derived``. They run after `Engine.compose`, on any
device, in eager and in compiled code, and give the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from segpaste.engine.given_boxes import output_boxes
from segpaste.engine.planes import write_back
from segpaste.engine.reference import geometry
from segpaste.engine.schema import Outcome, Placement, Scene
from segpaste.engine.slot_maps import slot_maps
from segpaste.types import FIELDS
from segpaste.types.check import not_none
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE

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
    given = torch.where(maps.hflip[..., None, None], swapped, given)
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
