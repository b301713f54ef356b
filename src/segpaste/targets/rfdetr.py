"""Targets of RF-DETR: batches of its loader, a `NestedTensor` and a target per image.

Nothing of RF-DETR is imported: a `NestedTensor` is recognised by its attributes, and copied.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from segpaste.targets.annotated import Annotated, Images, Reading, are_targets, as_given, masks_of, numbers_of
from segpaste.targets.colours import as_fractions, expect_colours, expect_rgb, pixels_of, to_uint8
from segpaste.targets.objects import (
    LabelMap,
    Objects,
    box_areas,
    corners,
    cxcywh,
    extents,
    from_framework,
    normalized_images,
    objects_of,
    padded_batch,
    pixel_mask,
    scaled_points,
    to_framework,
    xyxy,
)
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.tensors import tensor_of

Target = dict[str, Tensor]

_KNOWN = ("boxes", "labels", "area", "iscrowd", "masks", "valid", "image_id", "orig_size", "size")
"""Entries of RF-DETR's targets: those that a paste writes, and those that describe an image."""

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Form(NamedTuple):
    """Meaning of the values of a batch of RF-DETR.

    Attributes:
        normalized: images are normalised by the mean and deviation of ImageNet, and boxes are (centre x, centre y,
            width, height) as fractions of their image; else images are 0..1, and boxes xyxy in pixels.
        label_map: map of our labels to RF-DETR's, see `label_map_of`.
        with_masks: True to keep the masks of the targets.
    """

    normalized: bool = True
    label_map: LabelMap = 0
    with_masks: bool = True


def is_rfdetr(batch: object) -> bool:
    """Return whether a batch is a pair of an object with ``tensors`` and ``mask``, and targets."""
    if not isinstance(batch, list | tuple) or len(batch) != 2 or not hasattr(batch[0], "mask"):
        return False
    images, targets = getattr(batch[0], "tensors", None), batch[1]
    return (
        isinstance(images, Tensor) and isinstance(targets, Iterable) and are_targets(list(targets), "boxes", "labels")
    )


def read(batch: tuple[Any, Iterable[Target]], reading: Reading) -> Images:
    """Return the images of a batch whose boxes and keypoints are fractions of the image, for drawing."""
    samples, targets = batch[0], list(batch[1])
    sizes = _sizes(samples)

    def annotated(b: int) -> Annotated:
        place, image = f"{reading.owner}: targets[{b}]", pixels_of(samples.tensors[b], reading)
        padding = torch.zeros(image.shape[-2:], dtype=torch.bool, device="cpu")
        padding = padding if samples.mask is None else tensor_of(samples.mask[b]).bool()
        given, points = _read(place, image, targets[b], sizes[b], Form()), targets[b].get("keypoints")
        if points is not None:
            points = scaled_points(tensor_of(points)[_holds_object(place, targets[b])], sizes[b])
        return given._replace(padding=padding, keypoints=points)

    return Images(len(targets), lambda b: as_given(annotated(b)))


def from_nested(samples: Any, targets: Sequence[Target], max_instances: int, form: Form) -> PaddedBatchedDenseSample:
    """Return a batch of RF-DETR's loader as a padded batch of uint8 images.

    The minimum and maximum of the images are read to check their range, which waits for their device.

    Args:
        samples: its `NestedTensor`: ``tensors`` [B, 3, H, W] float32; ``mask`` [B, H, W] bool, True in padding, or
            None; images are at the top left.
        targets: B dictionaries: ``boxes`` [N, 4] and ``labels`` [N]; optionally ``masks`` [N, h, w] bool in the size
            of the image without padding; ``iscrowd`` [N], whose objects become the crowd mask; ``valid`` [N] bool,
            False in rows that hold no object.
        max_instances: K; an image with more objects keeps its largest.
        form: meaning of the values.

    Raises:
        ValueError: images or boxes that are not in the form, or a label that is not in the label map.
    """
    expect_rgb("samples", samples.tensors.shape[1])
    colours = as_fractions(samples.tensors, *_normalization(form))
    kind = f"normalised by mean {MEAN} and std {STD}" if form.normalized else "in 0..1"
    remedy = "give the loader's images unchanged, and their Form"
    expect_colours(f"samples, read as images {kind}", [colours], 1.0, remedy=remedy)
    images = to_uint8(colours)
    given = [
        _read(f"targets[{b}]", images[b], target, size, form)
        for b, (target, size) in enumerate(zip(targets, _sizes(samples), strict=True))
    ]
    batch = padded_batch(given, max_instances, form.label_map)
    return batch if _is_unpadded(samples) else batch.derived(padding_mask=samples.mask[:, None])


