"""Images with a list of targets: torchvision's detection models, and RF-DETR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.types import DenseSample
from segpaste.viz.structures.pictures import (
    Pictures,
    Request,
    are_targets,
    from_cxcywh,
    is_list,
    on_cpu,
    pixels,
    sample_of,
    scaled_points,
)


def is_torchvision(batch: object) -> bool:
    """Return whether a batch is a pair of images and targets with ``boxes`` and ``labels``."""
    return (
        isinstance(batch, list | tuple)
        and len(batch) == 2
        and is_list(batch[0], Tensor)
        and are_targets(batch[1], "boxes", "labels")
    )


def of_torchvision(batch: tuple[Sequence[Tensor], Sequence[Mapping[str, Any]]], request: Request) -> Pictures:
    """Return the images of a batch of torchvision's detection models.

    Boxes are xyxy in pixels, unless they are `torchvision.tv_tensors.BoundingBoxes` of another format.

    Raises:
        ValueError: the numbers of images and targets differ.
    """
    images, targets = batch
    if len(images) != len(targets):
        raise ValueError(
            f"show: expected one target per image, got {len(images)} images and {len(targets)} targets; give an image "
            "without objects a target whose boxes and labels are empty"
        )

    def sample(b: int) -> DenseSample:
        fields = {name: targets[b].get(name) for name in ("masks", "keypoints")}
        boxes = targets[b]["boxes"]
        if isinstance(boxes, tv_tensors.BoundingBoxes):
            boxes = F.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
        return sample_of(pixels(images[b], request), targets[b]["labels"], boxes=on_cpu(boxes), **fields)

    return Pictures(len(images), sample)


def is_one_pair(batch: object) -> bool:
    """Return whether a batch is one image [C, H, W] and its target with ``boxes`` and ``labels``, as in datasets."""
    if not isinstance(batch, list | tuple) or len(batch) != 2 or not isinstance(batch[0], Tensor):
        return False
    return batch[0].ndim == 3 and are_targets([batch[1]], "boxes", "labels")


def of_one_pair(pair: tuple[Tensor, Mapping[str, Any]], request: Request) -> Pictures:
    """Return the picture of one image and its target; see `of_torchvision`."""
    return of_torchvision(([pair[0]], [pair[1]]), request)


def is_pair_list(batch: object) -> bool:
    """Return whether a batch is a list of images, each with its target."""
    return isinstance(batch, list | tuple) and len(batch) > 0 and all(map(is_one_pair, batch))


def of_pair_list(batch: Sequence[tuple[Tensor, Mapping[str, Any]]], request: Request) -> Pictures:
    """Return the pictures of images, each with its target; see `of_torchvision`."""
    return of_torchvision(([image for image, _ in batch], [target for _, target in batch]), request)


def is_rfdetr(batch: object) -> bool:
    """Return whether a batch is a pair of an object with ``tensors`` and ``mask``, and targets."""
    if not isinstance(batch, list | tuple) or len(batch) != 2 or not hasattr(batch[0], "mask"):
        return False
    images, targets = getattr(batch[0], "tensors", None), batch[1]
    return (
        isinstance(images, Tensor) and isinstance(targets, Iterable) and are_targets(list(targets), "boxes", "labels")
    )


def of_rfdetr(batch: tuple[Any, Iterable[Mapping[str, Any]]], request: Request) -> Pictures:
    """Return the images of a batch of RF-DETR.

    Boxes, (centre x, centre y, width, height), and keypoints are fractions of the image without its padding, which is
    on the right and at the bottom. Rows that ``valid`` marks as padding are left out.
    """
    nested, targets = batch[0], list(batch[1])
    return Pictures(len(targets), lambda b: _rfdetr_sample(nested, targets[b], b, request))


def _rfdetr_sample(nested: Any, target: Mapping[str, Any], b: int, request: Request) -> DenseSample:
    image = pixels(nested.tensors[b], request)
    padding = (
        torch.zeros(image.shape[-2:], dtype=torch.bool, device="cpu")
        if nested.mask is None
        else on_cpu(nested.mask[b]).bool()
    )
    size = (int((~padding).any(1).sum()), int((~padding).any(0).sum()))
    there = on_cpu(target["valid"]).bool() if "valid" in target else slice(None)
    rows = {name: on_cpu(target[name])[there] for name in ("boxes", "labels", "masks", "keypoints") if name in target}
    if "masks" in rows:
        rows["masks"] = _on_canvas(rows["masks"], padding)
    if "keypoints" in rows:
        rows["keypoints"] = scaled_points(rows["keypoints"], size)
    rows["boxes"] = from_cxcywh(rows["boxes"], size)
    return sample_of(image, padding=padding, **rows)


def _on_canvas(masks: Tensor, canvas: Tensor) -> Tensor:
    """Return masks [N, h, w] with the padding of their canvas [H, W]."""
    return pad(masks, (0, canvas.shape[1] - masks.shape[2], 0, canvas.shape[0] - masks.shape[1]))
