"""Samplers of batches of N classes and M samples of each class, for losses that compare samples by class.

The batches of an epoch are ``epoch_batches(..., seed=derive_seed(base_seed, epoch, 0, 0, 0))``, the same on every
replica; see `segpaste.samplers.epoch_batches`. Replica r of R takes the batches r, r + R, r + 2 R and so on, so N and M
apply to one replica. If R does not divide the number of batches, the first batches are repeated.

To draw classes by weight, with replacement, from a bank, use `segpaste.BankSampler`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import BatchSampler, Sampler

from segpaste._reprs import counted, described
from segpaste.epochs import EpochPass, EpochProgress, EpochReader, EpochSampler, Replica
from segpaste.samplers.by_class import SamplesOfClasses
from segpaste.samplers.classes import Labels, read_labels
from segpaste.samplers.epoch import Plan
from segpaste.seeding import check_uint64, derive_seed

_LOADER = "torch.utils.data.dataloader"
_FEW = 8
"""Number of callers that are looked at: torch reads a sampler directly."""

_MAX_LINES = 10


class NxMSampler(EpochSampler[int]):
    """Base class of samplers of N x M batches; use `RandomNxMSampler` or `ExhaustiveNxMSampler`.

    To write your own sampler, subclass one of these two, or subclass this class and set `exhaustive`. Keep the
    arguments of ``__init__``.

    Use it as ``DataLoader(dataset, batch_sampler=sampler.batch_sampler())``. Iteration yields indices, batch after
    batch, so ``DataLoader(dataset, batch_size=sampler.batch_size, sampler=sampler)`` yields the same batches. Every new
    pass is a new epoch; on several ranks call `set_epoch` before each pass, see `segpaste.epochs.progress`. Do not pass
    it to Accelerate's ``prepare``, which would shard it a second time; a pass over a prepared sampler is rejected.

    Args:
        labels: the class of each sample: a tensor, array or list of integers or strings, a bank, or a dataset that has
            ``labels`` or ``targets``.
        N_classes_per_batch: number of distinct classes in a batch, N, at least 1.
        M_samples_per_class: number of samples of each class in a batch, M, at least 1.
        shuffle: shuffle the classes, the batches and the samples of each class; else classes are in ascending order.
        drop_last: leave out samples that do not fit into batches of N distinct classes. On a long tail these are most
            samples of a large class, different ones in each shuffled epoch; see `report`. With False, samples of other
            classes are repeated instead. Unlike with torch's samplers, no batch is ever short.
        base_seed: seed of all random choices.
        rank: number of this process; by default that of torch.distributed when a pass begins, else 0.
        num_replicas: number of processes, with the same default.
        batch_size: N M, for configurations that state it; other values are rejected.

    Attributes:
        classes: the distinct labels, ascending, [C].
        num_samples: number of labels, which is the number of samples in the dataset; `len` counts the indices of an
            epoch.
        batch_size: number of indices in a batch, N M.
        progress: current epoch and the place in it; a loader that uses the sampler shares it.
        N_classes_per_batch, M_samples_per_class, shuffle, drop_last, base_seed: as given.

    Raises:
        ValueError: there are fewer than N classes, or an argument is out of its range.
    """

    exhaustive: ClassVar[bool]
    """True if an epoch takes all samples of each class, False if it takes M of them."""

    def __init__(
        self,
        labels: Labels,
        N_classes_per_batch: int,
        M_samples_per_class: int,
        shuffle: bool = True,
        drop_last: bool = True,
        *,
        base_seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        what = type(self).__name__
        if not hasattr(self, "exhaustive"):
            raise TypeError(f"{what}: expected a class that sets exhaustive; use one of its subclasses")
        if batch_size is not None and batch_size != N_classes_per_batch * M_samples_per_class:
            raise ValueError(
                f"{what}: expected a batch size of N * M = {N_classes_per_batch} * {M_samples_per_class} = "
                f"{N_classes_per_batch * M_samples_per_class}, got {batch_size}"
            )
        super().__init__(EpochProgress(what, rank, num_replicas))
        self.drop_last = drop_last
        self.shuffle, self.base_seed = shuffle, base_seed
        try:
            check_uint64(base_seed, "base_seed")
            self.classes, class_ids = np.unique(read_labels(labels), return_inverse=True)
            self._class_ids = class_ids.astype(np.min_scalar_type(len(self.classes)))
            self._samples = SamplesOfClasses(class_ids, len(self.classes))
            counts = self._samples.counts
            self._plan = Plan(counts, N_classes_per_batch, M_samples_per_class, self.exhaustive, drop_last)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from error
        self.N_classes_per_batch, self.M_samples_per_class = int(N_classes_per_batch), int(M_samples_per_class)
        self.batch_size = self.N_classes_per_batch * self.M_samples_per_class
        self.num_samples = len(class_ids)

    def begin(self) -> EpochPass:
        """Start a pass.

        Raises:
            ValueError: a DataLoader takes its indices for batches, or makes batches of another size.
        """
        _check_reader(self)
        return super().begin()

    def _facts_in_words(self) -> Iterator[Callable[[], str | None]]:
        yield lambda: f"{self.N_classes_per_batch} classes x {self.M_samples_per_class} samples"
        yield lambda: counted(self.num_batches, "batch", "batches")
        yield lambda: f"of {self.num_samples:,} samples of {counted(len(self.classes), 'class', 'classes')}"
        yield lambda: None if self.shuffle else "shuffle=False"
        yield lambda: None if self.drop_last else "drop_last=False"
        yield from self.progress.facts(self.base_seed)

    @property
    def num_batches(self) -> int:
        """Number of batches of an epoch on each replica."""
        return self.replica.share(self._plan.num_batches)

    def __len__(self) -> int:
        """Return the number of indices of an epoch on each replica."""
        return self.num_batches * self.batch_size

    @property
    def items_per_batch(self) -> int:
        """Number of indices in a batch, N M; a place within a batch counts as its start."""
        return self.batch_size

    def epoch_batches(self, epoch: int | None = None) -> NDArray[np.int64]:
        """Return the batches of all replicas, [T, N M], each once, in an epoch, by default the current one."""
        seed = derive_seed(self.base_seed, self.epoch if epoch is None else epoch, 0, 0, 0)
        return self._plan.batches(self._samples, self.shuffle, seed)

    def replica_batches(self, epoch: int | None = None, replica: Replica | None = None) -> NDArray[np.int64]:
        """Return the batches of a replica, by default this one, [`num_batches`, N M]."""
        replica, num = replica or self.replica, self._plan.num_batches
        return self.epoch_batches(epoch)[replica.turns(0, replica.share(num)) % num]

    def pass_indices(self, this: EpochPass) -> list[int]:
        """Return the indices that a pass yields: those of its epoch that are not done."""
        indices: list[int] = self.replica_batches(this.epoch, this.replica).ravel()[this.start :].tolist()
        return indices

    def batch_sampler(self) -> NxMBatches:
        """Return a sampler that yields batches as lists of indices, for ``DataLoader(dataset, batch_sampler=...)``."""
        return NxMBatches(self)

    def identity(self) -> dict[str, Any]:
        """Return the facts that determine the content of an epoch; a state with other facts is rejected."""
        labels = hashlib.sha256(np.ascontiguousarray(self._class_ids, "<i8").data)
        return {
            "sampler": type(self).__name__,
            "N_classes_per_batch": self.N_classes_per_batch,
            "M_samples_per_class": self.M_samples_per_class,
            "shuffle": bool(self.shuffle),
            "drop_last": bool(self.drop_last),
            "base_seed": int(self.base_seed),
            "num_replicas": int(self.num_replicas),
            "labels": f"{len(self._class_ids)} with digest {labels.hexdigest()[:16]}",
        }

    def report(self) -> NxMReport:
        """Return the coverage of the current epoch, over all replicas."""
        return report_batches(self.classes, self._class_ids, self._plan, self.epoch_batches(), self.num_replicas)


class RandomNxMSampler(NxMSampler):
    """Sampler that takes each class once per epoch, with M random samples; see `NxMSampler` for the arguments.

    The M samples are distinct if the class has at least M. Samples of a smaller class are repeated as evenly as
    possible. An epoch has one batch for every N classes. If N does not divide the number of classes, some classes are
    left out; with ``drop_last=False`` some classes are repeated, with other samples if the class has enough.
    """

    exhaustive = False


class ExhaustiveNxMSampler(NxMSampler):
    """Sampler that takes all samples of each class, in groups of M; see `NxMSampler` for the arguments.

    The classes take turns. A class with as many groups left as there are batches left is in all of these batches, which
    gives the largest number of batches of N distinct classes. The epoch ends when fewer than N classes have groups
    left; the remaining samples, different ones in each shuffled epoch, are in no batch. With ``drop_last=False`` the
    epoch continues until every sample was taken, and samples of other classes are repeated. If M does not divide the
    number of samples of a class, its last group is filled with its first samples.
    """

    exhaustive = True


class NxMBatches(EpochReader, Sampler[list[int]]):
    """Batch sampler that yields the batches of a sampler as lists of indices, and shares its epoch and state.

    Args:
        sampler: the sampler of the indices.
    """

    def __init__(self, sampler: NxMSampler) -> None:
        self.sampler, self.progress = sampler, sampler.progress

    @property
    def batch_size(self) -> int:
        """Number of indices in a batch, N M."""
        return self.sampler.batch_size

    @property
    def drop_last(self) -> bool:
        """Always True, because no batch is short; unrelated to `NxMSampler.drop_last`."""
        return True

    def __len__(self) -> int:
        return self.sampler.num_batches

    def __repr__(self) -> str:
        return described(self, lambda: repr(self.sampler))

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            yield batch

    def identity(self) -> dict[str, Any]:
        """Return the facts of the sampler; see `NxMSampler.identity`."""
        return self.sampler.identity()

    @property
    def num_items(self) -> int:
        """Number of indices of an epoch on this replica."""
        return len(self.sampler)

    @property
    def items_per_batch(self) -> int:
        """Number of indices in a batch, N M."""
        return self.batch_size


def _check_reader(sampler: NxMSampler) -> None:
    """Reject a DataLoader that reads the sampler by indices as batches, or in batches of another size.

    torch does not tell a sampler who reads it, so the call stack is the only way to know.

    Args:
        sampler: sampler whose pass begins.

    Raises:
        ValueError: it is the ``batch_sampler`` of a DataLoader, or the ``sampler`` of one with another batch size.
    """
    name, size = type(sampler).__name__, sampler.batch_size
    frame, num = sys._getframe(1), 0
    while frame is not None and num < _FEW:
        reader: Any = frame.f_locals.get("self")
        is_batches = isinstance(reader, BatchSampler) and getattr(reader, "sampler", None) is sampler
        if is_batches and reader.batch_size != size:  # Accelerate's shards are batch samplers without a sampler
            raise ValueError(
                f"{name}: expected batch_size={size}, which is N * M, in its DataLoader, got {reader.batch_size}; "
                "write DataLoader(dataset, batch_sampler=sampler.batch_sampler())"
            )
        is_loader = frame.f_globals.get("__name__") == _LOADER and getattr(reader, "_index_sampler", None) is sampler
        if is_loader and getattr(reader, "_auto_collation", False):
            raise ValueError(
                f"{name}: expected a sampler of batches as batch_sampler of a DataLoader, got this sampler of indices; "
                "write DataLoader(dataset, batch_sampler=sampler.batch_sampler())"
            )
        frame, num = frame.f_back, num + 1  # type: ignore[assignment]


class LeftOut(NamedTuple):
    """Class with samples that are in no batch of an epoch.

    Attributes:
        label: label of the class, an integer or a string.
        num_samples: number of samples of the class.
        num_left_out: number of these samples that are in no batch.
    """

    label: Any
    num_samples: int
    num_left_out: int


@dataclass(frozen=True)
class NxMReport:
    """Coverage of an epoch, over all replicas.

    Attributes:
        num_samples: number of samples in the dataset.
        num_classes: number of classes in the dataset.
        N_classes_per_batch: number of distinct classes that a batch should have, N.
        M_samples_per_class: number of samples of each class in a batch, M.
        num_batches: number of batches of the epoch, T, without repetitions.
        num_repeated_batches: number of batches that are repeated so that every replica has the same number.
        min_distinct: minimum number of distinct classes in a batch.
        mean_distinct: mean number of distinct classes in a batch.
        num_covered: number of samples that are taken at least once.
        num_repeats: number of indices of samples already taken in this epoch, without those of repeated batches.
        left_out: classes with samples that are in no batch, in descending order of their number. For a random sampler,
            which takes only M samples of each class, these are the classes that are in no batch at all.
    """

    num_samples: int
    num_classes: int
    N_classes_per_batch: int
    M_samples_per_class: int
    num_batches: int
    num_repeated_batches: int
    min_distinct: int
    mean_distinct: float
    num_covered: int
    num_repeats: int
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        size = self.N_classes_per_batch * self.M_samples_per_class
        lines = [
            f"batches            {self.num_batches} of {self.N_classes_per_batch} x {self.M_samples_per_class} = "
            f"{size}, {self.num_repeated_batches} repeated so that all replicas have the same number",
            f"distinct classes   {self.min_distinct} at least, {self.mean_distinct:.2f} on average, "
            f"{self.N_classes_per_batch} possible",
            f"samples            {self.num_covered} of {self.num_samples} taken "
            f"({self.num_covered / self.num_samples:.2%}), {self.num_repeats} repeats",
        ]
        for row in self.left_out[:_MAX_LINES]:
            lines.append(f"left out           {row.num_left_out} of {row.num_samples} samples of class {row.label}")
        if (more := len(self.left_out) - _MAX_LINES) > 0:
            lines.append(f"                   and some of {more} more classes")
        return "\n".join(lines)


def report_batches(
    labels: NDArray[Any], class_ids: NDArray[Any], plan: Plan, batches: NDArray[np.int64], num_replicas: int
) -> NxMReport:
    """Return the coverage of the batches of an epoch.

    Args:
        labels: label of each class, [C].
        class_ids: class of each sample, from 0, [num_samples].
        plan: plan that made the batches.
        batches: all batches of the epoch, [T, N M].
        num_replicas: number of replicas that share the batches.
    """
    classes = np.sort(class_ids[batches], axis=1)
    num_distinct = (np.diff(classes, axis=1) != 0).sum(axis=1) + 1
    times = np.bincount(batches.ravel(), minlength=len(class_ids))
    num = np.bincount(class_ids, minlength=len(labels))
    num_left = np.bincount(class_ids[times == 0], minlength=len(labels))
    if not plan.exhaustive:
        num_left = np.where(num_left == num, num, 0)
    order = np.argsort(-num_left, kind="stable")[: int((num_left > 0).sum())]
    num_covered = int((times > 0).sum())
    return NxMReport(
        num_samples=len(class_ids),
        num_classes=len(labels),
        N_classes_per_batch=plan.N_classes_per_batch,
        M_samples_per_class=plan.M_samples_per_class,
        num_batches=len(batches),
        num_repeated_batches=-len(batches) % num_replicas,
        min_distinct=int(num_distinct.min()),
        mean_distinct=float(num_distinct.mean()),
        num_covered=num_covered,
        num_repeats=batches.size - num_covered,
        left_out=tuple(LeftOut(labels[c].item(), int(num[c]), int(num_left[c])) for c in order),
    )
