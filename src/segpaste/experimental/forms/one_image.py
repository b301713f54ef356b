"""One annotated image, independent of frameworks: conversion to a sample, and back after a paste.

The forms of one sample (`detection`, `albumentations`) are read into `Annotated` and written from an `Outcome`. This
module alone handles crowds, hidden objects and the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types import CrowdMask, DenseSample, KeypointSchema, PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.sampling import box_masks, common_boxes
from segpaste.types.tensors import tight_boxes

KEPT = ("image_id", "orig_size", "size", "file_name")
"""Entries about the image as a whole, which a paste leaves valid."""


class Annotated(NamedTuple):
    """Image and its N annotations.

    Attributes:
        image: uint8 or float32 [C, H, W].
        boxes: float32 [N, 4] xyxy, continuous pixel edges; read only if there are no masks.
        labels: int64 [N].
        masks: bool [N, H, W], or None.
        is_crowd: True for regions of several objects, bool [N].
        keypoints: (x, y, v) of each keypoint, float32 [N, P, 3], or None.
        set_value: value in the given masks where ``masks`` is True, 1 or 255; None if ``masks`` is False everywhere.
    """

    image: Tensor
    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    is_crowd: Tensor
    keypoints: Tensor | None = None
    set_value: int | None = None


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
        if self.masks is not None:
            return self.masks.flatten(1).sum(1, dtype=torch.float32)
        return (self.boxes[:, 2:] - self.boxes[:, :2]).prod(1)


def to_sample(given: Annotated, schema: KeypointSchema | None, *, from_boxes: bool) -> DenseSample:
    """Return the sample of an annotated image; crowds become its crowd mask, the others its instances.

    Args:
        given: annotated image.
        schema: names of its keypoints, if it has any.
        from_boxes: use boxes for objects without masks.

    Raises:
        ValueError: there are objects without masks, and ``from_boxes`` is False.
    """
    if given.masks is None and not from_boxes:
        raise ValueError(
            f"CopyPaste: expected masks for {len(given.boxes)} boxes, got none; give those of the dataset (target_keys "
            "of wrap_dataset_for_transforms_v2 names them), or set source.mask_from='boxes' in the config"
        )
    size = given.image.shape[-2], given.image.shape[-1]
    objects, fields = ~given.is_crowd, dict[str, Any]()
    if bool(given.is_crowd.any()):
        fields["crowd_mask"] = CrowdMask(_regions(given, size).any(0, keepdim=True))
    if given.keypoints is not None:
        fields |= {"keypoints": given.keypoints[objects], "keypoint_schema": schema}
    if given.masks is not None:
        return DenseSample.from_masks(given.image, given.masks[objects], given.labels[objects], **fields)
    boxes = tv_tensors.BoundingBoxes(given.boxes[objects], format="XYXY", canvas_size=size, device=given.boxes.device)
    return DenseSample(tv_tensors.Image(given.image, device=given.image.device), boxes, given.labels[objects], **fields)


def outcome_of(given: Annotated, batch: PaddedBatchedDenseSample, is_paste: Tensor, *, mask_value: int = 1) -> Outcome:
    """Return the annotations of an image after a paste.

    Args:
        given: image before the paste.
        batch: pasted batch of this image alone, K slots, made by `to_sample`.
        is_paste: True for slots with a paste, bool [K].
        mask_value: value of objects for masks without a ``set_value``.
    """
    valid = batch.instance_valid[0]
    own, pasted = ((valid & which).nonzero()[:, 0] for which in (~is_paste, is_paste))
    crowds, regions, crowd_boxes = _crowds_left(given, batch)
    slots, masks, points = torch.cat([own, pasted]), batch.instance_masks, given.keypoints
    rows = torch.cat([(~given.is_crowd).nonzero()[:, 0][own], torch.full_like(pasted, -1), crowds])
    found = Outcome(
        image=batch.images[0],
        boxes=torch.cat([batch.boxes[0, slots], crowd_boxes]),
        labels=torch.cat([batch.labels[0, slots], given.labels[crowds]]),
        masks=None if masks is None else torch.cat([masks[0, slots], regions]),
        rows=rows,
        keypoints=None if points is None else torch.cat([not_none(batch.keypoints)[0, slots], points[crowds]]),
        set_value=mask_value if given.set_value is None else given.set_value,
    )
    return found if not len(crowds) else _in_order(found, torch.where(rows < 0, len(given.labels), rows))


def _in_order(found: Outcome, keys: Tensor) -> Outcome:
    """Return an outcome sorted by one key for each annotation; annotations with equal keys keep their order."""
    order = keys.argsort(stable=True)
    listed = ("boxes", "labels", "masks", "rows", "keypoints")
    fields = {name: value[order] for name in listed if (value := getattr(found, name)) is not None}
    return found._replace(**fields)


def _regions(given: Annotated, size: tuple[int, int]) -> Tensor:
    """Return the masks of the crowds, or their filled boxes, rounded outwards, [M, H, W] bool."""
    if given.masks is not None:
        return given.masks[given.is_crowd]
    return box_masks(given.boxes[given.is_crowd], size)


def _crowds_left(given: Annotated, batch: PaddedBatchedDenseSample) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows [M], regions [M, H, W] and boxes [M, 4] of the crowds that have a pixel left after the paste.

    Without masks, a crowd that no paste overlaps keeps its box, and another one its part around the visible pixels.
    """
    rows = given.is_crowd.nonzero()[:, 0]
    if batch.crowd_mask is None:
        empty = torch.zeros(0, *batch.canvas_size, dtype=torch.bool, device=batch.device)
        return rows[:0], empty, given.boxes[:0]
    whole = _regions(given, batch.canvas_size)
    regions = whole & batch.crowd_mask[0]
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


