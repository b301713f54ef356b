"""`CopyAndPaste` of AlbumentationsX: half of the neighbour's objects, scaled by 0.5 to 1, onto each image."""

from __future__ import annotations

import random
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch

from segpaste.types import PaddedBatchedDenseSample

from ..timing import Contender

Sample = dict[str, Any]


def prepare(batch: PaddedBatchedDenseSample) -> Contender:
    """The transform on each image, in a pipeline that carries masks, boxes and labels."""
    cv2.setNumThreads(torch.get_num_threads())
    boxes = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
    pipeline = A.Compose([A.CopyAndPaste(scale_range=(0.5, 1.0), p=1.0)], bbox_params=boxes, telemetry=False)
    samples = [_sample(batch, b) for b in range(batch.batch_size)]
    donors = [_donors(samples[b - 1]) for b in range(batch.batch_size)]

    def call(given: list[Sample]) -> list[Sample]:
        return [
            pipeline(**sample, copy_paste_metadata=random.sample(objects, max(1, len(objects) // 2)))
            for sample, objects in zip(given, donors, strict=True)
        ]

    return Contender(call, lambda: samples)


def _sample(batch: PaddedBatchedDenseSample, b: int) -> Sample:
    assert batch.instance_masks is not None
    valid = batch.instance_valid[b]
    return {
        "image": np.ascontiguousarray(batch.images[b].permute(1, 2, 0).numpy()),
        "masks": batch.instance_masks[b][valid].to(torch.uint8).numpy(),
        "bboxes": batch.boxes[b][valid].numpy(),
        "labels": batch.labels[b][valid].numpy(),
    }


def _donors(sample: Sample) -> list[Sample]:
    """The objects of a sample, one by one."""
    return [
        {"image": sample["image"], "mask": mask, "bbox_labels": {"labels": int(label)}}
        for mask, label in zip(sample["masks"], sample["labels"], strict=True)
    ]
