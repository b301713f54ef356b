"""Loader of the crops for every training step, which workers read ahead and `BatchCopyPaste` pastes into the targets.

Step i depends only on (bank, base seed, epoch, rank, i), not on the number of workers, their start method, or the
global generator of torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Dataset

from segpaste._worker_ends import end_after_sending
from segpaste.bank.format.protocol import InstanceBank, check_bank
from segpaste.bank.read.class_draws import DrawMode, DrawReport
from segpaste.bank.read.predicates import CropChooser, Predicate
from segpaste.bank.read.sampler import BankSampler, Draws, Replicas
from segpaste.bank.read.staging import stage_bank_batch
from segpaste.bank.schema.record import BankError
from segpaste.epochs import EpochLoader, EpochSampler, Replica, ReplicaFinder, callable_facts
from segpaste.samplers import NxMBatches, NxMReport, NxMSampler
from segpaste.samplers.by_class import SamplesOfClasses
from segpaste.seeding import derive_seed
from segpaste.types import StagedCrops
from segpaste.types.check import check_count


@dataclass(frozen=True, slots=True)
class BankLoaderStats:
    """Counts of the crops that a loader has yielded and its predicate rejected, over all workers and epochs.

    Attributes:
        num_drawn: number of yielded crops of each class of the bank.
        num_rejected: number of rejected crops of each class; one draw may reject several.
    """

    num_drawn: tuple[int, ...]
    num_rejected: tuple[int, ...]


class BankDataLoader(EpochLoader):
    """`torch.utils.data.DataLoader` that yields `StagedCrops`, K crops for each of B targets.

    Every new pass is a new epoch; on several ranks call `set_epoch` before each, see `segpaste.epochs.progress`.
    This process draws; workers read crops and call predicates.

    Args:
        bank: bank of the crops.
        sampler: sampler of that bank; an epoch has as many whole steps as its draws give.
        batch_size: number of targets of a step, B.
        crops_per_target: number of crops for each target, K.
        class_map, predicate, max_tries, num_workers, pin_memory, multiprocessing_context, persistent_workers,
            prefetch_factor, options: see `create_bank_dataloader`.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        bank: InstanceBank,
        sampler: BankSampler | NxMDraws,
        *,
        batch_size: int,
        crops_per_target: int = 1,
        class_map: ArrayLike | None = None,
        predicate: Predicate | None = None,
        max_tries: int = 100,
        num_workers: int = 0,
        pin_memory: bool = False,
        multiprocessing_context: str | BaseContext | None = None,
        persistent_workers: bool = False,
        prefetch_factor: int | None = None,
        **options: Any,
    ) -> None:
        _check_sizes(bank, batch_size, crops_per_target)
        stage_bank_batch(bank, np.empty((0, crops_per_target)), class_map)  # rejects a wrong map here, not in a worker
        labels = None if class_map is None else np.asarray(class_map, np.int64)
        distinct = isinstance(sampler, NxMDraws)
        chooser = None if predicate is None else CropChooser(bank, predicate, max_tries, distinct, sampler.crops)
        steps = _Steps(sampler, batch_size * crops_per_target)
        super().__init__(
            _StepCrops(bank, crops_per_target, labels, chooser),
            batch_size=None,
            sampler=steps,
            collate_fn=_as_it_is,
            num_workers=num_workers,
            pin_memory=pin_memory,
            multiprocessing_context=multiprocessing_context,
            persistent_workers=persistent_workers,
            prefetch_factor=prefetch_factor,
            options=options,
        )
        self.draws = sampler
        self._num_drawn = np.zeros(len(bank.class_names), np.int64)
        self._num_rejected = np.zeros_like(self._num_drawn)
        self._facts = {
            "batch_size": int(batch_size),
            "crops_per_target": int(crops_per_target),
            "class_map": None if labels is None else labels.tolist(),
            "predicate": None if predicate is None else callable_facts(predicate),
            "max_tries": None if predicate is None else int(max_tries),
        }

    @property
    def _data(self) -> InstanceBank:
        bank: InstanceBank = self.dataset.bank  # type: ignore[attr-defined]
        return bank

    @property
    def stats(self) -> BankLoaderStats:
        """Counts of yielded and rejected crops so far."""
        return BankLoaderStats(tuple(self._num_drawn.tolist()), tuple(self._num_rejected.tolist()))

    def report(self) -> DrawReport | NxMReport:
        """Return the expected draws of an epoch before a predicate, which replaces a crop by one of its class.

        For class-structured batches the report counts the crops that the sampler takes, not those that replace rejected
        ones.
        """
        return self.draws.report()

    def identity(self) -> dict[str, Any]:
        """Return the facts that determine an epoch; a state with other facts is rejected."""
        return {**self._facts, **self.draws.identity()}

    def __iter__(self) -> Iterator[StagedCrops]:  # type: ignore[override]
        for fetched in self.fetched():
            self._num_rejected += fetched.num_rejected
            if fetched.crops is None:
                raise BankError(fetched.error)
            self._num_drawn += fetched.num_drawn
            yield fetched.crops


