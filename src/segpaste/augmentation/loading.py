"""Loader that augments the batches of another loader."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import Any

import torch
from pydantic import BaseModel
from torch import nn

from segpaste._reprs import counted
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.modes import pasting
from segpaste.augmentation.sources.crop_pool import CropPool
from segpaste.augmentation.warned import PasteSizes
from segpaste.epochs import EpochPass, LoaderWrapper
from segpaste.seeding import derive_seed, to_int64
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

Batch = PaddedBatchedDenseSample | BatchedDenseSample | Sequence[DenseSample]


class AugmentedLoader(LoaderWrapper):
    """Loader that pads, moves and augments the batches of another loader.

    `len`, ``sampler`` and ``dataset`` are those of the other loader. The crops follow its epoch. Batches without
    ``sample_seeds`` get seeds made from torch's initial seed, the epoch, the rank and the row's position in the epoch,
    so a resumed run has the same draws as an uninterrupted one.

    Args:
        loader, max_instances, device: see `BatchCopyPaste.from_dataloader`.
        augment: the augmentation.
        crops: staged crops to paste, if objects do not come from the batch; a loader of crops restarts with every pass.

    Attributes:
        num_dropped_instances: number of instances so far that had no slot; the first ones cause a warning.
    """

    owner = "from_dataloader"
    state_numbers = "num_rows", "base_seed"

    def __init__(
        self,
        loader: Iterable[Batch],
        augment: Callable[..., PaddedBatchedDenseSample],
        max_instances: int,
        device: torch.device | str | None = None,
        crops: CropPool | None = None,
    ) -> None:
        super().__init__(loader, None if crops is None else crops.loader)
        self.augment = augment
        self.max_instances = max_instances
        self.device = device
        self.crops = crops
        if device is not None and isinstance(augment, nn.Module):
            augment.to(device)  # its tables, so that no step waits for a copy of them
        self.num_dropped_instances = 0
        self._num_rows = 0
        self._has_printed = False
        config = getattr(augment, "config", None)
        is_moved = device is not None and torch.device(device).type != "cpu"  # else the augmentation compares
        self._sizes = PasteSizes(config) if is_moved and isinstance(config, BatchCopyPasteConfig) else None

    @cached_property
    def base_seed(self) -> int:
        """Torch's initial seed at the first use, or the seed of a loaded state."""
        return torch.initial_seed() % (1 << 64)

    @property
    def num_rows(self) -> int:
        """Number of rows of the epoch that have been yielded."""
        return self._num_rows if self.progress.num_done else 0

    @num_rows.setter
    def num_rows(self, num: int) -> None:
        self._num_rows = num

    def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:
        num_rows: int | None = None
        for this, batch in self._pass():
            first = self._num_rows if num_rows is None else num_rows
            padded = self._seeded(self._padded(batch), this, first)
            num_rows = first + padded.batch_size
            self._print_expected(padded.batch_size, this)
            if this.is_current:
                self._num_rows = num_rows
            staged = None if self.crops is None else self.crops.staged(padded.batch_size, first, this)
            message = None if staged is None or self._sizes is None else self._sizes.message(staged, padded)
            if message is not None:
                warnings.warn(message, stacklevel=2)
            if self.device is not None:
                padded = padded.to(self.device, non_blocking=True)
            options = {} if staged is None else {"staged": staged.to(padded.device, non_blocking=True)}
            with pasting(self.augment):
                out = self.augment(padded, **options)
            yield out

    def _begin(self, this: EpochPass) -> None:
        super()._begin(this)
        if not this.start:
            self._num_rows = 0
        if self.crops is not None:
            self.crops.begin(this)

    def _print_expected(self, batch_size: int, this: EpochPass) -> None:
        """Print the expected pastes of each class once, before the first paste, if ``balance`` was given."""
        if self.crops is None or self.crops.balance is None or self._has_printed or this.replica.rank:
            return
        self._has_printed = True
        num_steps = len(self.loader) if isinstance(self.loader, Sized) else 1
        per_image = getattr(self.augment, "pastes_per_image", self.crops.crops_per_target)
        report = self.crops.report(round(num_steps * batch_size * per_image))
        where = "" if this.replica.num_replicas == 1 else f" on each of {this.replica.num_replicas} ranks"
        batches = counted(num_steps, "batch", "batches")
        print(f"{self.owner}: pastes expected in {batches} of {batch_size}{where}\n{report}", flush=True)

    def _seeded(self, batch: PaddedBatchedDenseSample, this: EpochPass, first: int) -> PaddedBatchedDenseSample:
        """Return the batch with seeds; ``first`` is the position of its first row in the epoch."""
        if batch.sample_seeds is not None:
            return batch
        rows = range(first, first + batch.batch_size)
        seeds = [to_int64(derive_seed(self.base_seed, this.epoch, this.replica.rank, 0, row)) for row in rows]
        return batch.derived(sample_seeds=torch.tensor(seeds, dtype=torch.int64, device=batch.device))

    def identity(self) -> dict[str, Any]:
        """See `segpaste.epochs.LoaderWrapper.identity`; adds the class of the pool, the slots and the config."""
        pool = None if self.crops is None else type(self.crops.pool).__name__
        facts = {**super().identity(), "source_pool": pool, "max_instances": int(self.max_instances)}
        config = getattr(self.augment, "config", None)
        return {**facts, **_flat("config", config.model_dump(mode="json"))} if isinstance(config, BaseModel) else facts

    def state_parts(self) -> dict[str, Any]:
        """Return the loader, the crops, and the schedule of the augmentation."""
        augment = self.augment if isinstance(self.augment, nn.Module) else None
        return {**super().state_parts(), "crops": self.crops, "augment": augment}

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
                f"from_dataloader: no slot for {counted(num, 'instance')} of a batch with "
                f"max_instances={self.max_instances}; the largest are kept, num_dropped_instances counts the others",
                stacklevel=4,
            )
        self.num_dropped_instances += num


def _flat(name: str, value: Any) -> dict[str, str]:
    """Return the values of nested mappings as text under dotted names, so that each difference has a name."""
    if not isinstance(value, Mapping):
        return {name: repr(value)}
    return {key: text for part, inner in value.items() for key, text in _flat(f"{name}.{part}", inner).items()}
