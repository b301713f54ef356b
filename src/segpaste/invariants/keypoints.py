"""Checks of keypoints and crowds: points move with their object, and pasted-over points and crowds are not visible."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.invariants._layers import valid_extent
from segpaste.invariants.case import Case, invariant
from segpaste.invariants.violation import Violation, found
from segpaste.types.check import not_none
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE

_ROUNDING = 1e-3
"""Maximum rounding error of a float32 coordinate, pixels."""


@invariant(fields=("keypoints", "instance_masks"))
def keypoints_visible_only_on_own_pixels(case: Case) -> list[Violation]:
    """Check that a visible point of a paste lies on a pixel of its own, one of a survivor on a pixel without paste.

    Survivors keep everything else of their points. The points of a paste are at their place in the layer, swapped if
    the layer is flipped, and unlabelled outside of the image.
    """
    name, after = "keypoints_visible_only_on_own_pixels", case.after
    points = not_none(after.keypoints)
    owned = _at(points, not_none(after.instance_masks), case)
    is_paste = case.is_paste[..., None]
    wrong = (points[..., 2] == VISIBLE) & torch.where(is_paste, ~owned, _is_covered(points, case))
    text = "visible points on pixels of their own", "another at one of {points}"
    violations = found(name, wrong.any(2), *text, points=points)
    expected = _survivors(case)
    moved = case.kept[..., None] & (points[:, : expected.shape[1]] != expected).any(3)
    text = "the points of a survivor, {want}", "{points}"
    violations += found(name, moved.any(2), *text, want=expected, points=points[:, : expected.shape[1]])
    expected = _pastes(case)
    far = (points[..., :2] - expected[..., :2]).abs().amax(3) > _ROUNDING
    far |= (points[..., 2] == UNLABELLED) != (expected[..., 2] == UNLABELLED)
    far |= (points[..., 2] == VISIBLE) != ((expected[..., 2] == VISIBLE) & owned)
    text = "the points of a paste, {want}", "{points}"
    return violations + found(name, (far & is_paste).any(2), *text, want=expected, points=points)


@invariant(fields=("crowd_mask",))
def crowd_never_under_paste(case: Case) -> list[Violation]:
    """Check that a pixel is crowd if and only if it was crowd before and no paste covers it."""
    name = "crowd_never_under_paste"
    before, after = (not_none(batch.crowd_mask)[:, 0] for batch in (case.before, case.after))
    return [
        *found(name, after & case.pasted, "no crowd under a paste", "some"),
        *found(name, (after != before) & ~case.pasted, "crowd as before", "another"),
    ]


def _survivors(case: Case) -> Tensor:
    """Return the points of the target, hidden where a paste covers them, [B, K_t, P, 3]."""
    points = not_none(case.before.keypoints).clone()
    points[..., 2][(points[..., 2] == VISIBLE) & _is_covered(points, case)] = HIDDEN
    return points


def _pastes(case: Case) -> Tensor:
    """Compute the points of pastes by definition, one by one, [B, K, P, 3] float64; v is that of the source."""
    source, report = case.source_batch, case.report
    out = torch.zeros(not_none(case.after.keypoints).shape, dtype=torch.float64, device="cpu")
    if source.keypoints is None or source.keypoint_schema is None:
        return out
    rooms, widths = valid_extent(case.before).tolist(), valid_extent(source)[:, 0].tolist()
    swap = dict(source.keypoint_schema.flip_pairs) | {b: a for a, b in source.keypoint_schema.flip_pairs}
    for b, k in case.is_paste.nonzero().tolist():
        layer = int(report.slot_layer[b, k])
        row, hflip = int(report.placement.source_idx[b, layer]), bool(report.placement.hflip[b, layer])
        width, room = widths[row], rooms[b]
        own = source.keypoints[row, int(report.slot_source[b, k])].tolist()
        for point in range(len(own)):
            x, y, v = own[swap.get(point, point) if hflip else point]
            moved = [width - x if hflip else x, y]
            for axis in range(2):
                num, den = (
                    int(scale[b, layer, axis]) for scale in (report.placement.scale_num, report.placement.scale_den)
                )
                moved[axis] = moved[axis] * num / den + int(report.placement.translate[b, layer, axis])
            if v != UNLABELLED and 0 <= moved[0] <= room[0] and 0 <= moved[1] <= room[1]:
                out[b, k, point] = torch.tensor([*moved, v], dtype=torch.float64, device="cpu")
    return out


def _is_covered(points: Tensor, case: Case) -> Tensor:
    """Return whether each point is in the image, edges included, and on a pasted pixel, [B, K, P] bool."""
    inside = (points[..., :2] >= 0) & (points[..., :2] <= valid_extent(case.before)[:, None, None])
    return inside.all(-1) & _at(points, case.pasted[:, None], case)


def _at(points: Tensor, masks: Tensor, case: Case) -> Tensor:
    """Return the value of masks [B, K or 1, H, W] at the pixel of each point, [B, K, P] bool.

    On the far edges it is that of the last pixel, and outside of the image that of the nearest one.
    """
    last = valid_extent(case.before)[:, None, None] - 1
    x, y = points[..., :2].floor().long().minimum(last).clamp(min=0).unbind(-1)
    return masks.flatten(2).expand(-1, points.shape[1], -1).gather(2, y * masks.shape[-1] + x)
