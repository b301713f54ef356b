"""Warning if the crops of a bank are much larger or smaller than the objects of the batches that they are pasted into.

The usual cause is a loader that resizes images: the objects of the batch shrink, and those of the bank do not.
"""

from __future__ import annotations

import math
from collections import defaultdict

import torch
from torch import Tensor

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.types import PaddedBatchedDenseSample, StagedCrops

MOST_TIMES = 2.0
"""Largest ratio of sizes without a warning; the smallest is its inverse."""

ENOUGH = 32
"""Number of pairs, an object of a batch and a paste of its class, that suffice for an answer."""

MOST_BATCHES = 32
"""Number of batches after which the comparison ends without an answer."""


class PasteSizes:
    """Comparison of pastes with the objects of their batch, class by class, over the first batches.

    Objects of different classes are not compared, because rare ones may be larger. The size of an object is the longer
    side of its box, that of a paste at the middle of ``placement.scale_range``.

    Args:
        config: config of the paste. If it sets sizes in pixels, nothing is compared.

    Attributes:
        is_done: True if no further batch is needed.
    """

    def __init__(self, config: BatchCopyPasteConfig) -> None:
        place = config.placement
        self._relative_to = config.source.relative_to
        self._middle = math.sqrt(math.prod(place.scale_range))
        self._own: defaultdict[int, list[float]] = defaultdict(list)
        self._pasted: defaultdict[int, list[float]] = defaultdict(list)
        self._num_batches = 0
        is_on_canvas = place.patch_aligned_paste and place.align == "canvas"
        self.is_done = place.draws_sizes or is_on_canvas or config.source.kind != "bank"

    def message(self, staged: StagedCrops, target: PaddedBatchedDenseSample) -> str | None:
        """Add a batch on the CPU with its crops; return what to warn of, once it is known."""
        if self.is_done or target.device.type != "cpu":
            return None
        self._add(staged, target)
        common = [(own, self._pasted[label]) for label, own in self._own.items() if label in self._pasted]
        weights = [min(len(own), len(pasted)) for own, pasted in common]
        self.is_done = sum(weights) >= ENOUGH or self._num_batches >= MOST_BATCHES
        if sum(weights) < ENOUGH:
            return None
        logs = [math.log(_median(pasted) / _median(own)) for own, pasted in common]
        times = math.exp(sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights))
        if 1 / MOST_TIMES <= times <= MOST_TIMES:
            return None
        found = f"BatchCopyPaste: pastes are {times:.2g} times as large as the batch's objects of their classes; "
        remedy = "set placement.scale_range or size_range"
        if times < 1:
            return found + remedy
        height, width = target.canvas_size
        fit = f"if your loader resizes images, give fit_into=({height}, {width}) to DatasetBank or build_bank; else "
        return found + fit + remedy

    def _add(self, staged: StagedCrops, target: PaddedBatchedDenseSample) -> None:
        self._num_batches += 1
        sides = _longer_sides(staged.boxes).double() * self._middle
        if self._relative_to == "photo" and staged.scales is not None:
            sides = sides / staged.scales
        _extend(self._pasted, staged.class_ids, sides)
        _extend(self._own, target.labels, torch.where(target.instance_valid, _longer_sides(target.boxes).double(), 0.0))


def _longer_sides(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).amax(-1)


def _extend(found: defaultdict[int, list[float]], labels: Tensor, sides: Tensor) -> None:
    for label, side in zip(labels.flatten().tolist(), sides.flatten().tolist(), strict=True):
        if side > 0:
            found[label].append(side)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
