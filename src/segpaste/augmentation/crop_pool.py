"""Where staged crops come from, batch after batch: drawn of a bank here, or from a loader of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from segpaste.bank import BankSampler, InstanceBank, stage_bank_batch
from segpaste.types import StagedCrops

SourcePool = InstanceBank | Iterable[StagedCrops]
"""Where staged crops come from: a bank, or a loader of them."""


class CropPool:
    """Staged crops for one batch after another.

    Args:
        pool: a bank, whose crops are drawn by a `segpaste.BankSampler` with its defaults and read when they are asked
            for, or a loader of staged crops, such as `segpaste.create_bank_dataloader` makes, begun again when it ends.
        crops_per_target: crops to draw of a bank for each target.
    """

    def __init__(self, pool: SourcePool, crops_per_target: int) -> None:
        self.pool = pool
        self.crops_per_target = crops_per_target
        self._sampler = BankSampler(pool) if isinstance(pool, InstanceBank) else None
        self._num_drawn = 0
        self._iterator: Iterator[StagedCrops] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Draw others from now on."""
        self._num_drawn, self._iterator = 0, None
        chosen: Any = self.pool if self._sampler is None else self._sampler
        if hasattr(chosen, "set_epoch"):
            chosen.set_epoch(epoch)

    def staged(self, num_targets: int) -> StagedCrops:
        """The crops of the next targets.

        Raises:
            BankError: a crop cannot be read.
            ValueError: the loader yields nothing, or crops for fewer targets.
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
        """What the loader yields, which is begun again when it ends."""
        assert not isinstance(self.pool, InstanceBank)
        for _ in range(2):
            self._iterator = iter(self.pool) if self._iterator is None else self._iterator
            try:
                return next(self._iterator)
            except StopIteration:
                self._iterator = None
        raise ValueError("source_pool: expected a loader of staged crops, got one that yields nothing")