def _read(place: str, image: Tensor, target: Target, size: tuple[int, int], form: Form) -> Annotated:
    """Return the rows of a target that hold an object, in pixels of the canvas; ``size`` (H, W) is without padding."""
    boxes, masks = tensor_of(target["boxes"]).float(), target.get("masks")
    boxes, num = xyxy(boxes, size, place) if form.normalized else corners(place, boxes), len(boxes)
    if masks is not None:
        below, right = (whole - part for whole, part in zip(image.shape[-2:], masks.shape[1:], strict=True))
        masks = masks_of(place, pad(tensor_of(masks), (0, right, 0, below)), num, image.shape[-2:], image)
    labels = numbers_of(place, target, "labels", num)
    is_crowd = numbers_of(place, target, "iscrowd", num, torch.zeros_like(labels)).bool()
    there = _holds_object(place, target)
    return Annotated(image, boxes[there], labels[there], None if masks is None else masks[there], is_crowd[there])


def _holds_object(place: str, target: Target) -> Tensor:
    """Return which rows of a target hold an object, [N] bool; ``valid`` marks those that only fill it."""
    labels = tensor_of(target["labels"])
    return numbers_of(place, target, "valid", len(labels), torch.ones_like(labels)).bool()


def _normalization(form: Form) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the standard deviation of each channel."""
    return (MEAN, STD) if form.normalized else ((0.0,) * 3, (1.0,) * 3)


def _sizes(samples: Any) -> list[tuple[int, int]]:
    """Return (height, width) of each image of a batch without its padding."""
    batch_size, _, height, width = samples.tensors.shape
    return [(height, width)] * batch_size if _is_unpadded(samples) else extents(~samples.mask.bool())


def _is_unpadded(samples: Any) -> bool:
    """Return whether no image has padding, as far as is known without reading the mask."""
    return samples.mask is None or getattr(samples, "no_padding", False)


def to_nested(
    batch: PaddedBatchedDenseSample, samples: Any, targets: Sequence[Target], form: Form
) -> tuple[Any, list[Target]]:
    """Return the batch of RF-DETR's loader after a paste: the inverse of `from_nested`.

    Args:
        batch: the pasted batch.
        samples: the loader's images; pixels that the paste does not change keep their values.
        targets: the loader's targets, for entries that a paste does not change.
        form: meaning of the values.

    Returns:
        The images, and B dictionaries with the keys of ``targets``: ``boxes``, ``labels``, ``area``, ``iscrowd`` (0),
        and ``masks`` if ``form.with_masks``. An object whose mask does not change keeps its box and its area; those of
        others are computed from their masks. Targets with ``valid`` keep their number of rows. Other entries with a row
        for each object are left out, with a warning that names them; entries of an image stay.

    Raises:
        ValueError: the paste has changed the size of the images.
    """
    if batch.images.shape != samples.tensors.shape:
        shapes = [list(images.shape) for images in (samples.tensors, batch.images)]
        raise ValueError(f"augment: expected images of the shape {shapes[0]}, as before the paste, got {shapes[1]}")
    targets = _without_stale_rows(targets)
    changed = (batch.images != to_uint8(as_fractions(samples.tensors, *_normalization(form)))).any(1, keepdim=True)
    pasted = copy.copy(samples)
    values = normalized_images(batch, *_normalization(form)).to(samples.tensors.dtype)
    pasted.tensors = torch.where(changed, values, samples.tensors)
    rows = []
    for b, (found, target, size) in enumerate(zip(objects_of(batch), targets, _sizes(samples), strict=True)):
        before = _before(batch.images[b], target, size, form)
        ids = batch.labels.new_zeros(0) if batch.instance_ids is None else batch.instance_ids[b, found.slots].long()
        rows.append(_target(found, target, size, form, *_whole(found, ids, before)))
    return pasted, rows


def _before(image: Tensor, target: Target, size: tuple[int, int], form: Form) -> Objects:
    """Return the objects of a target before the paste, with its rows as slots."""
    given = _read("targets", image, target, size, form)
    keep, masks = ~given.is_crowd, given.masks
    labels = from_framework(given.labels[keep], form.label_map)
    rows = _holds_object("targets", target).nonzero()[:, 0][keep]
    return Objects(given.boxes[keep], labels, None if masks is None else masks[keep], rows)


def _without_stale_rows(targets: Sequence[Target]) -> Sequence[Target]:
    """Return targets without entries that have a row for each object, except those that a paste writes."""
    names = {name for target in targets for name in target if name not in _KNOWN}
    stale = [name for name in sorted(names) if all(_has_rows(target, name) for target in targets)]
    if stale:
        warnings.warn(
            f"targets: left out {', '.join(map(repr, stale))}, in this and in later batches: each has a row for each "
            "object of the loader, and a paste changes the objects",
            stacklevel=3,
        )
    return [{name: value for name, value in target.items() if name not in stale} for target in targets]


def _has_rows(target: Target, name: str) -> bool:
    """Return whether an entry has as many rows as the target has objects."""
    value = target.get(name)
    has_length = isinstance(value, list | tuple) or (isinstance(value, Tensor) and value.ndim > 0)
    return value is None or (has_length and len(value) == len(target["labels"]))


def _whole(found: Objects, ids: Tensor, before: Objects) -> tuple[Tensor, Tensor]:
    """Return which objects have not changed, [N] bool, and the row of each in its target, [N].

    With masks these are the objects with the same mask, without masks those with the box and the label of a row.

    Args:
        found: the objects after the paste.
        ids: [N] int64, their ids; i + 1 was given to the i-th object before the paste.
        before: the objects before the paste, with rows of the target as ``slots``.
    """
    if not len(before.slots):
        return torch.zeros_like(found.labels, dtype=torch.bool), torch.zeros_like(found.labels)
    if found.masks is None or before.masks is None:
        same = (found.boxes[:, None] == before.boxes).all(2) & (found.labels[:, None] == before.labels)
        return same.any(1), before.slots[same.to(torch.uint8).argmax(1)]
    known = (ids >= 1) & (ids <= len(before.slots))
    which = torch.where(known, ids - 1, 0)
    return known & (found.masks == before.masks[which]).flatten(1).all(1), before.slots[which]


def _target(found: Objects, like: Target, size: tuple[int, int], form: Form, is_whole: Tensor, rows: Tensor) -> Target:
    """Return the target of an image with these objects; those that are whole keep the box and the area of their row."""
    height, width = size
    boxes = cxcywh(found.boxes, size) if form.normalized else found.boxes
    area = box_areas(found.boxes)
    target = {name: value for name, value in like.items() if name not in ("masks", "valid")}
    if "masks" in like and found.masks is not None:
        area = found.areas
        if form.with_masks:
            target["masks"] = found.masks[:, :height, :width]
    if len(like["labels"]):
        boxes = torch.where(is_whole[:, None], like["boxes"][rows], boxes)
        area = torch.where(is_whole, like["area"][rows], area) if "area" in like else area
    labels = to_framework(found.labels, form.label_map)
    target |= {"boxes": boxes, "labels": labels, "area": area, "iscrowd": torch.zeros_like(labels)}
    return _filled(target, like["valid"]) if "valid" in like else target


def _filled(target: Target, valid: Tensor) -> Target:
    """Return a target filled up with rows of zeros to the length of ``valid``, with a new ``valid``."""
    num, rows = len(target["labels"]), len(valid)
    filled = {name: target[name] for name in target}
    for name in ("boxes", "labels", "area", "iscrowd", "masks"):
        if name in target:
            filled[name] = torch.cat([target[name], target[name].new_zeros(rows - num, *target[name].shape[1:])])
    return {**filled, "valid": torch.arange(rows, device=valid.device) < num}


def write(batch: PaddedBatchedDenseSample, *, form: Form | None = None) -> tuple[Any, list[Target]]:
    """Return a batch as `to_nested` does, with no batch of a loader before it; ``form`` is `Form` by default."""
    form = Form() if form is None else form
    samples = SimpleNamespace(tensors=normalized_images(batch, *_normalization(form)), mask=pixel_mask(batch) == 0)
    empty: Target = {"boxes": batch.boxes.new_zeros(0, 4), "labels": batch.labels.new_zeros(0)}
    if batch.instance_masks is not None:
        empty["masks"] = batch.instance_masks.new_zeros(0, *batch.canvas_size)
    _, targets = to_nested(batch, samples, [empty] * batch.batch_size, form)
    return samples, targets
