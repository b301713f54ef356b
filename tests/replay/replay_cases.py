"""Batches whose rows are known by their keys, and the records of what a paste makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from samples import batch_of, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig
from segpaste.replay import ReplayRecord, records
from segpaste.seeding import SampleKey, key_tensors
from segpaste.types import DenseSample, Modality, PaddedBatchedDenseSample

BASE_SEED = 2**64 - 3
KEY_OF_0 = SampleKey(BASE_SEED, 2, 1, 0, 0)


def keyed_batch(samples: Sequence[DenseSample], max_instances: int = 9) -> PaddedBatchedDenseSample:
    """A batch whose row i is the sample of index i."""
    keys = [KEY_OF_0._replace(sample_idx=i) for i in range(len(samples))]
    return batch_of(samples, max_instances, overflow="largest", **key_tensors(keys))


def reader(samples: Sequence[DenseSample]) -> Callable[[SampleKey], DenseSample]:
    def read(key: SampleKey) -> DenseSample:
        assert key == KEY_OF_0._replace(sample_idx=key.sample_idx)
        return samples[key.sample_idx]

    return read


def recorded(
    config: BatchCopyPasteConfig, batch: PaddedBatchedDenseSample, **options: Any
) -> tuple[list[DenseSample], list[ReplayRecord]]:
    """Return the samples of a paste, and its records after a round trip through JSON."""
    module = BatchCopyPaste(config)
    out, report = module(batch, return_report=True)
    texts = [record.to_json() for record in records(module, batch, out, report, **options)]
    return out.to_batched().to_samples(), [ReplayRecord.from_json(text) for text in texts]


def one_record(**options: Any) -> tuple[list[DenseSample], DenseSample, ReplayRecord]:
    """Samples, the first of them augmented so that something is seen of its paste, and its record."""
    samples = make_samples(3, size=(23, 19), modalities=[Modality.INSTANCE])
    config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.0)))
    pasted, found = recorded(config, keyed_batch(samples), **options)
    assert not torch.equal(pasted[0].image, samples[0].image)
    return samples, pasted[0], found[0]
