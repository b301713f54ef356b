"""Dictionaries of AlbumentationsX pipelines, with labels in the field ``labels``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.types import DenseSample
from segpaste.viz.structures.pictures import Pictures, Request, has_keys, on_cpu, pixels, sample_of

FORMATS = {
    "pascal_voc": ("XYXY", False),
    "coco": ("XYWH", False),
    "cxcywh": ("CXCYWH", False),
    "albumentations": ("XYXY", True),
    "yolo": ("CXCYWH", True),
}
"""Formats of boxes by their names there: torchvision's name, and whether they are fractions of the image."""


def is_dictionary(batch: object) -> bool:
    """Tell whether a batch is a dictionary with ``image``, ``labels``, and ``masks`` or ``bboxes``."""
    return has_keys(batch, "image", "labels") and ("masks" in batch or "bboxes" in batch)


def of_dictionary(data: Mapping[str, Any], request: Request) -> Pictures:
    """Return the picture of one dictionary, as `of_dictionaries` does."""
    return of_dictionaries([data], request)


def is_list_of_dictionaries(batch: object) -> bool:
    """Tell whether a batch is a list of such dictionaries."""
    return isinstance(batch, list | tuple) and len(batch) > 0 and all(map(is_dictionary, batch))


def of_dictionaries(batch: Sequence[Mapping[str, Any]], request: Request) -> Pictures:
    """Return the images of dictionaries: arrays [H, W, C], or tensors [C, H, W] of ``ToTensorV2``.

    Boxes are in the format that the request names.

    Raises:
        ValueError: there are boxes, and no format; labels are texts; or there is not one label for each box and mask.
    """
    return Pictures(len(batch), lambda b: _sample(batch[b], request), has_boxes=any("bboxes" in data for data in batch))


def _sample(data: Mapping[str, Any], request: Request) -> DenseSample:
    image = data["image"] if isinstance(data["image"], Tensor) else np.moveaxis(np.atleast_3d(data["image"]), 2, 0)
    image = pixels(np.ascontiguousarray(image) if isinstance(image, np.ndarray) else image, request)
    size, num = (image.shape[-2], image.shape[-1]), len(data["labels"])
    if any(isinstance(label, str) for label in data["labels"]):
        raise ValueError("show: expected numbers as labels, got texts; give numbers, and their texts as class_names")
    boxes = _corners(data["bboxes"], request.bbox_format, size) if "bboxes" in data else None
    masks = _stacked(data["masks"], size) if "masks" in data else None
    for name, rows in (("bboxes", boxes), ("masks", masks)):
        if rows is not None and len(rows) != num:
            raise ValueError(
                f"show: expected a label for each of {len(rows)} {name}, got {num} labels; A.Compose leaves out boxes "
                "and their labels, and keeps their masks: show the dictionary without masks, or without bboxes"
            )
    return sample_of(image, np.asarray(data["labels"], np.int64), boxes=boxes, masks=masks)


def _stacked(masks: Any, size: tuple[int, int]) -> Tensor:
    """Return masks [N, H, W]."""
    return (
        torch.stack([on_cpu(mask) for mask in masks])
        if len(masks)
        else torch.zeros(0, *size, dtype=torch.float32, device="cpu")
    )


def _corners(boxes: Any, bbox_format: str | None, size: tuple[int, int]) -> Tensor:
    """Return boxes [N, 4] xyxy in pixels, to the thousandth, for pipelines compute in fractions of the image."""
    if bbox_format not in FORMATS:
        raise ValueError(
            f"show: expected bbox_format to be one of {', '.join(FORMATS)} because there are bboxes, got "
            f"{bbox_format!r}; give the coord_format of A.BboxParams"
        )
    form, is_fraction = FORMATS[bbox_format]
    values = on_cpu(np.array([np.asarray(box, np.float32)[:4] for box in boxes], np.float32).reshape(-1, 4))
    if is_fraction:
        values = values * values.new_tensor([size[1], size[0]] * 2)
    tagged = tv_tensors.BoundingBoxes(values, format=form, canvas_size=size, device=values.device)
    xyxy = on_cpu(F.convert_bounding_box_format(tagged, new_format=tv_tensors.BoundingBoxFormat.XYXY))
    return xyxy.round(decimals=3)
