"""One annotated image after a paste, and the rows of its target: kept ones as they were, pastes last.

This module alone handles hidden objects, crowds and the order of rows for transforms of one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from segpaste.targets.annotated import Annotated, crowd_regions
from segpaste.targets.objects import visible_areas
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.sampling import common_boxes
from segpaste.types.tensors import tight_boxes


class Outcome(NamedTuple):
    """Image after a paste: first the visible annotations of the input, in their order, then pastes.

    Attributes:
        image: [C, H, W].
        boxes: float32 [M, 4] xyxy.
        labels: int64 [M].
        masks: bool [M, H, W], or None.
        rows: row of each annotation in the input, int64 [M]; -1 for a paste.
        keypoints: float32 [M, P, 3], or None.
        set_value: value for the returned masks where ``masks`` is True.
    """

    image: Tensor
    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    rows: Tensor
    keypoints: Tensor | None
    set_value: int = 1

    @property
    def areas(self) -> Tensor:
        """Number of pixels of each mask, or area of the box without masks, float32 [M]."""
        return visible_areas(self.boxes, self.masks)


def outcome_of(given: Annotated, batch: PaddedBatchedDenseSample, is_paste: Tensor, *, mask_value: int = 1) -> Outcome:
    """Return the annotations of an image after a paste.

    Args:
        given: image before the paste.
        batch: pasted batch of this image alone, K slots, made by `sample_of`.
        is_paste: True for slots with a paste, bool [K].
        mask_value: value of objects for masks without a ``set_value``.
    """
    valid = batch.instance_valid[0]
    own, pasted = ((valid & which).nonzero()[:, 0] for which in (~is_paste, is_paste))
    slots, masks, points = torch.cat([own, pasted]), batch.instance_masks, batch.keypoints
    found = Outcome(
        image=batch.images[0],
        boxes=batch.boxes[0, slots],
        labels=batch.labels[0, slots],
        masks=None if masks is None else _in_slots(masks[0], slots),
        rows=torch.cat([(~given.is_crowd).nonzero()[:, 0][own], torch.full_like(pasted, -1)]),
        keypoints=None if given.keypoints is None else not_none(points)[0, slots],
        set_value=mask_value if given.set_value is None else given.set_value,
    )
    return found if batch.crowd_mask is None else _with_crowds(found, given, batch.crowd_mask[0])


def _in_slots(masks: Tensor, slots: Tensor) -> Tensor:
    """Return the masks in these slots of [K, H, W]: without a copy if they are all of them, in their order."""
    are_all = slots.tolist() == list(range(len(masks)))
    return masks if are_all else masks[slots]


def _with_crowds(found: Outcome, given: Annotated, crowd_mask: Tensor) -> Outcome:
    """Return an outcome with the crowds that have a pixel left, at their places among the annotations."""
    crowds, regions, boxes = _crowds_left(given, crowd_mask)
    if not len(crowds):
        return found
    masks, points, rows = found.masks, found.keypoints, torch.cat([found.rows, crowds])
    joined_up = found._replace(
        boxes=torch.cat([found.boxes, boxes]),
        labels=torch.cat([found.labels, given.labels[crowds]]),
        masks=None if masks is None else torch.cat([masks, regions]),
        rows=rows,
        keypoints=None if points is None else torch.cat([points, not_none(given.keypoints)[crowds]]),
    )
    return _in_order(joined_up, torch.where(rows < 0, len(given.labels), rows))


def _in_order(found: Outcome, keys: Tensor) -> Outcome:
    """Return an outcome sorted by one key for each annotation; annotations with equal keys keep their order."""
    order = keys.argsort(stable=True)
    listed = ("boxes", "labels", "masks", "rows", "keypoints")
    fields = {name: value[order] for name in listed if (value := getattr(found, name)) is not None}
    return found._replace(**fields)


def _crowds_left(given: Annotated, crowd_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows [M], regions [M, H, W] and boxes [M, 4] of the crowds that have a pixel left after the paste.

    Without masks, a crowd that no paste overlaps keeps its box, and another one its part around the visible pixels.
    """
    rows, whole = given.is_crowd.nonzero()[:, 0], crowd_regions(given)
    regions = whole & crowd_mask
    boxes, own = tight_boxes(regions), given.boxes[rows]
    if given.masks is None:
        is_cut = (regions != whole).flatten(1).any(1, keepdim=True)
        boxes = torch.where(is_cut, common_boxes(own, boxes), own)
    seen = regions.flatten(1).any(1)
    return rows[seen], regions[seen], boxes[seen]


def with_given_rows(given: Tensor, before: Tensor, found: Outcome, boxes: Tensor) -> Tensor:
    """Return boxes in the format of a target, [M, 4], in which unchanged boxes are those of the target, bit for bit.

    Args:
        given: boxes of the target in its format, [N, 4].
        before: the same boxes in pixels, xyxy.
        found: the annotations after the paste.
        boxes: boxes of ``found`` in the format of the target.
    """
    if not len(given):
        return boxes
    rows = found.rows.clamp(min=0)
    same = (found.rows >= 0) & (found.boxes == before[rows]).all(1)
    return torch.where(same[:, None], given[rows].to(boxes.dtype), boxes)


def joined(given: Any, rows: Tensor, pasted: Sequence[Any]) -> Any:
    """Return the entries of a field for the kept rows, followed by those of the pastes, with the type of the field.

    Args:
        given: entries of the rows of the input: a tensor, an array, a list or a tuple.
        rows: kept rows, int64 [M], then -1 for each paste.
        pasted: entry of each paste.
    """
    kept = rows[rows >= 0].tolist()
    if isinstance(given, Tensor):
        added = torch.tensor(pasted, dtype=given.dtype, device=given.device)
        return torch.cat([given[kept], added.view(len(pasted), *given.shape[1:])])
    if isinstance(given, np.ndarray):
        texts = bool(pasted) and isinstance(pasted[0], str)  # of any length, even if the array has shorter ones
        return (
            np.concatenate([given[kept], np.asarray(pasted, None if texts else given.dtype)]) if pasted else given[kept]
        )
    return type(given)([*(given[row] for row in kept), *pasted])


def in_form_of(given: Any, values: Tensor) -> Any:
    """Return values with the type and dtype of the given ones: a tensor, an array, a list or a tuple."""
    if isinstance(given, Tensor):
        return values.to(given.device, given.dtype)
    if isinstance(given, np.ndarray):
        return values.numpy().astype(given.dtype)
    return type(given)(values.tolist())
