"""Instance segmentation with class maps, centres and offsets: targets, decoding, and average precision.

Every pixel of an object points to the object's centre; pixels that point to the same peak of the centre map are one
object. After Cheng et al., "Panoptic-DeepLab: A Simple, Strong, and Fast Baseline for Bottom-Up Panoptic Segmentation",
CVPR 2020. Not for crowds, whose centres are closer than `_NEAR_PX`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from pycocotools import mask as rle
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import Tensor
from torch.nn import functional as F

from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

IGNORED = 255
_SPREAD_PX = 3.0
_NEAR_PX = 7
_LEAST_PEAK = 0.1
_MOST_OBJECTS = 40
_OFFSET_PX = 16.0  # unit of the offsets
_CENTER_WEIGHT, _OFFSET_WEIGHT = 20.0, 0.5


class Found(NamedTuple):
    """Objects of one image.

    Attributes:
        masks: [N, H, W] bool.
        labels: [N] int64.
        scores: [N] in [0, 1].
    """

    masks: Tensor
    labels: Tensor
    scores: Tensor


def num_outputs(num_classes: int) -> int:
    """Return the channels of a model: background and classes, the centre, and two offsets."""
    return num_classes + 4


def loss_of(outputs: Tensor, batch: PaddedBatchedDenseSample) -> Tensor:
    """Return cross-entropy of the classes, plus squared error of the centres, plus absolute error of the offsets."""
    maps, centers, offsets, known = targets_of(batch)
    loss = F.cross_entropy(outputs[:, :-3], maps, ignore_index=IGNORED)
    squared = (outputs[:, -3].sigmoid() - centers) ** 2
    is_object = (maps > 0) & known
    error = (outputs[:, -2:] - offsets).abs().sum(1)
    loss = loss + _CENTER_WEIGHT * (squared * known).sum() / known.sum().clamp(min=1)
    return loss + _OFFSET_WEIGHT * (error * is_object).sum() / is_object.sum().clamp(min=1)


def targets_of(batch: PaddedBatchedDenseSample) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return class maps [B, H, W], centres [B, H, W] in [0, 1], offsets [B, 2, H, W], and what is not padding, bool."""
    masks = (not_none(batch.instance_masks).as_subclass(Tensor) & batch.instance_valid[..., None, None]).float()
    height, width = masks.shape[-2:]
    rows, columns = torch.arange(height).float(), torch.arange(width).float()
    areas = masks.sum((2, 3)).clamp(min=1)
    y = (masks.sum(3) * rows).sum(2) / areas
    x = (masks.sum(2) * columns).sum(2) / areas
    down, across = rows - y[..., None], columns - x[..., None]
    near_y, near_x = (torch.exp(-(d**2) / (2 * _SPREAD_PX**2)) for d in (down, across))
    peaks = near_y[..., :, None] * near_x[..., None, :] * batch.instance_valid[..., None, None]
    offsets = (
        torch.stack([-(masks * down[..., :, None]).sum(1), -(masks * across[..., None, :]).sum(1)], 1) / _OFFSET_PX
    )
    maps = (masks * (batch.labels + 1)[..., None, None]).amax(1).long()
    known = torch.ones_like(maps, dtype=torch.bool)
    if batch.padding_mask is not None:
        known = ~batch.padding_mask.as_subclass(Tensor)[:, 0]
    return maps.masked_fill(~known, IGNORED), peaks.amax(1), offsets, known


@torch.no_grad()
def decoded(output: Tensor) -> Found:
    """Return the objects of one image from the outputs [C, H, W] of a model."""
    probabilities = output[:-3].softmax(0)
    classes = probabilities.argmax(0)
    heat = output[-3].sigmoid()
    is_peak = (F.max_pool2d(heat[None], _NEAR_PX, 1, _NEAR_PX // 2)[0] == heat) & (heat > _LEAST_PEAK)
    peaks = is_peak.nonzero()
    peaks = peaks[heat[is_peak].argsort(descending=True)[:_MOST_OBJECTS]]
    y, x = torch.meshgrid(torch.arange(heat.shape[0]), torch.arange(heat.shape[1]), indexing="ij")
    pointed = torch.stack([y, x], -1) + output[-2:].permute(1, 2, 0) * _OFFSET_PX
    if not len(peaks):
        return Found(torch.zeros(0, *heat.shape, dtype=torch.bool), torch.zeros(0, dtype=torch.int64), torch.zeros(0))
    owner = torch.cdist(pointed.reshape(-1, 2), peaks.float()).argmin(1).reshape(heat.shape)
    masks = (owner == torch.arange(len(peaks))[:, None, None]) & (classes > 0)
    areas = masks.sum((1, 2))
    masks, peaks, areas = masks[areas > 0], peaks[areas > 0], areas[areas > 0]
    shares = torch.einsum("nhw,chw->nc", masks.float(), probabilities[1:]) / areas[:, None]
    best, labels = shares.max(1)
    return Found(masks, labels, best * heat[peaks[:, 0], peaks[:, 1]])


def average_precision(truth: Sequence[Found], found: Sequence[Found], num_classes: int) -> dict[str, float]:
    """Return mask AP over the thresholds 0.5 to 0.95, and AP50, by pycocotools."""
    height, width = truth[0].masks.shape[-2:]
    images = [{"id": i, "height": height, "width": width} for i in range(len(truth))]
    annotations = [entry for i, objects in enumerate(truth) for entry in _entries(i, objects)]
    for number, entry in enumerate(annotations, 1):
        entry["id"] = number
    coco = COCO()
    coco.dataset = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": c, "name": str(c)} for c in range(num_classes)],
    }
    results = [entry for i, objects in enumerate(found) for entry in _entries(i, objects)]
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints
        coco.createIndex()
        if not results:
            return {"ap": 0.0, "ap50": 0.0}
        evaluation = COCOeval(coco, coco.loadRes(results), "segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {"ap": float(evaluation.stats[0]), "ap50": float(evaluation.stats[1])}


def _entries(image_id: int, objects: Found) -> list[dict[str, Any]]:
    """Return the objects of an image as COCO annotations."""
    entries = []
    for mask, label, score in zip(objects.masks, objects.labels.tolist(), objects.scores.tolist(), strict=True):
        coded = rle.encode(np.asfortranarray(mask.numpy().astype(np.uint8)))
        area, box = float(rle.area(coded)), rle.toBbox(coded).tolist()
        entry = {"image_id": image_id, "category_id": label, "segmentation": coded, "score": score}
        entries.append({**entry, "area": area, "bbox": box, "iscrowd": 0})
    return entries
