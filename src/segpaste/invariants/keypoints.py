"""What holds for keypoints and crowds: points move with their object, and nobody sees what is pasted over."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.invariants.case import Case, invariant
from segpaste.invariants.violation import Violation, found
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE

_ROUNDING = 1e-3
"""Pixels that a coordinate in float32 may be off."""


@invariant(fields=("keypoints", "instance_masks"))
def keypoints_visible_only_on_own_pixels(case: Case) -> list[Violation]:
    """Check that a visible point of a paste lies on a pixel of its own, one of a survivor on a pixel without paste.

    Survivors keep all else of their points. Those of pastes are where their layer has put them, swapped if it is
    mirrored, and unlabelled outside of the picture.

    Args:
        case: one forward, with keypoints and instance masks.

    Returns:
        At most one violation for each image and each of the three.
    """
    name, after = "keypoints_visible_only_on_own_pixels", case.after
    points = _keypoints(after.keypoints)
    row, pixel = torch.arange(len(points))[:, None, None], _pixels(points, case.before)
    slot = torch.arange(points.shape[1])[None, :, None]
    assert after.instance_masks is not None
    owned = after.instance_masks[row, slot, pixel[..., 1], pixel[..., 0]]
    pasted = case.pasted[row, pixel[..., 1], pixel[..., 0]] & _is_inside(points, case.before)
    is_paste = case.is_paste[..., None]
    wrong = (points[..., 2] == VISIBLE) & torch.where(is_paste, ~owned, pasted)
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
    """Check that a pixel is crowd where it was and nothing is pasted over it, and nowhere else.

    Args:
        case: one forward, with crowd masks.

    Returns:
        At most one violation for each image and each of the two.
    """
    name = "crowd_never_under_paste"
    assert case.before.crowd_mask is not None
    assert case.after.crowd_mask is not None
    before, after = case.before.crowd_mask[:, 0], case.after.crowd_mask[:, 0]
    return [
        *found(name, after & case.pasted, "no crowd under a paste", "some"),
        *found(name, (after != before) & ~case.pasted, "crowd as before", "another"),
    ]


def _survivors(case: Case) -> Tensor:
    """The points of the target, hidden where something is pasted over them, [B, K_t, P, 3]."""
    points = _keypoints(case.before.keypoints).clone()
    row, pixel = torch.arange(len(points))[:, None, None], _pixels(points, case.before)
    covered = case.pasted[row, pixel[..., 1], pixel[..., 0]] & _is_inside(points, case.before)
    points[..., 2][(points[..., 2] == VISIBLE) & covered] = HIDDEN
    return points


def _pastes(case: Case) -> Tensor:
    """The points of pastes by their definition, one after the other, [B, K, P, 3] float64; v is the source's."""
    source, report = case.source_batch, case.report
    out = torch.zeros(_keypoints(case.after.keypoints).shape, dtype=torch.float64)
    if source.keypoints is None or source.keypoint_schema is None:
        return out
    swap = dict(source.keypoint_schema.flip_pairs) | {b: a for a, b in source.keypoint_schema.flip_pairs}
    for b, k in case.is_paste.nonzero().tolist():
        layer = int(report.slot_layer[b, k])
        row, hflip = int(report.placement.source_idx[b, layer]), bool(report.placement.hflip[b, layer])
        width, _ = _room(source.padding_mask, row, source.canvas_size)
        room = _room(case.before.padding_mask, b, case.before.canvas_size)
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
                out[b, k, point] = torch.tensor([*moved, v], dtype=torch.float64)
    return out


def _room(padding: Tensor | None, row: int, canvas_size: tuple[int, int]) -> tuple[int, int]:
    """(width, height) of a picture without its padding."""
    if padding is None:
        return canvas_size[1], canvas_size[0]
    picture = ~padding[row, 0]
    return _reach(picture.any(0)), _reach(picture.any(1))


def _reach(lines: Tensor) -> int:
    """One more than the place of the last True, 0 where there is none."""
    places = lines.nonzero()
    return int(places.max()) + 1 if len(places) else 0


def _rooms(batch: PaddedBatchedDenseSample) -> Tensor:
    """(width, height) of each image without its padding, [B, 1, 1, 2]."""
    rooms = [_room(batch.padding_mask, row, batch.canvas_size) for row in range(batch.batch_size)]
    return torch.tensor(rooms, dtype=torch.int64).view(-1, 1, 1, 2)


def _is_inside(points: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
    """Which points lie in the image, edges included."""
    return ((points[..., :2] >= 0) & (points[..., :2] <= _rooms(batch))).all(-1)


def _pixels(points: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
    """The pixel (x, y) of each point, int64; that before on the far edges, the nearest one outside of the image."""
    return points[..., :2].floor().long().minimum(_rooms(batch) - 1).clamp(min=0)


def _keypoints(keypoints: Tensor | None) -> Tensor:
    assert keypoints is not None
    return keypoints