def expect_labels(name: str, labels: Sequence[Any] | Tensor | None, *, texts: bool) -> None:
    """Check that all labels are of the kind of the pastes: texts, or numbers.

    Raises:
        ValueError: a label is of the other kind; the message has the field and the label.
    """
    if labels is None or (isinstance(labels, Tensor) and not texts):
        return
    others = [label for label in labels if isinstance(label, str | bytes) != texts]
    if others and texts:
        raise ValueError(
            f"CopyPaste: expected texts in {name!r}, because label_map has texts for the classes of the bank, got "
            f"{others[0]!r:.40}; give the number of each class in label_map"
        )
    if others:
        raise ValueError(
            f"CopyPaste: expected numbers in {name!r}, because label_map has numbers for the classes of the bank, got "
            f"{others[0]!r:.40}; give the text of each class in label_map, such as bank.class_names"
        )


def in_form_of(given: Any, values: Tensor) -> Any:
    """Return values with the type and dtype of the given ones: a tensor, an array, a list or a tuple."""
    if isinstance(given, Tensor):
        return values.to(given.device, given.dtype)
    if isinstance(given, np.ndarray):
        return values.numpy().astype(given.dtype)
    return type(given)(values.tolist())


def check_others(entries: Mapping[str, Any], read: Sequence[str], keep: Sequence[str]) -> None:
    """Check that every entry of a target that is not read refers to the image as a whole.

    Texts, numbers and tensors without dimensions do. Longer values may have an entry for each object, which a paste
    would make invalid.

    Raises:
        ValueError: an entry does not; the message has its name.
    """
    for name, value in entries.items():
        if name in read or name in keep or name in KEPT:
            continue
        if value is None or isinstance(value, str | bytes | int | float | np.generic):
            continue
        if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
            continue
        raise ValueError(
            f"CopyPaste: expected only {', '.join(read)}, texts and numbers in a target, got {name!r}, a "
            f"{type(value).__name__}; give keep=({name!r},) if it stays valid after a paste, else drop=({name!r},)"
        )
