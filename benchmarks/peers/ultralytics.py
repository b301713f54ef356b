"""`CopyPaste` of Ultralytics in its mode ``mixup``: the objects of another image of the same batch, all that fit."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from ultralytics.data.augment import CopyPaste
from ultralytics.data.utils import polygons2masks
from ultralytics.utils.instance import Instances

from segpaste.types import PaddedBatchedDenseSample

from ..timing import Contender

Labels = dict[str, Any]


class _Images:
    """The batch as the dataset that the transform draws its second image from."""

    def __init__(self, labels: list[Labels]) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def get_image_and_label(self, index: int) -> Labels:
        return self.labels[index]


def prepare(batch: PaddedBatchedDenseSample) -> Contender:
    """The transform on each image; a dictionary is changed by it, so each call gets new ones."""
    cv2.setNumThreads(torch.get_num_threads())
    images = [_labels(batch, b) for b in range(batch.batch_size)]
    transform = CopyPaste(dataset=_Images(images), p=1.0, mode="mixup")
    return Contender(lambda given: [transform(labels) for labels in given], lambda: [dict(labels) for labels in images])


def prepare_with_masks(batch: PaddedBatchedDenseSample) -> Contender:
    """The same, and a mask from each polygon, as its loader makes them."""
    pasted = prepare(batch)

    def call(given: list[Labels]) -> list[Any]:
        return [polygons2masks(batch.canvas_size, out["instances"].segments, 1) for out in pasted.call(given)]  # type: ignore[attr-defined]

    return Contender(call, pasted.fresh)


def _labels(batch: PaddedBatchedDenseSample, b: int) -> Labels:
    """One image with polygons: the four corners of each box."""
    boxes = batch.boxes[b][batch.instance_valid[b]].numpy()
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    return {
        "img": np.ascontiguousarray(batch.images[b].permute(1, 2, 0).numpy()),
        "cls": batch.labels[b][batch.instance_valid[b]].numpy().astype(np.float32)[:, None],
        "instances": Instances(boxes, corners, bbox_format="xyxy", normalized=False),
    }
