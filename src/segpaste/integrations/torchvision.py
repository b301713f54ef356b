"""Adapter for torchvision's detection models: batches as lists of images and targets, and back.

    for batch in BatchCopyPaste.from_dataloader(loader, max_instances=64):
        losses = model(*to_detection(batch, label_map=1))

The models expect images of any sizes in 0..1 and class ids from 1, since 0 is the background. They resize the images
themselves (``min_size``, 800 pixels by default), so a small canvas does not make a step small. They also normalise.
See https://docs.pytorch.org/vision/stable/models.html#object-detection-instance-segmentation-and-person-keypoint-detection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.integrations._labels import LabelMap, from_framework, to_framework
from segpaste.integrations._targets import Objects, batch_of, corners, crowd_region, objects_of, picture_sizes
from segpaste.integrations._values import channels, expect_colours, set_value
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.tensors import tensor_of

__all__ = ["from_detection", "to_detection"]


def to_detection(
    batch: PaddedBatchedDenseSample, *, label_map: LabelMap, scale: float = 255.0
) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Return the images and targets that a detection model of torchvision trains on.

    Padding is cut off. Crowd regions are not objects, so they are in no target; torchvision's own training reference
    drops them, too. An image without objects has tensors of length 0, which the models accept. Float images are read to
    check their range, which waits for their device.

    Args:
        batch: B images in 0..``scale``, with K instance slots.
        label_map: class ids of the model. 1 for heads trained from scratch, whose class 0 is the background; the list
            of category ids of the dataset for weights trained on COCO, whose ids have gaps.
        scale: the value of white.

    Returns:
        B images [C, h, w] float32 in 0..1, and B dictionaries: ``boxes`` [N, 4] float32 xyxy in pixels, ``labels`` [N]
        int64, ``masks`` [N, h, w] uint8 if the batch has instance masks, ``keypoints`` [N, P, 3] float32 if it has
        keypoints, with visibility 0, 1 or 2, ``area`` [N] float32 of masks or boxes, and ``iscrowd`` [N] int64 zeros.

    Raises:
        TypeError, ValueError: ``label_map`` is of another class, or has no id for a label; or the colours are not in
            0..``scale``.
    """
    objects, images, targets = objects_of(batch), [], []
    expect_colours("images", [batch.images], scale, "scale")
    for b, (found, (height, width)) in enumerate(zip(objects, picture_sizes(batch), strict=True)):
        images.append(batch.images[b, :, :height, :width].float() / scale)
        sides = found.boxes[:, 2:] - found.boxes[:, :2]
        target = {"boxes": found.boxes, "labels": to_framework(found.labels, label_map), "area": sides.prod(1)}
        if found.masks is not None:
            target["masks"] = found.masks[:, :height, :width].to(torch.uint8)
            target["area"] = found.masks.flatten(1).sum(1, dtype=torch.float32)
        if batch.keypoints is not None:
            target["keypoints"] = batch.keypoints[b, found.slots]
        target["iscrowd"] = torch.zeros_like(target["labels"])
        targets.append(target)
    return images, targets


