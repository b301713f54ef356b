"""Inputs of models of Hugging Face transformers: mask classification, and models like DETR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from segpaste.types import DenseSample
from segpaste.viz.structures.pictures import (
    Pictures,
    Request,
    are_targets,
    from_cxcywh,
    has_keys,
    on_cpu,
    pixels,
    sample_of,
)


def is_mask_labels(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``pixel_values``, ``mask_labels`` and ``class_labels``."""
    return has_keys(batch, "pixel_values", "mask_labels", "class_labels")


def of_mask_labels(batch: Mapping[str, Any], request: Request) -> Pictures:
    """Return the images of a mask-classification model; segments are things and stuff alike."""
    _expect_normalisation(request)

    def sample(b: int) -> DenseSample:
        image, padding = _image(batch, b, request)
        return sample_of(image, batch["class_labels"][b], masks=batch["mask_labels"][b], padding=padding)

    return Pictures(len(batch["pixel_values"]), sample, has_boxes=False)


def is_detr(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``pixel_values`` and a target for each image under ``labels``."""
    return has_keys(batch, "pixel_values", "labels") and are_targets(batch["labels"], "boxes", "class_labels")


def of_detr(batch: Mapping[str, Any], request: Request) -> Pictures:
    """Return the images of a DETR-like model; boxes are fractions of the padded image."""
    _expect_normalisation(request)

    def sample(b: int) -> DenseSample:
        (image, padding), target = _image(batch, b, request), batch["labels"][b]
        boxes = from_cxcywh(target["boxes"], (image.shape[-2], image.shape[-1]))
        return sample_of(image, target["class_labels"], boxes=boxes, masks=target.get("masks"), padding=padding)

    return Pictures(len(batch["pixel_values"]), sample)


def _expect_normalisation(request: Request) -> None:
    if request.mean is None or request.std is None:
        raise ValueError(
            "show: expected the mean and std that pixel_values were normalised with, got none; give "
            "mean=processor.image_mean, std=processor.image_std, or 0 and 1 for each channel of images in 0..1"
        )


def _image(batch: Mapping[str, Any], b: int, request: Request) -> tuple[Tensor, Tensor | None]:
    """Return an image and its padding [H, W], where ``pixel_mask`` is 0."""
    inside = batch.get("pixel_mask")
    return pixels(batch["pixel_values"][b], request), None if inside is None else on_cpu(inside[b]) == 0
