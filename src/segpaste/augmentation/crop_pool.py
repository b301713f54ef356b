"""Where staged crops come from, batch after batch: drawn of a bank here, or from a loader of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

from segpaste.bank import BankSampler, InstanceBank, stage_bank_batch
from segpaste.types import StagedCrops

SourcePool = InstanceBank | Iterable[StagedCrops]
"""Where staged crops come from: a bank, or a loader of them."""


class CropPool:
    """Staged crops for one batch after another.

    Args:
        pool: a bank, whose crops are drawn by a `segpaste.BankSampler` with its defaults and read when they are asked
            for, or a loader of staged crops, such as `segpaste.create_bank_dataloader` makes, of at least as many steps
            as there are batches.
        crops_per_target: crops to draw of a bank for each target.

    Raises:
        TypeError: ``pool`` is a path.
    """

    def __init__(self, pool: SourcePool, crops_per_target: int) -> None:
        if isinstance(pool, str | PathLike):
            raise TypeError(
                f"source_pool: expected a bank, or a loader of staged crops, got the path {str(pool)!r}; give "
                "open_bank(path)"
            )
        self.pool = pool
        self.crops_per_target = crops_per_target
        self._sampler = BankSampler(pool) if isinstance(pool, InstanceBank) else None
        self._num_drawn = self._num_steps = 0
        self._iterator: Iterator[StagedCrops] | None = None

    def begin(self) -> None:
        """Another walk through the targets begins: a loader is begun anew, the draws of a bank go on."""
        self._num_steps, self._iterator = 0, None

    def set_epoch(self, epoch: int) -> bool:
        """Draw others from now on; False where the loader of staged crops takes no epoch."""
        self.begin()
        self._num_drawn = 0
        chosen: Any = self.pool if self._sampler is None else self._sampler
        if not hasattr(chosen, "set_epoch"):
            return False
        chosen.set_epoch(epoch)
        return True

    def staged(self, num_targets: int) -> StagedCrops:
        """The crops of the next targets.

        Raises:
            BankError: a crop cannot be read.
            ValueError: the loader has ended, or yields crops for fewer targets.
        """
        if self._sampler is not None and isinstance(self.pool, InstanceBank):
            num = num_targets * self.crops_per_target
            drawn = self._sampler.draws(self._num_drawn, num).crops
            self._num_drawn += num
            return stage_bank_batch(self.pool, drawn.reshape(num_targets, self.crops_per_target))
        staged = self._next()
        if staged.batch_size < num_targets:
            raise ValueError(
                f"source_pool: expected staged crops for {num_targets} targets, got {staged.batch_size}; give its "
                "loader the batch size of the other"
            )
        return staged.first(num_targets)

    def _next(self) -> StagedCrops:
        """What the loader yields for the next step."""
        assert not isinstance(self.pool, InstanceBank)
        self._iterator = iter(self.pool) if self._iterator is None else self._iterator
        staged = next(self._iterator, None)
        if staged is None:
            raise ValueError(
                f"source_pool: expected staged crops for every batch of targets, got a loader that ends after "
                f"{self._num_steps} batches; give it steps=, the length of the loader of the targets"
            )
        self._num_steps += 1
        return staged
