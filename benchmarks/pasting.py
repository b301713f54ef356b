"""Contenders of every table: the clone, measured twice, and a step out of place and in place."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_leaves

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.types import PaddedBatchedDenseSample

from .timing import Contender

NUM_DRAWS = 15
"""Of seeds, over which the pasted pixels are counted."""

CLONE, AGAIN, OUT_OF_PLACE, IN_PLACE = "clone", "clone again", "segpaste", "segpaste, in place"


def contenders(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> dict[str, Contender]:
    """By name, on this batch; only the step in place, which has a copy of its own, changes what it is given.

    Every call of a step has other seeds, so that the middle half of the calls is over draws too; the calls of both
    steps have the same ones in the same order.
    """
    paste, in_place = (BatchCopyPaste(config, inplace=inplace).to(batch.device) for inplace in (False, True))
    own = batch.clone()
    return {
        CLONE: Contender(PaddedBatchedDenseSample.clone, lambda: batch),
        AGAIN: Contender(PaddedBatchedDenseSample.clone, lambda: batch),
        OUT_OF_PLACE: Contender(paste, with_seeds(lambda: batch)),
        IN_PLACE: Contender(in_place, with_seeds(lambda: restored(own, batch))),
    }


def with_seeds(fresh: Callable[[], PaddedBatchedDenseSample]) -> Callable[[], PaddedBatchedDenseSample]:
    """Return a function that gives the batch of ``fresh`` with other seeds each time."""
    numbers = itertools.count()
    return lambda: reseeded(fresh(), next(numbers))


def reseeded(batch: PaddedBatchedDenseSample, number: int) -> PaddedBatchedDenseSample:
    """The batch with the seeds of its ``number``-th draw."""
    seeds = torch.arange(batch.batch_size, device=batch.device) + batch.batch_size * number
    return batch.derived(sample_seeds=seeds)


def restored(own: PaddedBatchedDenseSample, batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """``own`` with the values of ``batch``, in the memory that it has."""
    for to, of in zip(tree_leaves(own), tree_leaves(batch), strict=True):
        to.copy_(of)
    return own


def num_bytes(batch: PaddedBatchedDenseSample) -> int:
    """Return the bytes of all tensors."""
    return sum(t.numel() * t.element_size() for t in tree_leaves(batch))


def pasted_pixels(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> int:
    """Return the number of pixels that a step on this batch pastes, seen in its outputs; the median of some draws."""
    paste = BatchCopyPaste(config).to(batch.device)
    reports = [paste(reseeded(batch, number), return_report=True)[1] for number in range(NUM_DRAWS)]
    return statistics.median_low([int((report.visible_layer >= 0).sum()) for report in reports])


def pasted_frac(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> float:
    """Return the same as a share of all pixels."""
    height, width = batch.canvas_size
    return pasted_pixels(batch, config) / (batch.batch_size * height * width)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype, such as ``uint8``."""
    return str(dtype).removeprefix("torch.")
