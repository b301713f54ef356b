"""Sources of staged crops for consecutive batches: a bank, from which they are drawn, or a loader of crops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.bank import BankSampler, DatasetBank, InstanceBank, stage_bank_batch
from segpaste.bank.read.class_draws import ClassTable, DrawMode, DrawReport, report_draws, uniforms
from segpaste.bank.read.pairing import PairedCrops
from segpaste.bank.read.staging import read_crops
from segpaste.datasets.views import Samples
from segpaste.epochs import EpochPass, Stateful, expect_facts, has_state
from segpaste.seeding import from_int64
from segpaste.types import DenseSample, StagedCrops
from segpaste.types.check import not_none

Balance = DrawMode
"""Balance of classes in the draws, see `segpaste.bank.read.class_draws`."""

Report = DrawReport
"""Table of the expected draws of each class."""

DEFAULT: Balance = "repeat_factor"

_REASON = (
    "BatchCopyPaste: a bank is not read in compiled code; with fullgraph=True call it as augment(batch, staged=crops), "
    "with crops of a loader or of augment.crops.staged(batch.sample_seeds)"
)

BankPool = InstanceBank | Samples
"""Bank whose crops are drawn in the process that pastes them, or a dataset, see `segpaste.bank.DatasetBank`."""

SourcePool = BankPool | Iterable[StagedCrops]
"""Source of staged crops: a bank, a dataset, or a loader of staged crops."""


def is_bank(value: object) -> bool:
    """Return whether a value is an instance bank."""
    return isinstance(value, InstanceBank)


def is_dataset(value: object) -> bool:
    """Return whether a value is a map-style dataset, whose objects can be a pool; a list of samples counts as one."""
    if isinstance(value, list | tuple) and value:
        return isinstance(value[0], DenseSample)
    is_map = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    return is_map and not isinstance(value, type | str | bytes | Sequence | Mapping | Tensor) and not is_bank(value)


@overload
def as_pool(pool: BankPool, whole_only: bool) -> InstanceBank: ...


@overload
def as_pool(pool: SourcePool, whole_only: bool) -> InstanceBank | Iterable[StagedCrops]: ...


def as_pool(pool: SourcePool, whole_only: bool) -> InstanceBank | Iterable[StagedCrops]:
    """Return the bank of a dataset's objects, with ``whole_only`` of those that are whole; keep a bank or a loader."""
    bank = DatasetBank(cast(Samples, pool)) if is_dataset(pool) else pool
    return bank.for_pool(whole_only=whole_only) if isinstance(bank, DatasetBank) else cast(Any, bank)


class CropPool(Stateful):
    """Staged crops for consecutive batches.

    Args:
        pool: a bank or a dataset, whose crops are drawn by a `segpaste.BankSampler` and read when they are asked for,
            or a loader of staged crops, such as `segpaste.create_bank_dataloader` makes, of at least as many steps as
            there are batches.
        crops_per_target: number of crops to draw from a bank for each target.
        balance: how a bank's classes are drawn, see `segpaste.BankSampler`; by default by its repeat factors.
        whole_only: leave out objects of a dataset that touch the border of their image.

    Attributes:
        loader: the loader of crops; None if they are drawn from a bank.
        num_steps: steps of the loader that were taken in this epoch.

    Raises:
        TypeError: ``pool`` is a path.
        ValueError: ``balance`` is given with a loader, whose crops are drawn already.
    """

    owner = "source_pool"
    state_numbers = ("num_steps",)

    def __init__(
        self, pool: SourcePool, crops_per_target: int, balance: Balance | None = None, *, whole_only: bool = True
    ) -> None:
        if isinstance(pool, str | PathLike):
            raise TypeError(
                f"source_pool: expected a bank, or a loader of staged crops, got the path {str(pool)!r}; give "
                "open_bank(path)"
            )
        self.pool = as_pool(pool, whole_only)
        self.crops_per_target, self.balance = crops_per_target, balance
        self.loader: Iterable[StagedCrops] | None = None
        self._drawn_from: tuple[InstanceBank, BankSampler] | None = None
        if isinstance(self.pool, InstanceBank):
            self._drawn_from = self.pool, BankSampler(self.pool, mode=balance or DEFAULT)
        else:
            self.loader = self.pool
        if balance is not None and self._drawn_from is None:
            raise ValueError(
                f"source_pool: expected balance=None with a loader of staged crops, got {balance!r}; give it to the "
                "loader: create_bank_dataloader(bank, mode=...)"
            )
        self.num_steps = 0
        self._paired: PairedCrops | None = None

    def report(self, num_draws: int) -> DrawReport | None:
        """Return the expected classes of ``num_draws`` draws of a bank; None for a loader, which decides them."""
        return None if self._drawn_from is None else expected_draws(*self._drawn_from, num_draws)

    def begin(self, this: EpochPass) -> None:
        """Begin a pass: align the crops with the pass over the targets."""
        self._paired = None
        if not this.start:
            self.num_steps = 0

    def state_parts(self) -> dict[str, Any]:
        """See `segpaste.epochs.Stateful.state_parts`."""
        return {} if self.loader is None else {"state": self.loader if has_state(self.loader) else None}

    def state_values(self, num_drawn: int | None) -> dict[str, Any]:
        """Return the facts of the bank that crops are drawn from."""
        return {} if self._drawn_from is None else {"state": self._drawn_from[1].identity()}

    def expect_values(self, state: Any) -> None:
        """Reject a state of other crops."""
        if not isinstance(state, Mapping) or set(state) != {"num_steps", "state"}:
            raise ValueError(
                f"{self.owner}: expected a state that its own state_dict returned, got {type(state).__name__}"
            )
        if self._drawn_from is not None:
            expect_facts(self.owner, self._drawn_from[1].identity(), state["state"])

    def staged(self, num_targets: int, first: int, this: EpochPass) -> StagedCrops:
        """Return the crops of the next targets of a pass; ``first`` is the position of the first one in the epoch.

        Raises:
            BankError: a crop cannot be read.
            ValueError: the loader has ended, or yields crops for fewer targets.
        """
        if self._drawn_from is not None:
            bank, sampler = self._drawn_from
            drawn = sampler.draws(
                first * self.crops_per_target,
                num_targets * self.crops_per_target,
                epoch=this.epoch,
                replica=this.replica,
            ).crops
            return stage_bank_batch(bank, drawn.reshape(num_targets, self.crops_per_target))
        if self._paired is None:
            self._paired = PairedCrops(self.owner, not_none(self.loader), self.num_steps)
        staged = self._paired.take(num_targets)
        self.num_steps = self._paired.num_steps
        return staged


