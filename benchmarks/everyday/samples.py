"""Cases of one sample at a time: CPU milliseconds of a paste into a sample in memory, in what is a worker to torch."""

from __future__ import annotations

import contextlib
import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker
from torchvision import tv_tensors

from segpaste import BatchCopyPasteConfig, open_bank
from segpaste.bank import DatasetBank
from segpaste.datasets import open_dataset
from segpaste.experimental import CopyPaste
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

from .. import timing
from .turns import Data, Figures

NUM_SAMPLES, NUM_DONORS, NUM_CROPS = 50, 4, 500


def timed(calls: Iterator[Callable[[], object]], num: int) -> Iterator[Figures]:
    """Yield the median CPU milliseconds of a call, over ``num`` calls; as many are not timed before."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with _as_worker():
        for call in itertools.islice(calls, num):
            call()
    while True:
        with _as_worker():
            median = statistics.median(map(timing.cpu_clock, itertools.islice(calls, num)))
        yield {"CPU ms": median}


@contextlib.contextmanager
def _as_worker() -> Iterator[None]:
    """Let `torch.utils.data.get_worker_info` say that this is a worker."""
    worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=None)
    try:
        yield
    finally:
        worker._worker_info = None


def opened(data: Data) -> Any:
    """Return the dataset."""
    return open_dataset(Path(data.dataset), images_dir=data.images and Path(data.images))


def _config(num: int) -> BatchCopyPasteConfig:
    """A paste of so many objects into every image."""
    placement = {"paste_prob": 1.0, "k_range": (num, num), "layers": num, "grouping": "instance"}
    return BatchCopyPasteConfig(placement=placement)


def _samples(data: Data) -> list[DenseSample]:
    dataset = opened(data)
    samples = [dataset[i] for i in range(min(NUM_SAMPLES, len(dataset)))]
    return [sample for sample in samples if sample.num_instances]


def _pasted(transform: CopyPaste, inputs: list[tuple[Any, ...]], num: int) -> Iterator[Figures]:
    return timed((lambda given=given: transform(*given) for given in itertools.cycle(inputs)), num)


def _pair(sample: DenseSample) -> tuple[Any, dict[str, Any]]:
    """The sample as torchvision's dataset of COCO gives it, with masks of bytes."""
    assert sample.instance_masks is not None
    masks = tv_tensors.Mask(sample.instance_masks.as_subclass(torch.Tensor).to(torch.uint8))
    return sample.image, {"boxes": sample.boxes, "labels": sample.labels, "masks": masks}


def of_pair(data: Data) -> Iterator[Figures]:
    """One object of a bank into an image and a target of torchvision."""
    transform = CopyPaste(open_bank(data.bank), _config(1), label_map=0)
    return _pasted(transform, [_pair(sample) for sample in _samples(data)], data.calls)


def of_sample(data: Data) -> Iterator[Figures]:
    """One object of a bank into a `DenseSample`."""
    return _pasted(CopyPaste(open_bank(data.bank), _config(1)), [(sample,) for sample in _samples(data)], data.calls)


def of_dataset(data: Data) -> Iterator[Figures]:
    """Four objects of a dataset that keeps nothing in memory, into an image and a target of torchvision."""
    transform = CopyPaste(DatasetBank(opened(data), cache_bytes=0), _config(NUM_DONORS), label_map=0)
    return _pasted(transform, [_pair(sample) for sample in _samples(data)], data.calls)


def albumentationsx(data: Data) -> Iterator[Figures]:
    """AlbumentationsX, one donor in memory, with masks."""
    given, bank = _albumentations_samples(data), open_bank(data.bank)
    crops = [bank[i] for i in range(min(len(bank), NUM_CROPS))]
    donors = [_donor(np.ascontiguousarray(c.image.transpose(1, 2, 0)), c.alpha[0], c.class_id) for c in crops]
    return _albumented(given, lambda: [random.choice(donors)], data.calls)


def albumentationsx_files(data: Data) -> Iterator[Figures]:
    """AlbumentationsX, four donors whose photos are decoded for the call."""
    import cv2
    from pycocotools import mask as coco

    given, dataset, objects = _albumentations_samples(data), opened(data), []
    for index in range(min(NUM_SAMPLES, len(dataset))):
        masks = dataset[index].instance_masks.numpy()
        objects += [(str(dataset.path_of(index)), coco.encode(np.asfortranarray(mask, np.uint8))) for mask in masks]

    def donor() -> dict[str, Any]:
        path, runs = random.choice(objects)
        return _donor(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB), coco.decode(runs), 0)

    return _albumented(given, lambda: [donor() for _ in range(NUM_DONORS)], data.calls)


def _albumented(samples: list[Any], donors: Callable[[], list[Any]], num: int) -> Iterator[Figures]:
    import albumentations as A

    boxes = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
    pipeline = A.Compose([A.CopyAndPaste(scale_range=(0.5, 1.0), p=1.0)], bbox_params=boxes, telemetry=False)
    return timed(
        (lambda one=one: pipeline(**one, copy_paste_metadata=donors()) for one in itertools.cycle(samples)), num
    )


def _albumentations_samples(data: Data) -> list[Any]:
    import cv2

    from ..peers import keep_quiet
    from ..peers.albumentationsx import _sample

    keep_quiet()
    cv2.setNumThreads(1)
    return [_sample(_as_batch(sample), 0) for sample in _samples(data)]


def _as_batch(sample: DenseSample) -> PaddedBatchedDenseSample:
    return BatchedDenseSample.from_samples([sample]).to_padded(sample.num_instances)


def _donor(image: Any, mask: Any, label: int) -> dict[str, Any]:
    return {"image": image, "mask": mask.astype(np.uint8), "bbox_labels": {"labels": label}}
