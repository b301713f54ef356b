"""Two ways in which copy-paste is usually written in torch, our own writing, to measure against.

They stand in for pipelines of their kind; neither does all that `segpaste.BatchCopyPaste` does, as said below.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.ops import masks_to_boxes

from segpaste.types import PaddedBatchedDenseSample

Target = dict[str, Tensor]


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
    out_images, out_targets = [], []
    for i, (image, target) in enumerate(zip(images, targets, strict=True)):
        source_image, source = images[i - 1], targets[i - 1]
        chosen = torch.randperm(len(source["labels"]))[: max(1, len(source["labels"]) // 2)]
        pasted = source["masks"][chosen]
        union = pasted.any(0)
        out_images.append(torch.where(union, source_image, image))
        masks = target["masks"] & ~union
        kept = masks.flatten(1).any(1)
        masks = torch.cat([masks[kept], pasted])
        labels = torch.cat([target["labels"][kept], source["labels"][chosen]])
        out_targets.append({"masks": masks, "labels": labels, "boxes": masks_to_boxes(masks)})
    return out_images, out_targets


def grid_sampled(batch: PaddedBatchedDenseSample) -> tuple[Tensor, Tensor]:
    """The neighbour's picture and all its masks scaled, flipped and moved at once, then a random half selected.

    Boxes are not refitted.
    """
    assert batch.instance_masks is not None
    num, _, height, width = batch.images.shape
    scale = torch.empty(num).uniform_(0.5, 2.0)
    shift = torch.empty(num, 2).uniform_(-0.5, 0.5)
    flip = torch.where(torch.rand(num) < 0.5, -1.0, 1.0)
    zero = torch.zeros(num)
    theta = torch.stack([flip / scale, zero, shift[:, 0], zero, 1 / scale, shift[:, 1]], 1).view(num, 2, 3)
    grid = F.affine_grid(theta, [num, 3, height, width], align_corners=False)
    source = batch.images.roll(1, 0).float()
    image = F.grid_sample(source, grid, align_corners=False)
    masks = F.grid_sample(batch.instance_masks.roll(1, 0).float(), grid, mode="nearest", align_corners=False) > 0.5
    masks &= (torch.rand(masks.shape[:2]) < 0.5)[..., None, None]
    union = masks.any(1, keepdim=True)
    images = torch.where(union, image.to(batch.images.dtype), batch.images)
    return images, torch.cat([batch.instance_masks & ~union, masks], 1)
