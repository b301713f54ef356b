"""Inputs of a paste: survey of a batch, its extension, and crops of a bank as rows of a source batch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.engine.reference import geometry
from segpaste.engine.reference.classmix import mixable, present_classes
from segpaste.engine.reference.pixels import looked_up
from segpaste.engine.schema import Classes, CropRows, Crops, Survey
from segpaste.types import FIELDS, Field, PaddedBatchedDenseSample
from segpaste.types.sampling import outward_boxes


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """Find the instances that may be pasted, the boxes and free slots of each image, and its extent.

    Args:
        batch: images with instance masks, K slots.
        classes: the taxonomy.
        ignore_index: semantic class of unlabelled pixels; if given, the classes that ClassMix may paste are found, too.
        whole_only: instances whose box touches the border of their image may not be pasted.
    """
    has_extent = (batch.boxes[..., 2:] > batch.boxes[..., :2]).all(-1)
    eligible = batch.instance_valid & has_extent
    if classes.is_thing is not None:
        eligible = eligible & looked_up(classes.is_thing, batch.labels)
    boxes, extent = outward_boxes(batch.boxes), geometry.valid_extent(batch)
    if whole_only:
        eligible = eligible & ~geometry.cut_sides(boxes, extent[:, None]).any(-1)
    present = None if ignore_index is None else present_classes(batch, mixable(classes), ignore_index)
    return Survey(
        eligible=eligible,
        occupied=boxes,
        num_free=(~batch.instance_valid).sum(1),
        extent=extent,
        present=present,
        has_present=None if present is None else present.any(1),
    )


def stage_crops(crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
    """Convert crops to rows of a source batch, and find those that may be pasted.

    Args:
        crops: S crops.
        classes: the taxonomy.
        dtype: dtype of the targets' images; with uint8 the images do not change.
        scale: factor on colours, which are multiplied in float32 and then rounded to ``dtype``.
    """
    images, boxes, labels = crops.images, crops.boxes, crops.labels
    if dtype != torch.uint8:
        images = (images.to(torch.float32) * scale).to(dtype)
    has_object = (boxes[:, 2:] > boxes[:, :2]).all(-1)
    eligible = has_object & (labels >= 0)
    if classes.is_thing is not None:
        eligible = eligible & looked_up(classes.is_thing, labels)
    if crops.depth_valid is not None:
        eligible = eligible & (crops.depth_valid & crops.alphas).flatten(1).any(1)
    height, width = images.shape[-2:]
    extent = torch.empty_like(boxes[:, :2])
    extent[:, 0], extent[:, 1] = width, height
    return CropRows(
        images=images,
        boxes=boxes[:, None].to(torch.float32),
        labels=(labels * has_object)[:, None],
        instance_valid=has_object[:, None],
        instance_ids=has_object[:, None].to(torch.int32),
        eligible=eligible[:, None],
        extent=extent,
    )


def extend(batch: PaddedBatchedDenseSample, canvas_size: tuple[int, int], num_slots: int) -> PaddedBatchedDenseSample:
    """Return a batch with a larger canvas and more instance slots; the batch itself if it has both already.

    Image pixels are reflected into the padding, so that a patch across the border contains no hard edge. All other
    fields hold their padding values there, and the padding mask marks it. The added slots are empty.

    Args:
        batch: B images.
        canvas_size: (H, W), at least those of the batch.
        num_slots: K, at least that of the batch.
    """
    (height, width), extra = batch.canvas_size, num_slots - batch.max_instances
    bottom, right = canvas_size[0] - height, canvas_size[1] - width
    if not (bottom or right or extra):
        return batch
    values: dict[str, Any] = {}
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if field.name == "padding_mask" and value is None and (bottom or right):
            value = torch.zeros(batch.batch_size, 1, height, width, dtype=torch.bool, device=batch.device)
        if value is None:
            continue
        if has_slots(field) and extra:
            value = values[field.batched_name] = F.pad(value, [*[0, 0] * (value.ndim - 2), 0, extra])
        if field.resample is None or not (bottom or right):
            continue
        if field.resample == "filter":
            values[field.batched_name] = _mirrored(value, bottom, right)
        else:
            values[field.batched_name] = F.pad(value, [0, right, 0, bottom], value=fill_of(field))
    return batch.derived(**values)


def has_slots(field: Field) -> bool:
    """Return whether a field of a batch has a row for each instance slot."""
    return field.layout == "instance" or field.name == "instance_valid"


def fill_of(field: Field) -> float:
    """Return the padding value of a field in a batch, where depth that is not there is 0."""
    return 0.0 if math.isnan(field.pad_value) else field.pad_value


def _mirrored(images: Tensor, bottom: int, right: int) -> Tensor:
    """Extend images [B, C, H, W] by reflection at the edge pixel, repeatedly where they are small."""
    is_last = not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last)
    order = torch.channels_last if is_last else torch.contiguous_format
    for dim, extra in ((2, bottom), (3, right)):
        size = images.shape[dim]
        steps = torch.arange(size + extra, device=images.device) % max(2 * size - 2, 1)
        images = images.index_select(dim, torch.minimum(steps, 2 * size - 2 - steps))
    return images.contiguous(memory_format=order)