class SeededCrops:
    """Crops of a bank that depend on the seed of their target alone, read in this process.

    A class is drawn first, then a crop of it, as by a `segpaste.BankSampler`.

    Args:
        bank: bank or dataset to draw from.
        crops_per_target: K, number of crops for each target.
        balance: how classes are drawn, see `segpaste.BankSampler`; by default by its repeat factors.
        whole_only: leave out objects of a dataset that touch the border of their image.

    Attributes:
        balance: as given, or None.

    Raises:
        TypeError: ``bank`` is neither a bank nor a dataset.
        ValueError: it is empty, or ``balance`` is no mode.
    """

    def __init__(
        self, bank: BankPool, crops_per_target: int, balance: Balance | None = None, *, whole_only: bool = True
    ) -> None:
        bank = as_pool(bank, whole_only)
        if not isinstance(bank, InstanceBank):
            raise TypeError(
                f"BatchCopyPaste: expected source_pool to be a bank or a dataset, got {type(bank).__name__}; "
                "open_bank(path) opens a bank; give a loader of staged crops to "
                "BatchCopyPaste.from_dataloader(..., source_pool=loader)"
            )
        self._sampler = sampler = BankSampler(bank, mode=balance or DEFAULT, rank=0, num_replicas=1)
        self.bank, self.crops_per_target, self.balance = bank, crops_per_target, balance
        self._crops, self._table = sampler.crops, ClassTable(sampler.probabilities)

    def report(self, num_draws: int) -> DrawReport:
        """Return the expected classes of ``num_draws`` draws."""
        return expected_draws(self.bank, self._sampler, num_draws)

    @torch.compiler.disable(reason=_REASON)  # type: ignore[untyped-decorator, no-untyped-call]
    def staged(self, seeds: Tensor) -> StagedCrops:
        """Read the crops of the targets with these seeds. Compiled code has a graph break here.

        Args:
            seeds: [B] int64; reading them from an accelerator waits for it.

        Returns:
            B x K crops, on the device of the seeds.

        Raises:
            BankError: a crop cannot be read.
        """
        drawn = [self._drawn(from_int64(seed)) for seed in seeds.tolist()]
        indices = np.array(drawn, np.int64).reshape(len(drawn), self.crops_per_target)
        if seeds.is_cpu:
            return read_crops(self.bank, indices)
        return stage_bank_batch(self.bank, indices).to(seeds.device, non_blocking=True)

    def _drawn(self, seed: int) -> NDArray[np.int64]:
        """Draw the crops of one target, [K] int64."""
        positions = np.arange(self.crops_per_target)
        classes = self._table.draw(uniforms(seed, "bank.class", positions))
        places = uniforms(seed, "bank.crop", positions) * self._crops.counts[classes]
        return self._crops.pick(classes, places.astype(np.int64))


def expected_draws(bank: InstanceBank, sampler: BankSampler, num_draws: int) -> DrawReport:
    """Return the expected classes of ``num_draws`` draws of a sampler."""
    return report_draws(bank.class_names, sampler.crops.counts, sampler.probabilities, num_draws)