def create_bank_dataloader(
    bank: InstanceBank,
    *,
    batch_size: int,
    crops_per_target: int = 1,
    steps: int | None = None,
    mode: DrawMode = "repeat_factor",
    threshold: float | None = None,
    temperature: float = 0.5,
    replicas: Replicas = "independent",
    base_seed: int = 0,
    rank: int | None = None,
    num_replicas: int | None = None,
    sampler: BankSampler | NxMSampler | None = None,
    **options: Any,
) -> BankDataLoader:
    """Create a loader that yields the crops of a bank for each training step and draws rare classes more often.

    Args:
        bank: bank of the crops.
        batch_size: number of targets of a step, B.
        crops_per_target: number of crops for each target, K.
        steps: number of steps of an epoch; by default enough to draw as many crops as this replica's part of the bank
            has. Usually the length of the loader of the targets; several ranks divide that length, so read it after the
            process group was created.
        mode: draw mode, see `segpaste.bank.read.class_draws`.
        threshold: threshold of the repeat factors; by default the mean frequency of the bank's classes.
        temperature: temperature of ``tempered``.
        replicas: see `BankSampler`.
        base_seed: seed of all draws.
        rank: number of this process; by default that of torch.distributed when a pass begins, else 0.
        num_replicas: number of processes; by default likewise.
        sampler: a `BankSampler` of this bank, whose whole steps of B K draws make an epoch, or an `NxMSampler` of it:
            N classes and M crops of each in every step, N M = B K. The sampler decides the draws, so the arguments
            from ``steps`` to ``base_seed`` are rejected with it, and it must be of this ``rank``.
        options:
            ``class_map``, class in the target dataset for each class of the bank.
            ``predicate``, function or `CropPredicate` that accepts or rejects crops, see
            `segpaste.bank.read.predicates`; spawned workers need one that can be pickled. With ``sampler`` a rejected
            crop is replaced by one that is not in the step, if ``max_tries`` finds one.
            ``max_tries``, number of crops of its class that are tried instead of a rejected one, default 100; if all
            are rejected, iterating raises BankError.
            ``num_workers``, ``pin_memory``, ``multiprocessing_context``, ``persistent_workers``, ``prefetch_factor``,
            ``worker_init_fn``, ``timeout``, ``generator`` and ``pin_memory_device``, see
            `segpaste.datasets.EpochDataLoader`.

    Returns:
        An iterable of `StagedCrops` with ``len``, ``set_epoch``, ``state_dict``, ``load_state_dict``, ``report`` and
        ``stats``.

    Raises:
        TypeError: ``sampler`` is of another kind, or another argument has another type, such as a path as the bank.
        ValueError: an argument is out of its range.
        BankError: the mode is ``instance_aware``, and the bank does not keep the image of a crop.
    """
    _check_sizes(bank, batch_size, crops_per_target)
    num_crops = batch_size * crops_per_target
    if steps is not None:
        check_count("steps", steps)
    if sampler is not None:
        given = steps, mode, threshold, temperature, replicas, base_seed
        if given != (None, "repeat_factor", None, 0.5, "independent", 0):
            raise ValueError(
                "sampler: expected no other draw options with `sampler`, such as steps or mode; set them in the sampler"
            )
        place = ReplicaFinder("create_bank_dataloader", rank, num_replicas)
        draws = given_draws(bank, sampler, num_crops, place)
    else:
        draws = BankSampler(
            bank,
            None if steps is None else steps * num_crops,
            mode=mode,
            threshold=threshold,
            temperature=temperature,
            base_seed=base_seed,
            rank=rank,
            num_replicas=num_replicas,
            replicas=replicas,
        )
        draws._multiple_of = num_crops  # epochs of whole steps
    return BankDataLoader(bank, draws, batch_size=batch_size, crops_per_target=crops_per_target, **options)


def _check_sizes(bank: object, batch_size: object, crops_per_target: object) -> None:
    check_bank("create_bank_dataloader", bank)
    check_count("batch_size", batch_size, 1)
    check_count("crops_per_target", crops_per_target, 1)


class _Fetched(NamedTuple):
    """Result of one step from a worker; its errors are values, so that they cross processes unwrapped."""

    crops: StagedCrops | None
    num_drawn: NDArray[np.int64]
    num_rejected: NDArray[np.int64]
    error: str = ""


class _Steps(EpochSampler[Draws]):
    """Sampler of the draws of each step."""

    def __init__(self, draws: BankSampler | NxMDraws, num_crops: int) -> None:
        super().__init__(draws.progress)
        self.draws, self.num_crops = draws, num_crops

    def __len__(self) -> int:
        return len(self.draws) // self.num_crops

    @property
    def num_items(self) -> int:
        return len(self) * self.num_crops

    @property
    def items_per_batch(self) -> int:
        return self.num_crops

    def identity(self) -> dict[str, Any]:
        return self.draws.identity()

    def __iter__(self) -> Iterator[Draws]:
        this = self.begin()
        for first in range(this.start, self.num_items, self.num_crops):
            yield self.draws.draws(first, self.num_crops, epoch=this.epoch, replica=this.replica)


