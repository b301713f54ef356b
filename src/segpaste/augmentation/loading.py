"""An iterable of augmented batches around a loader of plain ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from segpaste.augmentation.crop_pool import CropPool
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

Batch = PaddedBatchedDenseSample | BatchedDenseSample | Sequence[DenseSample]


class AugmentedLoader:
    """Pads, moves and augments what another loader yields; `len` and `set_epoch` are the loader's.

    Args:
        loader: yields padded batches, ragged batches, or lists of samples of one size.
        augment: the augmentation.
        max_instances: K; of samples and ragged batches with more instances the largest are kept; padded batches must
            have this many slots.
        device: where to augment; None: where the batch is.
        crops: what is pasted, if it is not of the batch; a loader of them is begun anew with every iteration.

    Attributes:
        num_dropped_instances: instances so far that found no slot; the first time warns.
    """

    def __init__(
        self,
        loader: Iterable[Batch],
        augment: Callable[..., PaddedBatchedDenseSample],
        max_instances: int,
        device: torch.device | str | None = None,
        crops: CropPool | None = None,
    ) -> None:
        self.loader = loader
        self.augment = augment
        self.max_instances = max_instances
        self.device = device
        self.crops = crops
        if device is not None and isinstance(augment, nn.Module):
            augment.to(device)  # its tables, so that no step waits for a copy of them
        self.num_dropped_instances = 0

    def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:
        if self.crops is not None:
            self.crops.begin()
        for batch in self.loader:
            padded = self._padded(batch)
            if self.device is not None:
                padded = padded.to(self.device, non_blocking=True)
            if self.crops is None:
                yield self.augment(padded)
            else:
                staged = self.crops.staged(padded.batch_size).to(padded.device, non_blocking=True)
                yield self.augment(padded, staged=staged)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the crops and the loader, so that draws, shuffling and seeds change with it.

        Raises:
            AttributeError: none of them takes it.
        """
        is_taken = self.crops is not None and self.crops.set_epoch(epoch)
        set_epoch: Any = getattr(self.loader, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        elif not is_taken:
            raise AttributeError(f"set_epoch: expected a loader that has it, got {type(self.loader).__name__}")

    def _padded(self, batch: Batch) -> PaddedBatchedDenseSample:
        if isinstance(batch, PaddedBatchedDenseSample):
            if batch.max_instances != self.max_instances:
                raise ValueError(
                    f"from_dataloader: expected padded batches of max_instances={self.max_instances} slots, "
                    f"got {batch.max_instances}; give both the same number"
                )
            return batch
        if not isinstance(batch, BatchedDenseSample):
            batch = BatchedDenseSample.from_samples(batch)
        self._count_dropped(sum(max(len(labels) - self.max_instances, 0) for labels in batch.labels))
        return batch.to_padded(self.max_instances, overflow="largest")

    def _count_dropped(self, num: int) -> None:
        if num and not self.num_dropped_instances:
            warnings.warn(
                f"from_dataloader: {num} instances of a batch found no slot among max_instances={self.max_instances}; "
                "the largest are kept, num_dropped_instances counts the others",
                stacklevel=4,
            )
        self.num_dropped_instances += num
