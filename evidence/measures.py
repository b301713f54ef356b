"""Metrics of predicted class maps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from segpaste.types import IGNORE_INDEX


@torch.no_grad()
def class_ious(model: nn.Module, images: Tensor, maps: Tensor, num_classes: int, batch_size: int = 25) -> list[float]:
    """Return the intersection over union of each class over all images; background is class 0.

    Args:
        model: gives logits [B, num_classes, H, W] of images in [0, 1].
        images: [N, 3, H, W] uint8.
        maps: [N, H, W] int64; ignored pixels do not count.
        num_classes: with the background.
        batch_size: images at once.
    """
    was_training = model.training
    model.eval()
    confusion = torch.zeros(num_classes**2, dtype=torch.int64)
    for some, truth in zip(torch.split(images, batch_size), torch.split(maps, batch_size), strict=True):
        found = model(some.float() / 255).argmax(1)
        counts = truth != IGNORE_INDEX
        confusion += (truth[counts] * num_classes + found[counts]).bincount(minlength=num_classes**2)
    model.train(was_training)
    table = confusion.reshape(num_classes, num_classes)
    both = table.diagonal()
    union = table.sum(0) + table.sum(1) - both
    return (both / union.clamp(min=1)).tolist()


def group_iou(ious: Sequence[float], classes: Sequence[int]) -> float:
    """Return the mean over some thing classes of the result of `class_ious`, in which the background is first."""
    return sum(ious[class_id + 1] for class_id in classes) / len(classes)
