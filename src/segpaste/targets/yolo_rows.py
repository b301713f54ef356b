"""Rows of a batch of Ultralytics: their masks and slots, and the values that they keep after a paste."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.targets.boxes import cxcywh, edges_of, xyxy
from segpaste.targets.objects import slots_of
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
