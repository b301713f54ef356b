"""Batches of Ultralytics' loader as padded batches, and back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from segpaste.integrations._targets import cxcywh, has_object, slots_of
from segpaste.types import KeypointSchema, PaddedBatchedDenseSample, tight_boxes
from segpaste.types.keypoints import UNLABELLED, VISIBLE

Batch = dict[str, Any]


class Moves(NamedTuple):
    """How a loader moves whole images, without mosaic, rotation, shear or perspective.

    Attributes:
        scale: by how much it shrinks them at most, as a factor.
        translate: by how much it shifts them at most, as a part of the canvas.
    """

    scale: float
    translate: float


FILLED = 114
"""The grey that Ultralytics fills borders with."""


def from_yolo(
    batch: Batch,
    max_instances: int,
    *,
    overlap: bool,
    schema: KeypointSchema | None = None,
    hsv_v: float = 0.4,
    moves: Moves | None = None,
) -> PaddedBatchedDenseSample:
    """Return a batch of Ultralytics' loader as a padded batch.

    Borders that the loader has filled with grey are padding, see `borders_of`. They are at most as wide as ``moves``
    and the shapes of the images allow, see `widest_borders`.

    Args:
        batch: ``img`` [B, 3, H, W] uint8; ``batch_idx`` [N]; ``cls`` [N, 1]; ``bboxes`` [N, 4], (centre x, centre y,
            width, height) as fractions of the image; ``masks`` in full resolution, [B, H, W] or [N, H, W];
            ``keypoints`` [N, P, 2 or 3] as fractions. Masks and keypoints may be missing.
        max_instances: K; an image with more objects keeps its largest.
        overlap: masks are one map per image that holds i + 1 where its i-th object is; else one mask per object.
        schema: what the keypoints are called; beside ``keypoints``.
        hsv_v: the loader's change of brightness, which borders went through.
        moves: how the loader moves whole images; None if it does more than that, such as mosaic or rotation, or if that
            is not known. Borders then may have any width.

    Raises:
        ValueError: masks of another size than the images.
    """
    images, image_idx = batch["img"], batch["batch_idx"].long()
    (b, _, height, width), device = images.shape, images.device
    edges = torch.tensor([width, height], dtype=torch.float32, device=device)
    centres, sides = batch["bboxes"][:, :2].float() * edges, batch["bboxes"][:, 2:].float() * edges
    boxes = torch.cat([centres - sides / 2, centres + sides / 2], 1)
    masks = _instance_masks(batch, image_idx, overlap) if "masks" in batch else None
    areas = sides.prod(1) if masks is None else masks.flatten(1).sum(1)
    if masks is not None:
        boxes = tight_boxes(masks) if len(masks) else boxes
    kept, rows, slots = slots_of(image_idx, areas, b, max_instances)
    there = areas[kept] > 0
    kept, rows, slots = kept[there], rows[there], slots[there]

    def placed(values: Tensor, dtype: torch.dtype) -> Tensor:
        out = torch.zeros(b, max_instances, *values.shape[1:], dtype=dtype, device=device)
        out[rows, slots] = values[kept].to(dtype)
        return out

    fields: dict[str, Any] = {}
    if masks is not None:
        fields["instance_masks"] = placed(masks, torch.bool)
        ids = torch.arange(1, max_instances + 1, dtype=torch.int32, device=device).expand(b, -1)
        fields["instance_ids"] = torch.where(placed(areas > 0, torch.bool), ids, 0)
    if schema is not None:
        fields.update(keypoints=placed(_points(batch["keypoints"], edges), torch.float32), keypoint_schema=schema)
    padding = borders_of(images, hsv_v, None if moves is None else widest_borders(batch, moves))
    if masks is not None:
        padding = padding & ~fields["instance_masks"].any(1, keepdim=True)  # what is labelled is image
    fields["padding_mask"] = padding
    valid = placed(torch.ones_like(image_idx), torch.bool)
    labels = placed(batch["cls"].view(-1), torch.int64)
    return PaddedBatchedDenseSample(images, placed(boxes, torch.float32), labels, valid, **fields)


def borders_of(images: Tensor, hsv_v: float = 0.4, widest: Tensor | None = None) -> Tensor:
    """Return which pixels belong to a grey border, [B, 1, H, W] bool.

    A loader that fits images into a square fills up with grey, on all sides, and a change of brightness may follow. So
    a border consists of whole rows and columns, from an edge inwards, that have one such grey everywhere. An image with
    such an edge of its own loses nothing but pastes there.

    Args:
        images: [B, C, H, W] uint8.
        hsv_v: the largest relative change of brightness.
        widest: [B, 2] int64, the most rows at the top and at the bottom, and columns at the left and at the right, that
            can be border; None if all can.
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
    """Return how many rows and how many columns of each image can be border on one side, [B, 2] int64.

    An image is resized to ``ori_shape`` times ``ratio_pad``, shrunk by ``moves.scale`` at most, and its centre lies at
    that of the canvas, up to ``moves.translate``. What it covers then is no border. An image without these entries, or
    with shapes that do not fit the canvas, may have any border.

    Args:
        batch: ``img`` [B, C, H, W]; perhaps ``ori_shape``, B pairs (height, width), and ``ratio_pad``, B pairs of
            factors (height, width), or pairs of such a pair and of the padding.
        moves: of the loader.
    """
    canvas = batch["img"].shape[-2:]
    widest = torch.tensor(canvas).repeat(len(batch["img"]), 1)
    for b, (shape, ratio) in enumerate(zip(batch.get("ori_shape", ()), batch.get("ratio_pad", ()), strict=False)):
        factors = ratio[0] if isinstance(ratio[0], tuple | list) else ratio
        sides = [int(side) * float(factor) for side, factor in zip(shape, factors, strict=True)]
        if any(side > whole + 1 for side, whole in zip(sides, canvas, strict=True)):
            continue
        for axis, (side, whole) in enumerate(zip(sides, canvas, strict=True)):
            first = (0.5 + moves.translate) * whole - moves.scale * side / 2
            widest[b, axis] = max(0, math.ceil(first - 1e-3))  # of side in whole pixels
    return widest.to(batch["img"].device)


