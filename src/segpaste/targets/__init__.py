"""Targets of frameworks, that is, what they train on: one table of how each is recognised, read and written.

A target is a file of this room, named after its framework, and a row of `TARGETS`. Adapters, the transform of one
sample and `segpaste.viz.show` share it. No framework is imported: targets are recognised by their keys and types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from segpaste.targets import albumentations, detr, mask_labels, rfdetr, torchvision, yolo
from segpaste.targets.annotated import Images, Reading

__all__ = ["TARGETS", "Images", "Reading", "Target"]


class Target(NamedTuple):
    """Target of a framework: how its batches are recognised, read and written.

    Attributes:
        name: name for messages, with the structure of its batches.
        recognise: function that returns whether a batch has the structure; no batch has two.
        read: function from a batch to its images as `segpaste.DenseSample`, with annotations as they are.
        write: function from a `segpaste.PaddedBatchedDenseSample` and the options of the framework to a batch.
    """

    name: str
    recognise: Callable[[object], bool]
    read: Callable[[Any, Reading], Images]
    write: Callable[..., Any]


TARGETS: tuple[Target, ...] = (
    Target(
        "torchvision's images and targets with boxes or masks, and labels: two lists, or pairs or dictionaries of them",
        torchvision.is_torchvision,
        torchvision.read,
        torchvision.to_detection,
    ),
    Target("RF-DETR's (NestedTensor, targets with boxes and labels)", rfdetr.is_rfdetr, rfdetr.read, rfdetr.write),
    Target(
        "inputs of Mask2Former, OneFormer and the like: a dictionary with pixel_values, mask_labels, class_labels",
        mask_labels.is_mask_labels,
        mask_labels.read,
        mask_labels.to_mask_labels,
    ),
    Target(
        "inputs of DETR and the like: a dictionary with pixel_values and labels, a list with boxes and class_labels",
        detr.is_detr,
        detr.read,
        detr.to_detr,
    ),
    Target("Ultralytics' batch: a dictionary with img, cls, bboxes, batch_idx", yolo.is_yolo, yolo.read, yolo.write),
    Target(
        "AlbumentationsX' dictionary with image, labels, and masks or bboxes, or a list of them",
        albumentations.is_albumentations,
        albumentations.read,
        albumentations.to_dictionaries,
    ),
)
"""The targets of all frameworks."""
