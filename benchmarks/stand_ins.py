"""Implementations of three common ways to write copy-paste in torch, for comparison.

They stand in for pipelines of their kind; none does all that `segpaste.BatchCopyPaste` does, as said below.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.ops import masks_to_boxes
from torchvision.transforms.v2 import functional as TF

from segpaste.types import PaddedBatchedDenseSample

from .timing import Contender

Target = dict[str, Tensor]


def prepare_list_based(batch: PaddedBatchedDenseSample) -> Contender:
    """`list_based` on this batch."""
    lists = as_lists(batch)
    return Contender(lambda given: list_based(*given), lambda: lists)


def prepare_grid_sampled(batch: PaddedBatchedDenseSample) -> Contender:
    """`grid_sampled` on this batch."""
    return Contender(grid_sampled, lambda: batch)


def prepare_affine(batch: PaddedBatchedDenseSample) -> Contender:
    """`affine_and_where` on this batch."""
    lists = as_lists(batch)
    return Contender(lambda given: affine_and_where(*given), lambda: lists)


def as_lists(batch: PaddedBatchedDenseSample) -> tuple[list[Tensor], list[Target]]:
    """Images and targets one by one, as detection references take them."""
    assert batch.instance_masks is not None
    targets = [
        {"masks": masks[valid], "labels": labels[valid], "boxes": boxes[valid]}
        for masks, labels, boxes, valid in zip(
            batch.instance_masks, batch.labels, batch.boxes, batch.instance_valid, strict=True
        )
    ]
    return list(batch.images), targets


def list_based(images: list[Tensor], targets: list[Target]) -> tuple[list[Tensor], list[Target]]:
    """A random half of the neighbour's objects onto each image, one image at a time.

    Nothing is scaled, flipped or moved; boxes of survivors are refitted.
    """
    pasted = []
    for i in range(len(images)):
        chosen = _random_half(targets[i - 1])
        pasted.append(_composed(images[i], targets[i], images[i - 1], chosen))
    return [image for image, _ in pasted], [target for _, target in pasted]


def affine_and_where(images: list[Tensor], targets: list[Target]) -> tuple[list[Tensor], list[Target]]:
    """The same with torchvision's operations: the chosen objects and their picture are scaled, flipped and moved."""
    pasted = []
    for i in range(len(images)):
        image, chosen = images[i - 1], _random_half(targets[i - 1])
        height, width = image.shape[-2:]
        shift = [random.randint(-width // 2, width // 2), random.randint(-height // 2, height // 2)]
        move = {"angle": 0.0, "translate": shift, "scale": random.uniform(0.5, 2.0), "shear": [0.0, 0.0]}
        masks = TF.affine(chosen["masks"].to(torch.uint8), **move)
        image = TF.affine(image, interpolation=TF.InterpolationMode.BILINEAR, **move)
        if random.random() < 0.5:
            image, masks = TF.horizontal_flip(image), TF.horizontal_flip(masks)
        masks = masks.bool()
        inside = masks.flatten(1).any(1)
        moved = {"masks": masks[inside], "labels": chosen["labels"][inside]}
        pasted.append(_composed(images[i], targets[i], image, moved))
    return [image for image, _ in pasted], [target for _, target in pasted]


def grid_sampled(batch: PaddedBatchedDenseSample) -> tuple[Tensor, Tensor]:
    """The neighbour's picture and all its masks scaled, flipped and moved at once, then a random half selected.

    Boxes are not refitted.
    """
    assert batch.instance_masks is not None
    num, _, height, width = batch.images.shape
    device = batch.device
    scale = torch.empty(num, device=device).uniform_(0.5, 2.0)
    shift = torch.empty(num, 2, device=device).uniform_(-0.5, 0.5)
    flip = torch.where(torch.rand(num, device=device) < 0.5, -1.0, 1.0)
    zero = torch.zeros(num, device=device)
    theta = torch.stack([flip / scale, zero, shift[:, 0], zero, 1 / scale, shift[:, 1]], 1).view(num, 2, 3)
    grid = F.affine_grid(theta, [num, 3, height, width], align_corners=False)
    source = batch.images.roll(1, 0).float()
    image = F.grid_sample(source, grid, align_corners=False)
    masks = F.grid_sample(batch.instance_masks.roll(1, 0).float(), grid, mode="nearest", align_corners=False) > 0.5
    masks &= (torch.rand(masks.shape[:2], device=device) < 0.5)[..., None, None]
    union = masks.any(1, keepdim=True)
    images = torch.where(union, image.to(batch.images.dtype), batch.images)
    return images, torch.cat([batch.instance_masks & ~union, masks], 1)


def _random_half(target: Target) -> Target:
    chosen = torch.randperm(len(target["labels"]))[: max(1, len(target["labels"]) // 2)]
    return {"masks": target["masks"][chosen], "labels": target["labels"][chosen]}


def _composed(image: Tensor, target: Target, source: Tensor, pasted: Target) -> tuple[Tensor, Target]:
    """The pasted objects in front; what they hide entirely is gone."""
    union = pasted["masks"].any(0)
    masks = target["masks"] & ~union
    kept = masks.flatten(1).any(1)
    masks = torch.cat([masks[kept], pasted["masks"]])
    labels = torch.cat([target["labels"][kept], pasted["labels"]])
    return torch.where(union, source, image), {"masks": masks, "labels": labels, "boxes": masks_to_boxes(masks)}