def _instance_masks(batch: Batch, image_idx: Tensor, overlap: bool) -> Tensor:
    """Return one mask per object, [N, H, W] bool."""
    masks, images = batch["masks"], batch["img"]
    if masks.shape[-2:] != images.shape[-2:]:
        raise ValueError(
            f"masks: expected the size of the images, {list(images.shape[-2:])}, got {list(masks.shape[-2:])}; "
            "load with mask_ratio=1"
        )
    if not overlap:
        return torch.as_tensor(masks > 0)
    counts = torch.bincount(image_idx, minlength=len(images))
    number = torch.arange(1, len(image_idx) + 1, device=images.device) - (counts.cumsum(0) - counts)[image_idx]
    return torch.as_tensor(masks[image_idx] == number[:, None, None])


def _points(keypoints: Tensor, edges: Tensor) -> Tensor:
    """Return keypoints [N, P, 3] in pixels; those outside of the image, or at (0, 0) without v, are unlabelled."""
    places = keypoints[..., :2].float()
    v = keypoints[..., 2:] if keypoints.shape[-1] == 3 else (places != 0).any(-1, keepdim=True) * VISIBLE
    inside = ((places >= 0) & (places <= 1)).all(-1, keepdim=True)
    return torch.cat([places * edges, v.float()], -1).masked_fill((v == UNLABELLED) | ~inside, 0.0)


def schema_of(data: dict[str, Any]) -> KeypointSchema:
    """Return the schema of a dataset's YAML: its points by number, and the pairs of ``flip_idx``."""
    num = data["kpt_shape"][0]
    order = data.get("flip_idx") or range(num)
    pairs = tuple((point, other) for point, other in enumerate(order) if point < other)
    return KeypointSchema(tuple(f"point {i}" for i in range(num)), flip_pairs=pairs)


