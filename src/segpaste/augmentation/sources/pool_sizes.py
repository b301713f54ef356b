"""Warning about a pool whose objects are much larger than those of the batch, because only the batch was resized."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.bank import InstanceBank
from segpaste.types import PaddedBatchedDenseSample

MOST_TIMES = 2.0
"""Ratio of sizes up to which nothing is said; ``placement.scale_range`` covers it by default."""

_MOST_CROPS = 16


def oversized_warning(
    bank: InstanceBank, crop_idx: Tensor, target: PaddedBatchedDenseSample, config: BatchCopyPasteConfig
) -> str | None:
    """Return a message if pastes are more than `MOST_TIMES` as large as their image, resized to the target, shows them.

    A loader may also cut its images to size. So the objects of the batch must be smaller than the pastes, too. Sizes of
    a crop are compared at the middle of ``placement.scale_range``.

    Args:
        bank: bank of the crops, which must keep provenance; else None is returned.
        crop_idx: [B, K] int64, crops that were drawn.
        target: batch that they are pasted into; its boxes are read, which waits for its device.
        config: config of the paste.
    """
    place = config.placement
    has_sizes = place.size_range is not None or bool(place.class_sizes)
    if has_sizes or (place.patch_aligned_paste and place.align == "canvas"):
        return None  # sizes in pixels of the target
    if not {"source_size", "source_box", "scale"} <= set(bank.layout.shapes):
        return None
    rows = bank.read(np.unique(crop_idx.cpu().numpy())[:_MOST_CROPS], columns=["source_size", "source_box", "scale"])
    known = (rows["source_size"] > 0).all(1)
    own = target.boxes[target.instance_valid].cpu().numpy()
    if not known.any() or not len(own):
        return None
    sizes, boxes = rows["source_size"][known], rows["source_box"][known]
    middle = math.sqrt(math.prod(place.scale_range))
    scales = middle * (rows["scale"][known] if config.source.relative_to == "crop" else np.ones(len(boxes)))
    fit = np.minimum(1.0, (target.canvas_size / sizes).min(1))
    times = float(np.median(scales / fit))
    pasted, there = (float(np.median(_longer_sides(found))) for found in (boxes * scales[:, None], own))
    if times <= MOST_TIMES or pasted <= MOST_TIMES * there:
        return None
    height, width = target.canvas_size
    return (
        f"source_pool: pastes are {times:.1f} times as large as their objects are in an image resized to {height} x "
        f"{width}; shrink images before objects are cut out of them, with fit_into=({height}, {width}) of DatasetBank "
        "or build_bank, or set placement.scale_range or size_range"
    )


def _longer_sides(boxes: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).max(1))
