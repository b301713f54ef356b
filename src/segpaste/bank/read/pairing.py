"""Batches of targets, each with the crops that are pasted into it: two loaders walked through together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from segpaste.bank.read.loader import BankDataLoader
from segpaste.epochs import LoaderWrapper
from segpaste.types import StagedCrops


class with_bank(LoaderWrapper):
    """Batches of targets, each with crops to paste: ``for batch, crops in with_bank(loader, bank_loader)``.

    Unlike zip it does not end early: a bank loader with too few steps is an error. A smaller last batch gets as many
    crops as it has targets. The crops follow the epoch of ``loader``, where it has one.

    Args:
        loader: of batches with a ``batch_size``, such as `segpaste.datasets.EpochDataLoader`.
        bank_loader: of their crops.

    Raises:
        ValueError: ``bank_loader`` has fewer steps than ``loader``.
    """

    owner = "with_bank"

    def __init__(self, loader: Iterable[Any], bank_loader: BankDataLoader) -> None:
        super().__init__(loader, bank_loader)
        self.bank_loader = bank_loader

    def __iter__(self) -> Iterator[tuple[Any, StagedCrops]]:
        if isinstance(self.loader, Sized) and len(self.bank_loader) < len(self.loader):
            raise ValueError(self._too_few(f"{len(self.loader)}"))
        crops: Iterator[StagedCrops] | None = None
        for _, batch in self._pass():
            if crops is None:
                crops = iter(self.bank_loader)
            staged = next(crops, None)
            if staged is None:
                raise ValueError(self._too_few("more"))
            if staged.batch_size < batch.batch_size:
                raise ValueError(
                    f"with_bank: expected crops for {batch.batch_size} targets, got them for {staged.batch_size}; "
                    "give both loaders the same batch_size"
                )
            yield batch, staged.first(batch.batch_size)

    def state_parts(self) -> dict[str, Any]:
        """See `segpaste.epochs.Stateful.state_parts`."""
        return {**super().state_parts(), "crops": self.bank_loader}

    def _too_few(self, wanted: str) -> str:
        return f"with_bank: expected a bank loader of {wanted} steps, got {len(self.bank_loader)}; give it steps="
