"""Memory of batches: zeros everywhere, and in a loader worker shared with the process that the batch is sent to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from samples import assert_same, make_samples
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample
from segpaste.types.tensors import sent_batch, stacked, untouched, zeros

CPU = torch.device("cpu")


class Batches(Dataset[tuple[PaddedBatchedDenseSample, list[str]]]):
    """A padded batch, and the names of its tensors that are not in shared memory."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> tuple[PaddedBatchedDenseSample, list[str]]:
        with sent_batch():
            batch = BatchedDenseSample.from_samples(make_samples(3)).to_padded(8)
        names = ("images", "boxes", "labels", "instance_ids", "instance_masks", "padding_mask", "depth")
        tensors = {name: getattr(batch, name) for name in names}
        return batch, [name for name, value in tensors.items() if value is not None and not value.is_shared()]


def test_batches_of_workers_are_made_in_shared_memory() -> None:
    ((here, private),) = DataLoader(Batches(), batch_size=None)
    assert "instance_masks" in private
    ((sent, private),) = DataLoader(Batches(), batch_size=None, num_workers=1)
    assert private == []
    assert_same(here, sent)


class Kept(Dataset[int]):
    """Keeps the padded batches that it makes, and returns the number of open files of its process."""

    def __init__(self) -> None:
        self.batches: list[PaddedBatchedDenseSample] = []

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        self.batches.append(BatchedDenseSample.from_samples(make_samples(1, size=(24, 24))).to_padded(4))
        return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0


def test_batches_that_a_worker_keeps_hold_no_files() -> None:
    first, *_, last = DataLoader(Kept(), batch_size=None, num_workers=1)
    assert last <= first + 5


@pytest.mark.parametrize("shape", [(2, 3), (0, 4), (3, 0, 2), (5,)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for found in (untouched(shape, dtype), zeros(shape, dtype, CPU)):
        assert found.shape == shape
        assert found.dtype == dtype
        assert not found.any()
        found.fill_(1)
        assert found.all()


def test_rows_are_stacked() -> None:
    rows = [torch.arange(6).view(2, 3) + i for i in range(4)]
    assert torch.equal(stacked(rows), torch.stack(rows))
