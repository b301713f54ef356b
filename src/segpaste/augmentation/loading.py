"""An iterable of augmented batches around a loader of plain ones."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from segpaste.augmentation.crop_pool import CropPool
from segpaste.epochs import EpochPass, EpochProgress, LoaderWrapper, epoch_of, set_epoch_of
from segpaste.seeding import derive_seed, to_int64
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

Batch = PaddedBatchedDenseSample | BatchedDenseSample | Sequence[DenseSample]


class AugmentedLoader(LoaderWrapper):
    """Pads, moves and augments what another loader yields; `len`, ``sampler`` and ``dataset`` are the loader's.

    The crops follow the epoch of the loader. Batches without ``sample_seeds`` get seeds of torch's initial seed, the
    epoch, the rank and the row's position in the epoch, so a resumed run draws what an uninterrupted one draws.

    Args:
        loader: yields padded batches, ragged batches, or lists of samples of one size.
        augment: the augmentation.
        max_instances: K; of samples and ragged batches with more instances the largest are kept; padded batches must
            have this many slots.
        device: where to augment; None: where the batch is.
        crops: what is pasted, if it is not of the batch; a loader of them restarts with every pass.

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
        super().__init__(loader)
        self.augment = augment
        self.max_instances = max_instances
        self.device = device
        self.crops = crops
        if device is not None and isinstance(augment, nn.Module):
            augment.to(device)  # its tables, so that no step waits for a copy of them
        self.num_dropped_instances = 0
        self._progress = EpochProgress("from_dataloader")
        self._base_seed: int | None = None
        self._follows = False

    @property
    def epoch(self) -> int:
        """The epoch of the pass that began last, or the next one if none did."""
        epoch = epoch_of(self.loader)
        return self._progress.epoch if epoch is None else epoch

    def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:
        this, num_rows = None, 0
        for batch in self._batches():
            if this is None:
                this = self._begin()
                num_rows = this.start
            padded = self._seeded(self._padded(batch), this, num_rows)
            num_rows += padded.batch_size
            this.done(num_rows)
            if self.device is not None:
                padded = padded.to(self.device, non_blocking=True)
            if self.crops is None:
                yield self.augment(padded)
            else:
                staged = self.crops.staged(padded.batch_size).to(padded.device, non_blocking=True)
                yield self.augment(padded, staged=staged)
        if this is not None:
            this.finish()

    def _begin(self) -> EpochPass:
        """A pass of the loader has begun: seeds and crops follow its epoch, where it has one."""
        epoch = epoch_of(self.loader)
        if epoch is not None:
            self._progress.set_epoch(epoch)
        if self._base_seed is None:
            self._base_seed = torch.initial_seed() % (1 << 64)
        this = self._progress.begin()
        if self.crops is not None:
            self.crops.begin(this.epoch if epoch is not None or self._follows else None)
        return this

    def _seeded(self, batch: PaddedBatchedDenseSample, this: EpochPass, first: int) -> PaddedBatchedDenseSample:
        """The batch with seeds; its first row is at this position of the epoch."""
        if batch.sample_seeds is not None:
            return batch
        assert self._base_seed is not None
        rows = range(first, first + batch.batch_size)
        seeds = [to_int64(derive_seed(self._base_seed, this.epoch, this.replica.rank, 0, row)) for row in rows]
        return batch.derived(sample_seeds=torch.tensor(seeds, dtype=torch.int64, device=batch.device))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, of the loader, the seeds and the crops; it stays until the next call."""
        set_epoch_of(self.loader, epoch)
        self._progress.set_epoch(epoch)
        self._follows = True
        if self.crops is not None:
            self.crops.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The place after the batch that was yielded last: of the loader, the crops, the seeds and the schedule.

        Of a loader without a state of its own the batches are counted.
        """
        return {
            "progress": self._progress.state({"base_seed": self._base_seed}),
            "loader": self._loader_state(),
            "crops": None if self.crops is None else self.crops.state_dict(),
            "augment": dict(self.augment.state_dict()) if isinstance(self.augment, nn.Module) else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume there: the next pass gives the batches that are left.

        Raises:
            ValueError: the state is of another loader, or of other crops; the message says which.
        """
        if not isinstance(state, dict) or set(state) != {"progress", "loader", "crops", "augment"}:
            raise ValueError(f"from_dataloader: expected a state made by its state_dict, got {sorted(state)}")
        if (state["crops"] is None) != (self.crops is None):
            there, here = ("none" if crops is None else "one" for crops in (state["crops"], self.crops))
            raise ValueError(f"from_dataloader: expected the same source_pool as the state has, {there}, got {here}")
        self._load_loader_state(state["loader"])
        if self.crops is not None:
            self.crops.load_state_dict(state["crops"])
        self._progress.load_state(state["progress"], state["progress"]["of"], sys.maxsize)
        self._base_seed = state["progress"]["of"]["base_seed"]
        if isinstance(self.augment, nn.Module):
            self.augment.load_state_dict(state["augment"])

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
