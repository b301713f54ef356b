"""Rows of a batch of Ultralytics: their masks and slots, and the values that they keep after a paste.

Detection of the grey borders that Ultralytics' loader adds to images.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.targets.objects import cxcywh, edges_of, slots_of, xyxy
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.sampling import common_boxes, outward_boxes

Batch = dict[str, Any]


class Rows(NamedTuple):
    """Objects of a batch of the loader.

    Attributes:
        boxes: [N, 4] float32, xyxy in pixels, the loader's own.
        masks: [N, H, W] bool; None in a batch without masks.
        areas: [N], pixels of the mask, or of the box without masks.
        kept: [M] int64, the objects that have a slot: at most the K largest of each image.
        images: [M] int64, the image of each.
        slots: [M] int64, the slot of each; that of an object without area stays empty.
    """

    boxes: Tensor
    masks: Tensor | None
    areas: Tensor
    kept: Tensor
    images: Tensor
    slots: Tensor


def rows_of(batch: Batch, max_instances: int, overlap: bool, *, warns: bool = True) -> Rows:
    """Return the objects of a batch of the loader, and their slots; see `from_yolo` for the arguments.

    Args:
        batch: batch of the loader; ``batch_idx`` may have any order.
        max_instances: K.
        overlap: True if masks are one map per image.
        warns: warn of an image with more than K objects.
    """
    size, num_images = batch["img"].shape[-2:], len(batch["img"])
    image_idx = images_of_rows("batch", batch["batch_idx"], num_images)
    boxes = xyxy(batch["bboxes"], size)
    masks = None
    if "masks" in batch:
        if batch["masks"].shape[-2:] != size:
            raise ValueError(
                f"masks: expected the size of the images, {list(size)}, got {list(batch['masks'].shape[-2:])}; load "
                "with mask_ratio=1"
            )
        masks = masks_of_rows(batch["masks"], image_idx, num_images, overlap)
    areas = (
        (batch["bboxes"][:, 2:].float() * edges_of(size, boxes)).prod(1) if masks is None else masks.flatten(1).sum(1)
    )
    by_image = torch.argsort(image_idx, stable=True)
    kept, images, slots = slots_of(image_idx[by_image], areas[by_image], num_images, max_instances, warns=warns)
    return Rows(boxes, masks, areas, by_image[kept], images, slots)


def images_of_rows(place: str, batch_idx: Tensor, num_images: int) -> Tensor:
    """Return the image of each object, [N] int64; this waits for its device.

    Raises:
        ValueError: an image is not in the batch of ``num_images``.
    """
    batch_idx = batch_idx.reshape(-1)
    wrong = batch_idx[~((batch_idx >= 0) & (batch_idx < num_images))]
    if len(wrong):
        raise ValueError(
            f"{place}: expected batch_idx from 0 to {num_images - 1}, the index of an object's image in the batch of "
            f"{num_images}, got {wrong[0].item():g}; number the images of each batch from 0"
        )
    return batch_idx.long()


def masks_of_rows(
    masks: Tensor, image_idx: Tensor, num_images: int, overlap: bool, which: Tensor | slice = slice(None)
) -> Tensor:
    """Return one mask per object, [N, h, w] bool.

    Args:
        masks: [B, h, w] with the value i + 1 at the i-th object of an image, or one mask per object, [N, h, w].
        image_idx: [N] int64, the image of each object, in any order.
        num_images: B.
        overlap: True for the former.
        which: the objects to return.
    """
    if not overlap:
        return masks[which] > 0
    by_image = torch.argsort(image_idx, stable=True)
    counts = torch.bincount(image_idx, minlength=num_images)
    number = torch.empty_like(image_idx)
    position = torch.arange(1, len(image_idx) + 1, device=image_idx.device)
    number[by_image] = position - (counts.cumsum(0) - counts)[image_idx[by_image]]
    return masks[image_idx[which]] == number[which][:, None, None]


def rows_of_slots(
    batch: PaddedBatchedDenseSample, images: Tensor, slots: Tensor, rows: Rows, classes: Tensor
) -> Tensor:
    """Return the loader's row of each object of a pasted batch, [M] int64; -1 for a paste.

    Args:
        batch: the pasted batch. An object of the loader has its slot, its label, and the slot's number + 1 as its id.
        images: [M] int64, the image of each object.
        slots: [M] int64, its slot.
        rows: the objects of the loader.
        classes: [N] int64, their labels.
    """
    num_slots = max(batch.max_instances, int(rows.slots.max()) + 1) if len(rows.slots) else batch.max_instances
    table = slots.new_full((batch.batch_size, num_slots), -1)
    table[rows.images, rows.slots] = torch.where(rows.areas[rows.kept] > 0, rows.kept, -1)
    row = table[images, slots]
    if not len(classes):
        return row
    is_same = batch.labels[images, slots] == classes[row]
    if batch.instance_ids is not None:
        is_same &= batch.instance_ids[images, slots] == slots + 1
    return torch.where(is_same, row, -1)


def fitted_boxes(boxes: Tensor, masks: Tensor | None, row: Tensor, rows: Rows, like: Batch) -> Tensor:
    """Return boxes (centre x, centre y, width, height) as fractions of the image, [M, 4], if possible the loader's own.

    An object that no paste has changed keeps the box of its row bit for bit. A partly hidden object gets the box of its
    visible pixels, clipped to the box of its row. Others, such as pastes, get ``boxes``.

    Args:
        boxes: [M, 4] xyxy in pixels: of the visible part of each object, or as the module returns it without masks.
        masks: [M, H, W] bool, or None.
        row: [M] int64, the row of each object, -1 if it has none.
        rows: the objects of the loader.
        like: the loader's batch.
    """
    size = like["img"].shape[-2:]
    if not len(rows.boxes):
        return cxcywh(boxes, size).to(like["bboxes"].dtype)
    own = rows.boxes[row]
    if masks is None or rows.masks is None:
        is_whole = (row >= 0) & (boxes == own).all(1)
    else:
        before = rows.masks[row]
        is_whole = (row >= 0) & (masks == before).flatten(1).all(1)
        part = common_boxes(own, boxes)
        is_part = (row >= 0) & (masks <= before).flatten(1).all(1)
        is_part &= (part[:, :2] < part[:, 2:]).all(1)  # the pixels of a thin polygon can lie outside of its box
        boxes = torch.where(is_part[:, None], part, boxes)
    fitted = cxcywh(boxes, size).to(like["bboxes"].dtype)
    return torch.where(is_whole[:, None], like["bboxes"][row], fitted)


def hidden_rows(batch: PaddedBatchedDenseSample, rows: Rows, is_paste: Tensor, like: Batch) -> Tensor:
    """Return the kept objects of the loader that have no pixel, as indices into ``rows.kept``.

    An object without a pixel is kept if no pixel in its box has changed.

    Args:
        batch: the pasted batch.
        rows: the objects of the loader.
        is_paste: [B, K] bool, slots of pastes.
        like: the loader's batch.
    """
    boxes = rows.boxes[rows.kept]
    hidden = ((rows.areas[rows.kept] == 0) & (boxes[:, 2:] > boxes[:, :2]).all(1)).nonzero()[:, 0]
    if rows.masks is None or batch.instance_masks is None or not len(hidden):
        return hidden[:0]
    changed = (batch.images != like["img"]).any(1)
    images, slots = is_paste.nonzero(as_tuple=True)
    for image, slot in zip(images.tolist(), slots.tolist(), strict=True):
        changed[image] |= batch.instance_masks[image, slot]
    edges = outward_boxes(boxes[hidden]).clamp(min=0).tolist()
    places = zip(rows.images[hidden].tolist(), edges, strict=True)
    stays = [not changed[image, y1:y2, x1:x2].any() for image, (x1, y1, x2, y2) in places]
    return hidden[torch.tensor(stays, dtype=torch.bool, device=hidden.device)]


class Moves(NamedTuple):
    """Moves of whole images by a loader, without mosaic, rotation, shear or perspective.

    Attributes:
        scale: smallest factor that it scales images by.
        translate: largest shift, as a fraction of the canvas.
    """

    scale: float
    translate: float


FILLED = 114
"""Grey value of the borders of Ultralytics."""


def borders_of(images: Tensor, hsv_v: float = 0.4, widest: Tensor | None = None) -> Tensor:
    """Return which pixels belong to a grey border, [B, 1, H, W] bool.

    A loader that fits images into a square fills the remaining pixels with grey, on all sides, and may then change the
    brightness. A border therefore consists of whole rows and columns, from an edge inwards, of one such grey. If an
    image has such an edge itself, nothing is pasted there, and nothing else changes.

    Args:
        images: [B, C, H, W] uint8.
        hsv_v: the largest relative change of brightness.
        widest: [B, 2] int64, the largest number of border rows at the top and at the bottom, and of border columns at
            the left and at the right; None sets no limit.
    """
    darkest, brightest = FILLED * (1 - hsv_v) - 1, FILLED * (1 + hsv_v) + 1
    padding = images.new_zeros(len(images), 1, *images.shape[-2:], dtype=torch.bool)
    for dim in (2, 3):
        others = [d for d in (1, 2, 3) if d != dim]
        least, most = images.amin(others), images.amax(others)
        for corner in (0, -1):
            is_filled = (least == most) & (most == images[:, :1, corner, corner])
            is_filled &= (most >= darkest) & (most <= brightest)
            if widest is not None:
                distance = torch.arange(is_filled.shape[1], device=images.device)
                is_filled &= (distance.flip(0) if corner else distance) < widest[:, dim - 2, None]
            reached = (is_filled.flip(1) if corner else is_filled).cumprod(1).bool()
            lines = reached.flip(1) if corner else reached
            padding |= lines[:, None, :, None] if dim == 2 else lines[:, None, None, :]
    return padding


def widest_borders(batch: Batch, moves: Moves) -> Tensor:
    """Return the largest possible numbers of border rows and columns on one side of each image, [B, 2] int64.

    An image is resized to ``ori_shape`` times ``ratio_pad``, shrunk by ``moves.scale`` at most, and its centre is at
    that of the canvas, up to ``moves.translate``. Pixels that it covers in all cases are not border. An image without
    these entries, or with shapes that do not fit the canvas, may have any border.

    Args:
        batch: ``img`` [B, C, H, W]; optionally ``ori_shape``, B pairs (height, width), and ``ratio_pad``, B pairs of
            factors (height, width), or pairs of such a pair and of the padding.
        moves: moves of the loader.
    """
    canvas = batch["img"].shape[-2:]
    widest = torch.tensor(canvas, dtype=torch.int64, device="cpu").repeat(len(batch["img"]), 1)
    for b, (shape, ratio) in enumerate(zip(batch.get("ori_shape", ()), batch.get("ratio_pad", ()), strict=False)):
        factors = ratio[0] if isinstance(ratio[0], tuple | list) else ratio
        sides = [int(side) * float(factor) for side, factor in zip(shape, factors, strict=True)]
        if any(side > whole + 1 for side, whole in zip(sides, canvas, strict=True)):
            continue
        for axis, (side, whole) in enumerate(zip(sides, canvas, strict=True)):
            first = (0.5 + moves.translate) * whole - moves.scale * side / 2
            widest[b, axis] = max(0, math.ceil(first - 1e-3))  # tolerance: sides are rounded to whole pixels
    return widest.to(batch["img"].device)