@dataclass(frozen=True)
class _StepCrops(Dataset[Any]):
    """Dataset of a bank that reads one step at once."""

    bank: InstanceBank
    crops_per_target: int
    class_map: NDArray[np.int64] | None
    chooser: CropChooser | None

    def __getitem__(self, draws: Draws) -> _Fetched:
        end_after_sending()
        num_drawn = np.bincount(draws.classes, minlength=len(self.bank.class_names))
        num_rejected = np.zeros_like(num_drawn)
        try:
            chosen = draws.crops if self.chooser is None else self.chooser.choose(draws, num_rejected)
            crops = stage_bank_batch(self.bank, chosen.reshape(-1, self.crops_per_target), self.class_map)
        except BankError as error:
            return _Fetched(None, num_drawn, num_rejected, str(error))
        return _Fetched(crops, num_drawn, num_rejected)


def _as_it_is(fetched: _Fetched) -> _Fetched:
    return fetched


def given_draws(
    bank: InstanceBank, sampler: BankSampler | NxMSampler, num_crops: int, replicas: ReplicaFinder
) -> BankSampler | NxMDraws:
    """Return the draws of a loader, after a check that the sampler fits the bank, B K crops per step, and the process.

    Raises:
        TypeError: the sampler is of another kind.
        ValueError: the sampler is of another bank or rank, or its epoch does not fill a step.
    """
    if not isinstance(sampler, BankSampler | NxMSampler):
        advice = "the NxMSampler itself" if isinstance(sampler, NxMBatches) else "BankSampler(bank)"
        raise TypeError(
            f"sampler: expected a BankSampler or an NxMSampler of the bank, got {type(sampler).__name__}; give "
            f"{advice}, or leave sampler out"
        )
    sampler.progress.replicas.expect_same(replicas)
    if isinstance(sampler, NxMSampler):
        if sampler.batch_size != num_crops:
            raise ValueError(
                f"sampler: expected N * M = batch_size * crops_per_target = {num_crops}, got {sampler.batch_size}; "
                "give batch_size and crops_per_target whose product is sampler.batch_size"
            )
        return NxMDraws(bank, sampler)
    if (of_bank := sampler.identity()["bank"]) != bank.version:
        raise ValueError(
            f"sampler: expected a sampler of the bank of version {bank.version[:12]}, got one of version "
            f"{of_bank[:12]}; make it from this bank"
        )
    if len(sampler) < num_crops:
        raise ValueError(
            f"sampler: expected at least batch_size * crops_per_target = {num_crops} draws in an epoch, got "
            f"{len(sampler)}; give BankSampler(bank, num_samples), num_samples = steps * {num_crops}"
        )
    return sampler


class NxMDraws:
    """Draws of an `NxMSampler` over the crops of a bank for this replica, in the form that a loader stages.

    Args:
        bank: bank of the crops.
        sampler: sampler of that bank. Its labels may differ from the classes of the bank; N and M refer to the labels.

    Attributes:
        crops: crops of each class.

    Raises:
        ValueError: the number of samples of the sampler is not the number of crops of the bank.
    """

    def __init__(self, bank: InstanceBank, sampler: NxMSampler) -> None:
        if sampler.num_samples != len(bank):
            raise ValueError(
                f"sampler: expected a sampler of the bank's {len(bank)} crops, got one of {sampler.num_samples} "
                "samples; make it from this bank"
            )
        self.sampler, self._class_ids = sampler, bank.crop_class_ids()
        self.crops = SamplesOfClasses(self._class_ids, len(bank.class_names))
        self.progress, self._bank_version = sampler.progress, bank.version
        self._of_pass: tuple[int, Replica, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.sampler)

    def draws(self, first: int, num: int, *, epoch: int, replica: Replica) -> Draws:
        """Return ``num`` draws of a replica in an epoch, from ``first`` on."""
        if self._of_pass is None or self._of_pass[:2] != (epoch, replica):
            size = -1, self.sampler.N_classes_per_batch, self.sampler.M_samples_per_class
            by_class = self.sampler.replica_batches(epoch, replica).reshape(size)
            self._of_pass = epoch, replica, by_class.transpose(0, 2, 1).ravel()  # neighbours are of several classes
        crops = self._of_pass[2][first : first + num]
        seed = derive_seed(self.sampler.base_seed, epoch, replica.rank, 0, 0)
        return Draws(seed, np.arange(first, first + len(crops), dtype=np.int64), self._class_ids[crops], crops)

    def identity(self) -> dict[str, Any]:
        """Return the facts of `NxMSampler.identity` and the version of the bank."""
        return {"bank": self._bank_version, **self.sampler.identity()}

    def report(self) -> NxMReport:
        """Return `NxMSampler.report`."""
        return self.sampler.report()
