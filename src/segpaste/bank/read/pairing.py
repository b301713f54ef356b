"""Pairs of batches of targets and the crops for them: two loaders that are iterated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any

from segpaste.bank.read.loader import BankDataLoader
from segpaste.epochs import LoaderWrapper, has_state
from segpaste.types import StagedCrops


class PairedCrops:
    """Staged crops of a loader, taken for one batch of targets after another.

    Args:
        owner: name for errors.
        loader: loader of the crops, with a step for each batch.
        num_steps: number of finished steps of this epoch; a loader without a state reads them again and skips them.
    """

    def __init__(self, owner: str, loader: Iterable[StagedCrops], num_steps: int = 0) -> None:
        self.owner = owner
        self.num_steps = num_steps
        self._steps = islice(loader, 0 if has_state(loader) else num_steps, None)

    def take(self, num_targets: int) -> StagedCrops:
        """Return the crops of the next batch, for ``num_targets`` targets.

        Raises:
            ValueError: the loader has ended, or yields crops for fewer targets.
        """
        staged = next(self._steps, None)
        if staged is None:
            raise ValueError(
                f"{self.owner}: expected staged crops for every batch of targets, got a loader that ends after "
                f"{self.num_steps} batches; set its steps= to the length of the loader of the targets"
            )
        if staged.batch_size < num_targets:
            raise ValueError(
                f"{self.owner}: expected staged crops for {num_targets} targets, got {staged.batch_size}; give both "
                "loaders the same batch_size"
            )
        self.num_steps += 1
        return staged.first(num_targets)


class zip_loaders(LoaderWrapper):
    """Batches of targets, each with crops to paste: ``for batch, crops in zip_loaders(loader, bank_loader)``.

    Unlike zip it does not end early: a bank loader with too few steps is an error. A smaller last batch gets as many
    crops as it has targets. The crops follow the epoch of ``loader``, if it has one.

    Args:
        loader: loader of batches with a ``batch_size``, such as `segpaste.datasets.EpochDataLoader`.
        bank_loader: loader of the crops.

    Raises:
        ValueError: ``bank_loader`` has fewer steps than ``loader``.
    """

    owner = "zip_loaders"

    def __init__(self, loader: Iterable[Any], bank_loader: BankDataLoader) -> None:
        super().__init__(loader, bank_loader)
        self.bank_loader = bank_loader

    def __iter__(self) -> Iterator[tuple[Any, StagedCrops]]:
        if isinstance(self.loader, Sized) and len(self.bank_loader) < len(self.loader):
            raise ValueError(
                f"zip_loaders: expected a bank loader of {len(self.loader)} steps, got {len(self.bank_loader)}; set "
                "steps= of the bank loader to the same length"
            )
        crops: PairedCrops | None = None
        for _, batch in self._pass():
            crops = crops or PairedCrops(self.owner, self.bank_loader)  # after the pass began its epoch
            yield batch, crops.take(batch.batch_size)

    def state_parts(self) -> dict[str, Any]:
        """Return the parts of the state; see `segpaste.epochs.Stateful.state_parts`."""
        return {**super().state_parts(), "crops": self.bank_loader}
