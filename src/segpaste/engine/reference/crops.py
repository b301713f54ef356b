"""Crops of a bank as rows of a source batch."""

from __future__ import annotations

import torch

from segpaste.engine.reference.pixels import looked_up
from segpaste.engine.schema import Classes, CropRows, Crops


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
