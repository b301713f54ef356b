"""`CopyPaste` of MMDetection: a random number of the neighbour's objects onto each image."""

from __future__ import annotations

from typing import Any

import numpy as np
from mmdet.datasets.transforms import CopyPaste
from mmdet.structures.bbox import HorizontalBoxes
from mmdet.structures.mask import BitmapMasks

from segpaste.types import PaddedBatchedDenseSample

from ..timing import Contender

Results = dict[str, Any]


def prepare(batch: PaddedBatchedDenseSample) -> Contender:
    """The transform on each image; it changes both dictionaries, so each call gets new ones."""
    transform = CopyPaste()
    images = [_arrays(batch, b) for b in range(batch.batch_size)]

    def fresh() -> list[Results]:
        return [{**_results(of), "mix_results": [_results(images[b - 1])]} for b, of in enumerate(images)]

    return Contender(lambda given: [transform.transform(results) for results in given], fresh)


def _arrays(batch: PaddedBatchedDenseSample, b: int) -> Results:
    assert batch.instance_masks is not None
    valid = batch.instance_valid[b]
    return {
        "img": np.ascontiguousarray(batch.images[b].permute(1, 2, 0).numpy()),
        "masks": batch.instance_masks[b][valid].numpy().astype(np.uint8),
        "boxes": batch.boxes[b][valid],
        "labels": batch.labels[b][valid].numpy(),
    }


def _results(arrays: Results) -> Results:
    """Return the results of the loading transforms for an image; nothing is copied."""
    masks = arrays["masks"]
    return {
        "img": arrays["img"],
        "gt_bboxes": HorizontalBoxes(arrays["boxes"]),
        "gt_bboxes_labels": arrays["labels"],
        "gt_masks": BitmapMasks(masks, *masks.shape[1:]),
        "gt_ignore_flags": np.zeros(len(masks), bool),
    }
