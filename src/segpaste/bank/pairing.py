"""Batches of targets, each with the crops that are pasted into it: two loaders walked through together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from dataclasses import fields, replace
from typing import Any

from torch import Tensor

from segpaste.bank.loader import BankDataLoader
from segpaste.types import StagedCrops


class with_bank:
    """Batches of targets, each with crops to paste: ``for batch, crops in with_bank(loader, bank_loader)``.

    Unlike zip it does not end early: a bank loader with too few steps is an error. A smaller last batch gets as many
    crops as it has targets, and `set_epoch` reaches both loaders.

    Args:
        loader: of batches with a ``batch_size``, such as `segpaste.datasets.EpochDataLoader`.
        bank_loader: of their crops.

    Raises:
        ValueError: ``bank_loader`` has fewer steps than ``loader``.
    """

    def __init__(self, loader: Iterable[Any], bank_loader: BankDataLoader) -> None:
        self.loader, self.bank_loader = loader, bank_loader
        if isinstance(loader, Sized) and len(bank_loader) < len(loader):
            raise ValueError(self._too_few(f"{len(loader)}"))

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[tuple[Any, StagedCrops]]:
        crops = iter(self.bank_loader)
        for batch in self.loader:
            staged = next(crops, None)
            if staged is None:
                raise ValueError(self._too_few("more"))
            if staged.batch_size < batch.batch_size:
                raise ValueError(
                    f"with_bank: expected crops for {batch.batch_size} targets, got them for {staged.batch_size}; "
                    "give both loaders the same batch_size"
                )
            yield batch, _first(staged, batch.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of both loaders."""
        if hasattr(self.loader, "set_epoch"):
            self.loader.set_epoch(epoch)
        self.bank_loader.set_epoch(epoch)

    def _too_few(self, wanted: str) -> str:
        return f"with_bank: expected a bank loader of {wanted} steps, got {len(self.bank_loader)}; give it steps="


def _first(crops: StagedCrops, num: int) -> StagedCrops:
    """The crops of the first targets; views."""
    if num == crops.batch_size:
        return crops
    values = {field.name: getattr(crops, field.name) for field in fields(crops)}
    cut: dict[str, Any] = {name: value[:num] for name, value in values.items() if isinstance(value, Tensor)}
    return replace(crops, **cut)
