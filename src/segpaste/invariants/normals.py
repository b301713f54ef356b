"""Checks of normals: unit length, and camera frame right-down-forward, flipped with their layer."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.invariants._layers import WEIGHT_STEP, LayerMap
from segpaste.invariants.case import Case, invariant
from segpaste.invariants.violation import Violation, found
from segpaste.types import Modality, PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.sampling import norm3

TOLERANCE = 1e-4
"""Tolerance of the length of a normal, and of its components without interpolation."""

_MIN_NORM = 0.05
"""Minimum length of mixed normals; shorter ones nearly cancel, so that rounded weights decide their direction."""


@invariant(Modality.NORMALS)
def normals_unit_norm_on_valid(case: Case) -> list[Violation]:
    """Check that normals have length 1 where the visible surface has a normal, and are 0 elsewhere.

    This holds for outputs of inputs that satisfy it, see `batch_violations`.
    """
    name = "normals_unit_norm_on_valid"
    violations = not_unit(name, case.after)
    if case.source_batch.normals is None:
        return violations
    nearest = case.seen.nearest(_vectors(case.source_batch))
    lost = case.pasted & (nearest != 0).any(-1) & (_vectors(case.after) == 0).all(-1)
    return violations + found(name, lost, "a normal, for the source has one", "none")


def not_unit(name: str, batch: PaddedBatchedDenseSample) -> list[Violation]:
    """Find normals that are neither of unit length nor 0."""
    length = norm3(not_none(batch.normals).movedim(1, 0))
    wrong = ~(((length - 1).abs() <= TOLERANCE) | (length == 0))
    return found(name, wrong, "a normal of length 1, or 0 where there is none", "length {length}", length=length)


@invariant(Modality.NORMALS)
def normals_camera_frame_convention(case: Case) -> list[Violation]:
    """Check that normals stay in the target's camera frame, right-down-forward: only a flipped layer negates n_x.

    Inside a paste they have the direction of the mixed source normals, up to the rounding of weights; outside they are
    those of the target, bit for bit.
    """
    name, before, after = "normals_camera_frame_convention", _vectors(case.before), _vectors(case.after)
    changed = ~case.pasted & (before != after).any(-1)
    violations = found(name, changed, "the target's normal {before}", "{after}", before=before, after=after)
    if case.source_batch.normals is None:
        return violations
    normals = _vectors(case.source_batch)
    mixed = _mixed(case.seen, normals)
    nearest = case.seen.nearest(normals)
    length = norm3(mixed.movedim(-1, 0))
    certain = case.pasted & (length > _MIN_NORM) & (nearest != 0).any(-1)
    want = mixed / length.clamp(min=_MIN_NORM)[..., None]
    apart = norm3((after - want).movedim(-1, 0))
    wrong = certain & ~(apart <= TOLERANCE + 4 * WEIGHT_STEP / length)
    return violations + found(name, wrong, "the normal {want} of the source", "{after}", want=want, after=after)


def _mixed(layer: LayerMap, normals: Tensor) -> Tensor:
    """Return source normals [S, H_s, W_s, 3] mixed linearly and flipped with the layer, [B, H, W, 3], unnormalised."""
    pairs = zip(layer.taps(normals), layer.weights(), strict=True)
    x, y, z = torch.stack([value * weight[..., None] for value, weight in pairs]).sum(0).unbind(-1)
    return torch.stack([torch.where(layer.hflip, -x, x), y, z], -1)


def _vectors(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return normals with their components last, [B, H, W, 3]."""
    return not_none(batch.normals).movedim(1, -1).contiguous()
