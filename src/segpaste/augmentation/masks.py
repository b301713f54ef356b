"""Masks and slots that a paste adds to a batch, and images of boxes without masks, which take no paste.

A box does not say which pixels its object has. So ``source.mask_from`` must say how masks are made from boxes. Without
it crops are pasted into images without objects, but not into an image of boxes, which keeps its boxes. Which images
these are stays a tensor, so that nothing waits for the device.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.augmentation.config.base import mask_function
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.engine import Outcome, Survey
from segpaste.engine.planes import ROWS
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.sampling import box_masks, outward_boxes
from segpaste.types.tracing import is_traced

_FARTHEST_PX = 1 << 14
"""Largest coordinate of an edge of an ellipse's box; beyond it products of four sides would exceed 64 bits."""


class Spared(NamedTuple):
    """Images of boxes without masks.

    Attributes:
        images: [B] bool, the images that take no paste.
        rows: their instance fields before the paste, by name.
    """

    images: Tensor
    rows: dict[str, Tensor]

    def without_room(self, found: Survey) -> Survey:
        """Return a survey in which these images have no free slot."""
        return found._replace(num_free=found.num_free.masked_fill(self.images, 0))

    def restored(self, outcome: Outcome, *, in_place: bool) -> Outcome:
        """Return an outcome in which these images have the instances that they had."""
        fields = {}
        for name, before in self.rows.items():
            after = getattr(outcome.batch, name)
            kept = torch.where(self.images.view(-1, *[1] * (before.ndim - 1)), before, after)
            fields[name] = after.copy_(kept) if in_place else kept
        return outcome._replace(batch=outcome.batch.derived(**fields))


def spared(
    target: PaddedBatchedDenseSample, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig, *, copied: bool
) -> Spared | None:
    """Return the images that take no paste; None if the batch was given with masks, or ``mask_from`` makes them.

    Args:
        target: batch as it was given.
        batch: the same, prepared.
        config: config of the paste.
        copied: True if the batch is about to be overwritten.
    """
    is_ready = target.instance_masks is not None or batch.instance_masks is None or config.emit_classmix
    if is_ready or config.source.mask_from is not None:
        return None
    rows = {name: value for name in ROWS if (value := getattr(batch, name)) is not None}
    rows = {name: value.clone() for name, value in rows.items()} if copied else rows
    return Spared(batch.instance_valid.any(1), rows)


def with_masks_for_crops(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> PaddedBatchedDenseSample:
    """Add empty masks to a batch without masks if crops are pasted; images of boxes get no paste, see `Spared`."""
    is_ready = batch.instance_masks is not None or batch.panoptic_maps is not None
    takes = config.source.kind == "bank" and config.source.mask_from is None and not config.emit_classmix
    return with_masks_of_no_pixel(batch) if takes and not is_ready else batch


def checked_slots(batch: PaddedBatchedDenseSample, num_slots: int | None) -> int:
    """Return the number of slots to extend a batch to: its own if ``num_slots`` is None.

    Raises:
        ValueError: the batch has more.
    """
    if num_slots is None:
        return batch.max_instances
    if num_slots < batch.max_instances:
        raise ValueError(
            f"BatchCopyPaste: expected max_instances >= the batch's {batch.max_instances} slots, got {num_slots}; "
            "raise max_instances in the config, or pad the batch to fewer slots"
        )
    return num_slots


def with_box_masks(batch: PaddedBatchedDenseSample, mask_from: str) -> PaddedBatchedDenseSample:
    """Add masks made from boxes, and ids by slot, to a batch without masks.

    Raises:
        ValueError: a custom function did not return masks.
    """
    masks = box_masks(batch.boxes, batch.canvas_size)
    if mask_from == "ellipse":
        rows, cols = (torch.arange(side, device=batch.device) for side in batch.canvas_size)
        masks = masks & _ellipses(batch.boxes, rows, cols)
    elif mask_from != "boxes":
        drawn = _checked(mask_function(mask_from)(batch.images, batch.boxes, batch.instance_valid), masks, mask_from)
        inside = masks & drawn
        masks = torch.where(inside.flatten(2).any(2)[..., None, None], inside, masks)
    slots = torch.arange(1, batch.max_instances + 1, device=batch.device, dtype=torch.int32)
    return batch.derived(
        instance_masks=masks & batch.instance_valid[..., None, None],
        instance_ids=slots * batch.instance_valid,
    )


def _ellipses(boxes: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Return the pixels [B, K, H, W] that touch the ellipse in each box; values outside of the box have no meaning.

    A pixel touches the ellipse if its point nearest to the centre is inside, so the bounding box of the mask is the
    given box. Coordinates are integers in half pixels, so that all devices agree.
    """
    x1, y1, x2, y2 = outward_boxes(boxes).clamp(-_FARTHEST_PX, _FARTHEST_PX).unsqueeze(-1).unbind(-2)
    width, height = x2 - x1, y2 - y1
    across = ((2 * cols + 1 - x1 - x2).abs() - 1).clamp(min=0).minimum(width) * height
    down = ((2 * rows + 1 - y1 - y2).abs() - 1).clamp(min=0).minimum(height) * width
    return (down * down)[..., None] + (across * across)[..., None, :] < (width * height).square()[..., None]


def _checked(drawn: object, masks: Tensor, name: str) -> Tensor:
    if not isinstance(drawn, Tensor) or drawn.dtype != torch.bool or drawn.shape != masks.shape:
        got = f"{drawn.dtype} {list(drawn.shape)}" if isinstance(drawn, Tensor) else type(drawn).__name__
        raise ValueError(
            f"BatchCopyPaste: expected masks {list(masks.shape)} bool from source.mask_from={name!r}, got {got}; "
            "return a mask for each slot"
        )
    return drawn


def with_masks_of_no_pixel(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Add masks without a pixel, and ids by slot, to a batch without masks."""
    slots = torch.arange(1, batch.max_instances + 1, device=batch.device, dtype=torch.int32)
    masks = torch.zeros(*batch.boxes.shape[:2], *batch.canvas_size, dtype=torch.bool, device=batch.device)
    return batch.derived(instance_masks=masks, instance_ids=slots * batch.instance_valid)


def with_empty_masks(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Add empty masks to a batch that has neither instances nor masks.

    Instances raise an error on the CPU outside of compiled code; elsewhere they are left out.
    """
    if not is_traced() and batch.device.type == "cpu" and bool(batch.instance_valid.any()):
        raise ValueError(
            "BatchCopyPaste: expected instance masks with the boxes because emit_classmix=True, got boxes only; set "
            "source.mask_from='boxes', or leave the boxes out"
        )
    shape = *batch.boxes.shape[:2], *batch.canvas_size
    num_ids, num_pixels = 4 * batch.labels.numel(), math.prod(shape)
    zeros = torch.zeros(num_ids + num_pixels, dtype=torch.uint8, device=batch.device)  # one launch for both
    return batch.derived(
        instance_masks=zeros[num_ids:].view(torch.bool).view(shape),
        instance_ids=zeros[:num_ids].view(torch.int32).view(batch.labels.shape),
    )
