"""Rules for a single batch, an input as well as an output.

Containers make only cheap checks at construction; these checks read every pixel, on any device. Run them on the batches
of a new dataset before you look for errors in an augmentation.
"""

from __future__ import annotations

import torch

from segpaste.invariants._layers import finite_depth
from segpaste.invariants.case import InvariantError, Violation, found
from segpaste.invariants.instance import mask_boxes
from segpaste.invariants.maps import not_bijective, thing_stuff_inconsistent
from segpaste.invariants.surfaces import not_unit
from segpaste.types import FIELDS, PaddedBatchedDenseSample, PanopticSchema
from segpaste.types.check import not_none


def batch_violations(
    batch: PaddedBatchedDenseSample, *, schema: PanopticSchema | None = None, tight_boxes: bool = False
) -> list[Violation]:
    """Return all violations of the rules for a batch.

    Invalid rows are all zero; the bytes of bool tensors are 0 or 1, which ``uint8.view(torch.bool)`` does not ensure;
    boxes are ordered and enclose their masks; ids are positive and unique in their image; every pixel with a panoptic
    id lies in the mask of that id alone; things have ids and stuff has none; normals are of unit length, or zero; valid
    depth is finite.

    Args:
        batch: batch to check.
        schema: things and stuff; without it the classes of panoptic batches are not checked.
        tight_boxes: require boxes that fit their masks exactly, as in outputs.

    Returns:
        At most one violation for each image and rule.
    """
    violations = [*_filled_invalid_rows(batch), *_bad_bytes(batch), *_bad_boxes(batch, tight_boxes)]
    if batch.instance_ids is not None:
        violations += _bad_ids(batch)
    if batch.panoptic_maps is not None and batch.instance_masks is not None:
        violations += not_bijective(batch)
    if batch.panoptic_maps is not None and schema is not None:
        violations += thing_stuff_inconsistent(batch, schema)
    if batch.normals is not None:
        violations += not_unit("normals_unit_norm", batch)
    if batch.depth is not None and batch.depth_valid is not None:
        wrong = batch.depth_valid[:, 0] & ~finite_depth(batch)
        text = "a finite depth > 0 where it is valid", "{depth}"
        violations += found("depth_finite_where_valid", wrong, *text, depth=batch.depth[:, 0])
    return violations


def check_batch(
    batch: PaddedBatchedDenseSample, *, schema: PanopticSchema | None = None, tight_boxes: bool = False
) -> None:
    """Raise if `batch_violations`, with the same arguments, finds a violation.

    Raises:
        InvariantError: there are violations; the message has each rule and image.
    """
    if violations := batch_violations(batch, schema=schema, tight_boxes=tight_boxes):
        raise InvariantError(violations)


def _filled_invalid_rows(batch: PaddedBatchedDenseSample) -> list[Violation]:
    violations = []
    for field in FIELDS:
        value: torch.Tensor | None = getattr(batch, field.batched_name)
        if field.layout == "instance" and value is not None:
            filled = ~batch.instance_valid & (value != 0)[..., None].flatten(2).any(2)
            text = f"{field.batched_name} all zero in a row that is not valid", "other values"
            violations += found("invalid_rows_zero", filled, *text)
    return violations


def _bad_bytes(batch: PaddedBatchedDenseSample) -> list[Violation]:
    violations = []
    for field in FIELDS:
        value: torch.Tensor | None = getattr(batch, field.batched_name)
        if value is not None and value.dtype == torch.bool:
            wrong = (value.view(torch.uint8) > 1).flatten(1).any(1)
            text = f"bytes of 0 and 1 in the bool tensor {field.batched_name}", "others; convert it with `!= 0`"
            violations += found("bool_bytes", wrong, *text)
    return violations


def _bad_boxes(batch: PaddedBatchedDenseSample, tight: bool) -> list[Violation]:
    boxes = batch.boxes
    inside_out = (boxes[..., 2:] < boxes[..., :2]).any(-1) | boxes.isnan().any(-1)
    violations = found("boxes_ordered", inside_out, "x1 <= x2 and y1 <= y2", "box {box}", box=boxes)
    if batch.instance_masks is None:
        return violations
    fitting = mask_boxes(batch.instance_masks)
    values = {"box": boxes, "fitting": fitting}
    if tight:
        wrong = batch.instance_valid & (boxes != fitting).any(-1)
        return violations + found("boxes_fit_masks", wrong, "the box of the mask, {fitting}", "{box}", **values)
    cut = ((boxes[..., :2] > fitting[..., :2]) | (boxes[..., 2:] < fitting[..., 2:])).any(-1)
    cut &= (fitting[..., 2:] > fitting[..., :2]).all(-1)
    return violations + found("boxes_enclose_masks", cut, "a box around the mask's {fitting}", "{box}", **values)


def _bad_ids(batch: PaddedBatchedDenseSample) -> list[Violation]:
    ids, valid = not_none(batch.instance_ids), batch.instance_valid
    pairs = (ids[:, :, None] == ids[:, None]) & valid[:, :, None] & valid[:, None]
    repeated = torch.tril(pairs, diagonal=-1).any(2)
    return [
        *found("instance_ids_positive", valid & (ids <= 0), "an id > 0", "{id}", id=ids),
        *found("instance_ids_unique", repeated, "an id of its own", "{id} a second time", id=ids),
    ]
