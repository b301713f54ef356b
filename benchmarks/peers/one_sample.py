"""AlbumentationsX on one sample at a time, for `benchmarks.one_sample`.

It takes a donor in memory, or four whose photos are decoded for the call.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from segpaste import open_bank
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

NUM_SAMPLES, NUM_DONORS = 50, 4
Call = Callable[[], object]


def calls(dataset: Any, bank: Path, case: str) -> Iterator[Call]:
    """Yield calls of a case on one sample after another, without end."""
    cv2.setNumThreads(1)
    samples = [dataset[i] for i in range(min(NUM_SAMPLES, len(dataset)))]
    batches = [as_batch(sample) for sample in samples if sample.num_instances]
    if case == "albumentationsx":
        yield from _albumentations(batches, open_bank(bank))
    else:
        yield from _albumentations_of_files(batches, dataset)


def as_batch(sample: DenseSample) -> PaddedBatchedDenseSample:
    """The sample as a batch of one."""
    return BatchedDenseSample.from_samples([sample]).to_padded(sample.num_instances)


def _pipeline() -> Any:
    import albumentations as A

    boxes = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
    return A.Compose([A.CopyAndPaste(scale_range=(0.5, 1.0), p=1.0)], bbox_params=boxes, telemetry=False)


def _albumentations(batches: list[PaddedBatchedDenseSample], bank: Any) -> Iterator[Call]:
    from .albumentationsx import _sample

    pipeline, given = _pipeline(), [_sample(batch, 0) for batch in batches]
    crops = [bank[i] for i in range(min(len(bank), 500))]
    donors = [_donor(np.ascontiguousarray(c.image.transpose(1, 2, 0)), c.alpha[0], c.class_id) for c in crops]
    while True:
        for sample in given:
            yield lambda sample=sample: pipeline(**sample, copy_paste_metadata=[random.choice(donors)])


def _albumentations_of_files(batches: list[PaddedBatchedDenseSample], dataset: Any) -> Iterator[Call]:
    from pycocotools import mask as coco

    from .albumentationsx import _sample

    pipeline, given = _pipeline(), [_sample(batch, 0) for batch in batches]
    objects = [(i, row) for i in range(len(dataset)) for row in dataset.annotation_rows(i) if not row["iscrowd"]]

    def donor() -> dict[str, Any]:
        index, row = random.choice(objects)
        image = cv2.cvtColor(cv2.imread(str(dataset.path_of(index))), cv2.COLOR_BGR2RGB)
        mask = coco.decode(coco.merge(coco.frPyObjects(row["segmentation"], *image.shape[:2])))
        return _donor(image, mask, 0)

    while True:
        for sample in given:
            yield lambda sample=sample: pipeline(**sample, copy_paste_metadata=[donor() for _ in range(NUM_DONORS)])


def _donor(image: Any, mask: Any, label: int) -> dict[str, Any]:
    return {"image": image, "mask": mask.astype(np.uint8), "bbox_labels": {"labels": label}}