def from_detection(
    images: Sequence[Tensor],
    targets: Sequence[Mapping[str, Any]],
    *,
    label_map: LabelMap,
    max_instances: int,
    scale: float = 255.0,
) -> PaddedBatchedDenseSample:
    """Return a batch from the lists of torchvision's detection datasets and models: the inverse of `to_detection`.

    Not for targets with keypoints. Float images and masks are read to check their values, which waits for their device.

    Args:
        images: B images [C, h, w]: uint8, or floats in 0..1; they are padded to the right and below to one size.
        targets: ``boxes`` [N, 4], xyxy unless they are `torchvision.tv_tensors.BoundingBoxes` of another format, and
            ``labels`` [N] integers; ``masks`` [N, h, w] for all images or for none, of 0 and 1 or of 0 and 255, to
            which boxes are then refitted; the mask or the box of an object whose ``iscrowd``, a tensor or a list, is
            not 0 becomes part of the crowd mask. An image without objects may lack them all.
        label_map: class ids of the targets, as in `to_detection`.
        max_instances: K; an image with more objects keeps its largest.
        scale: the value of white in the batch; floats are multiplied by it, uint8 images stay.

    Raises:
        TypeError, ValueError: a tensor is of another dtype or shape, float images are not in 0..1, masks have other
            values, boxes an angle, a class id has no label, only some targets have masks, or a target has keypoints.
    """
    _expect_images(images)
    pictures, objects, crowds = [], [], []
    with_masks = any("masks" in target for target in targets)
    for i, (image, target) in enumerate(zip(images, targets, strict=True)):
        if "keypoints" in target:
            raise ValueError(f"targets[{i}]: expected no keypoints, since their names are not known; remove them")
        boxes, ids, is_crowd = _rows(f"targets[{i}]", target, image)
        if with_masks and "masks" not in target and len(boxes):
            raise ValueError(f"targets[{i}]: expected masks, as other targets have, got boxes only")
        pictures.append(image if image.dtype == torch.uint8 else image.float() * scale)
        masks = _masks(f"targets[{i}]", target, image, len(boxes)) if with_masks else None
        size = image.shape[-2:]
        crowds.append(crowd_region(boxes[is_crowd], None if masks is None else masks[is_crowd], size))
        keep = ~is_crowd
        labels = from_framework(ids[keep], label_map)  # a crowd may have a category without a label
        objects.append(Objects(boxes[keep], labels, None if masks is None else masks[keep], keep.nonzero()[:, 0]))
    return batch_of(pictures, objects, crowds, max_instances)


def _expect_images(images: Sequence[Tensor]) -> None:
    """Check the classes, dtypes and shapes of images, and the range of float images."""
    for i, image in enumerate(images):
        expected = f"images[{i}]: expected a tensor of uint8, or of floats in 0..1"
        if not isinstance(image, Tensor):
            call = "from_numpy(image).permute(2, 0, 1)" if isinstance(image, np.ndarray) else "pil_to_tensor(image)"
            owner = "torch" if isinstance(image, np.ndarray) else "torchvision.transforms.functional"
            raise TypeError(f"{expected}, got a {type(image).__name__}; call {owner}.{call}")
        if image.dtype != torch.uint8 and not image.is_floating_point():
            raise TypeError(f"{expected}, got {image.dtype}; divide image.float() by its value of white")
        if image.ndim != 3:
            raise ValueError(f"images[{i}]: expected [C, H, W], got {list(image.shape)}")
        if len(image) != len(images[0]):
            raise ValueError(
                f"images[{i}]: expected as many channels as images[0], {len(images[0])}, got {channels(len(image))}"
            )
    expect_colours("images", [image for image in images if image.dtype != torch.uint8], 1.0)


def _rows(name: str, target: Mapping[str, Any], image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return boxes [N, 4] xyxy, class ids [N] and which objects are crowds, [N] bool; N = 0 for an empty target."""
    boxes = corners(name, target.get("boxes", image.new_zeros(0)))
    found = []
    for entry, default in (("labels", [] if not len(boxes) else None), ("iscrowd", [0] * len(boxes))):
        values = target.get(entry, default)
        if values is None:
            raise ValueError(f"{name}: expected labels for {len(boxes)} boxes, got none")
        row = torch.as_tensor(values, device=boxes.device).as_subclass(Tensor)
        if row.shape != (len(boxes),):
            raise ValueError(f"{name}: expected {entry} for {len(boxes)} boxes, got the shape {list(row.shape)}")
        if row.is_floating_point() and row.numel():
            raise TypeError(f"{name}: expected {entry} of integers, got {row.dtype}")
        found.append(row)
    return boxes, found[0].long(), found[1].bool()


def _masks(name: str, target: Mapping[str, Tensor], image: Tensor, num: int) -> Tensor:
    """Return the masks of a target, [N, h, w] bool; N = 0 if it has no entry, or an empty one."""
    masks = tensor_of(target.get("masks", image.new_zeros(0)))
    if not num and not len(masks):
        return image.new_zeros(0, *image.shape[-2:], dtype=torch.bool)
    if masks.shape != (num, *image.shape[-2:]):
        expected = [num, *image.shape[-2:]]
        raise ValueError(f"{name}: expected masks {expected} for {num} boxes, got the shape {list(masks.shape)}")
    set_value(f"{name}: masks", masks)
    return masks.bool()
