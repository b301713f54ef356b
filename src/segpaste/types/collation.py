"""Support for torch's default collation; importing this module registers it.

Samples are collated to a `BatchedDenseSample`. Batches are rejected, because they need no collation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data._utils.collate import default_collate_fn_map

from segpaste.types.batches import BatchedDenseSample, PaddedBatchedDenseSample
from segpaste.types.dense import DenseSample
from segpaste.types.staged import StagedCrops
from segpaste.types.tensors import sent_batch


def _stack(samples: Sequence[DenseSample], **_: Any) -> BatchedDenseSample:
    with sent_batch():
        return BatchedDenseSample.from_samples(samples)


def _refuse(batches: Sequence[Any], **_: Any) -> Any:
    name = type(batches[0]).__name__
    raise TypeError(
        f"default_collate: expected samples, got {name}, which is a batch already; pass batch_size=None to the "
        "DataLoader, or collate_fn=list for a list of batches"
    )


# Registered by exact type, so that types of other packages are not affected.
default_collate_fn_map[DenseSample] = _stack
for _batch in (BatchedDenseSample, PaddedBatchedDenseSample, StagedCrops):
    default_collate_fn_map[_batch] = _refuse