def to_yolo(batch: PaddedBatchedDenseSample, *, like: Batch, mask_ratio: int, overlap: bool) -> Batch:
    """Return the fields of Ultralytics' loader that a paste changes: the inverse of `from_yolo`.

    Args:
        batch: the pasted batch.
        like: the loader's batch, for the fields that it has and their dtypes.
        mask_ratio: masks have the images' size over this.
        overlap: masks as one map per image, in which the smaller object wins, with objects in order of descending area;
            else one mask per object.

    Returns:
        ``img``, ``batch_idx`` [M], ``cls`` [M, 1], ``bboxes`` [M, 4] and, as ``like`` has them, ``masks``,
        ``sem_masks`` [B, h, w], the class of each pixel (0 where there is no object), and ``keypoints``.
    """
    rows, slots = has_object(batch).nonzero(as_tuple=True)
    masks = None
    if "masks" in like and batch.instance_masks is not None:
        masks = _reduced(batch.instance_masks[rows, slots], mask_ratio)
        if overlap:
            order = torch.argsort(masks.flatten(1).sum(1), descending=True, stable=True)
            order = order[torch.argsort(rows[order], stable=True)]
            rows, slots, masks = rows[order], slots[order], masks[order]
    boxes, labels = batch.boxes[rows, slots], batch.labels[rows, slots]
    out: Batch = {
        "img": batch.images,
        "batch_idx": rows.to(like["batch_idx"].dtype),
        "cls": labels[:, None].to(like["cls"].dtype),
        "bboxes": cxcywh(boxes, batch.canvas_size).to(like["bboxes"].dtype),
    }
    if masks is not None:
        smallest_last = torch.argsort(masks.flatten(1).sum(1), stable=True).flip(0)
        order = torch.arange(len(rows), device=rows.device) if overlap else smallest_last
        shown = _shown(masks, rows, order, batch.batch_size)
        first = torch.searchsorted(rows, torch.arange(batch.batch_size, device=rows.device))
        numbers = torch.where(shown >= 0, shown - first[:, None, None] + 1, 0)
        holds = torch.uint8 if not numbers.numel() or int(numbers.max()) < 256 else torch.int32  # as the loader does
        out["masks"] = numbers.to(holds) if overlap else masks.to(torch.uint8)
        if "sem_masks" in like:
            classes = torch.cat([labels, labels.new_zeros(1)])[shown]  # -1 is the last
            out["sem_masks"] = classes.to(like["sem_masks"].dtype)
    if batch.keypoints is not None:
        points = batch.keypoints[rows, slots, :, : like["keypoints"].shape[-1]].clone()
        height, width = batch.canvas_size
        points[..., :2] /= torch.tensor([width, height], dtype=points.dtype, device=points.device)
        out["keypoints"] = points.to(like["keypoints"].dtype)
    return out


def _reduced(masks: Tensor, ratio: int) -> Tensor:
    """Return masks [N, H, W] bool at 1 / ``ratio`` of their size, as OpenCV's linear resize of 0 and 1 gives them."""
    if ratio == 1 or not len(masks):
        return masks[:, : masks.shape[1] // ratio, : masks.shape[2] // ratio]
    size = masks.shape[1] // ratio, masks.shape[2] // ratio
    smooth = interpolate(masks[:, None].float(), size, mode="bilinear", align_corners=False)
    return torch.as_tensor(smooth[:, 0] >= 0.5)


def _shown(masks: Tensor, rows: Tensor, order: Tensor, batch_size: int) -> Tensor:
    """Return the object that is seen at each pixel, [B, h, w] int64: its index in the flat list, -1 if there is none.

    Args:
        masks: [M, h, w] bool.
        rows: [M] int64, the image of each.
        order: [M] int64, indices of objects; each is seen before those that precede it.
        batch_size: B.
    """
    depth = torch.empty_like(order, dtype=torch.int32)
    depth[order] = torch.arange(1, len(order) + 1, dtype=torch.int32, device=order.device)
    pixels = masks.flatten(1) * depth[:, None]
    top = torch.zeros(batch_size, pixels.shape[1], dtype=torch.int32, device=masks.device)
    top.scatter_reduce_(0, rows[:, None].expand_as(pixels), pixels, "amax")
    return torch.cat([order.new_full((1,), -1), order])[top.long()].view(batch_size, *masks.shape[1:])
