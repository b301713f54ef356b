"""Targets of DETR-like models of transformers: a dictionary with ``pixel_values``, ``pixel_mask`` and ``labels``.

``labels`` has a dictionary for each image. For the inputs of mask-classification models see
`segpaste.targets.mask_labels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from segpaste.targets.annotated import Annotated, Images, Reading, are_targets, as_given, has_keys, masks_of, numbers_of
from segpaste.targets.colours import model_input
from segpaste.targets.objects import (
    LabelMap,
    cxcywh,
    normalized_images,
    objects_of,
    picture_sizes,
    pixel_mask,
    to_framework,
    xyxy,
)
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.tensors import tensor_of


def is_detr(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``pixel_values`` and a target for each image under ``labels``."""
    return has_keys(batch, "pixel_values", "labels") and are_targets(batch["labels"], "boxes", "class_labels")


def read(batch: Mapping[str, Any], reading: Reading) -> Images:
    """Return the images of a batch, for drawing; boxes are fractions of the padded image."""

    def annotated(b: int) -> Annotated:
        place, target = f"{reading.owner}: labels[{b}]", batch["labels"][b]
        image, padding = model_input(batch, b, reading)
        size, masks = image.shape[-2:], target.get("masks")
        boxes = xyxy(tensor_of(target["boxes"]), size, place)
        return Annotated(
            image,
            boxes,
            numbers_of(place, target, "class_labels", len(boxes)),
            None if masks is None else masks_of(place, masks, len(boxes), size, image),
            torch.zeros(len(boxes), dtype=torch.bool, device="cpu"),
            padding=padding,
        )

    return Images(len(batch["pixel_values"]), lambda b: as_given(annotated(b)))


def to_detr(
    batch: PaddedBatchedDenseSample,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    masks: bool = True,
    label_map: LabelMap = 0,
    scale: float = 255.0,
) -> dict[str, Any]:
    """Return the inputs of a DETR-like model: DETR, Conditional and Deformable DETR, RT-DETR.

    Args:
        batch: B images in 0..``scale``.
        mean: mean of each channel of images in 0..1, as ``image_mean`` of an image processor; 0 for RT-DETR.
        std: standard deviation, likewise; 1 for RT-DETR.
        masks: return ``masks``, for DETR's segmentation head; the batch must have instance masks.
        label_map: class ids of the model, see `segpaste.targets.objects.LabelMap`.
        scale: the value of white.

    Returns:
        ``pixel_values`` [B, C, H, W] float32, 0 in padding; ``pixel_mask`` [B, H, W] int64, 1 in the image; ``labels``,
        B dictionaries: ``class_labels`` [N] int64, ``boxes`` [N, 4] float32 (centre x, centre y, width, height) as
        fractions of the padded canvas, ``area`` [N] float32 in pixels, ``iscrowd`` [N] int64 zeros, ``masks`` [N, H, W]
        uint8, ``size`` [2] int64, the padded (H, W), and ``orig_size`` [2] int64, that of the image without padding.

    Raises:
        TypeError, ValueError: ``label_map`` has no id for a label, ``masks`` is True for a batch without masks, or its
            colours are not in 0..``scale``.
    """
    if masks and batch.instance_masks is None:
        raise ValueError("to_detr: expected a batch with instance masks because masks=True, got none; pass masks=False")
    labels = []
    for found, picture in zip(objects_of(batch), picture_sizes(batch), strict=True):
        target = {
            "class_labels": to_framework(found.labels, label_map),
            "boxes": cxcywh(found.boxes, batch.canvas_size),
            "area": found.areas,
            "iscrowd": torch.zeros_like(found.labels),
            "size": torch.tensor(batch.canvas_size, dtype=torch.int64, device=batch.device),
            "orig_size": torch.tensor(picture, dtype=torch.int64, device=batch.device),
        }
        if masks and found.masks is not None:
            target["masks"] = found.masks.to(torch.uint8)
        labels.append(target)
    return {
        "pixel_values": normalized_images(batch, mean, std, scale),
        "pixel_mask": pixel_mask(batch),
        "labels": labels,
    }
