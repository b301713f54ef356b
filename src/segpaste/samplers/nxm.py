"""Samplers whose batches hold N classes and M samples of each, for losses that compare samples of and between classes.

The batches of an epoch are ``epoch_batches(..., seed=derive_seed(base_seed, epoch, 0, 0, 0))``, the same on every
replica, see `segpaste.samplers.epoch_batches`. Replica r of R takes batches r, r + R, r + 2 R and so on, whole, so N
and M are those of one replica. Where the replicas do not come out even, the first batches are taken again.

Not for drawing classes by weight, with replacement: `segpaste.BankSampler` does that for a bank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from segpaste.samplers.classes import Labels, SamplesOfClasses, read_labels
from segpaste.samplers.epoch import Plan
from segpaste.samplers.replicas import place_among
from segpaste.samplers.report import NxMReport, report_batches
from segpaste.seeding import check_uint64, derive_seed


class NxMSampler(Sampler[int]):
    """What the samplers of N x M batches share; take `RandomNxMSampler` or `ExhaustiveNxMSampler`.

    Derive your own from one of these two, or from this one and set `exhaustive`; keep the arguments of ``__init__``.

    For ``DataLoader(dataset, batch_sampler=sampler.batch_sampler())``. Iterating gives indices, batch after batch, so
    ``DataLoader(dataset, batch_size=sampler.batch_size, sampler=sampler)`` gives the same batches. Call `set_epoch`
    before each epoch; without it every epoch is the same.

    Args:
        labels: the class of each sample: a tensor, array or list of integers or strings, a bank, or a dataset that has
            ``labels`` or ``targets``.
        N_classes_per_batch: distinct classes of a batch, N, at least 1.
        M_samples_per_class: samples of each class in a batch, M, at least 1.
        shuffle: draw the order of the classes, of the batches and of the samples of a class, else classes come in
            ascending order.
        drop_last: leave out what does not fit into batches of N distinct classes: on a long tail most samples of a
            large class, others in each shuffled epoch, see `report`. With False samples of other classes are taken
            again instead. Unlike torch's, no batch is ever short.
        base_seed: of everything drawn.
        rank: this process's number; by default that of torch.distributed, else 0.
        num_replicas: how many processes there are; likewise.
        batch_size: refused if it is not N M; for those who write it down elsewhere.

    Attributes:
        classes: the distinct labels, ascending, [C].
        num_samples: how many samples have a label, so those of the dataset; an epoch's indices are `len`.
        batch_size: indices of a batch, N M.
        epoch: that is drawn, see `set_epoch`.
        N_classes_per_batch, M_samples_per_class, shuffle, drop_last, base_seed: as given.
        rank, num_replicas: as given, or found.

    Raises:
        ValueError: there are fewer than N classes, or an argument is out of its range.
    """

    exhaustive: ClassVar[bool]
    """Take all samples of each class in an epoch, not M of them."""

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
            raise TypeError(f"{what}: expected one that says what is sampled; take one of its subclasses")
        if batch_size is not None and batch_size != N_classes_per_batch * M_samples_per_class:
            raise ValueError(
                f"{what}: expected a batch size of N * M = {N_classes_per_batch} * {M_samples_per_class} = "
                f"{N_classes_per_batch * M_samples_per_class}, got {batch_size}"
            )
        self.rank, self.num_replicas = place_among(what, rank, num_replicas)
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
        self.epoch, self._start, self._num_drawn = 0, 0, 0
        self._reading: object | None = None

    @property
    def start(self) -> int:
        """Indices of this epoch that the next iteration skips: those that a loaded state says were used."""
        return self._start

    @property
    def num_batches(self) -> int:
        """Batches of an epoch on this replica; as many on every other."""
        return -(-self._plan.num_batches // self.num_replicas)

    def __len__(self) -> int:
        """Indices of an epoch on this replica; as many on every other."""
        return self.num_batches * self.batch_size

    def epoch_batches(self, epoch: int | None = None) -> NDArray[np.int64]:
        """All batches of an epoch, by default this one, of all replicas, none twice: [T, N M]."""
        seed = derive_seed(self.base_seed, self.epoch if epoch is None else epoch, 0, 0, 0)
        return self._plan.batches(self._samples, self.shuffle, seed)

    def replica_batches(self, epoch: int | None = None) -> NDArray[np.int64]:
        """Those that this replica takes, [`num_batches`, N M]."""
        turns = np.arange(self.num_batches) * self.num_replicas + self.rank
        return self.epoch_batches(epoch)[turns % self._plan.num_batches]

    def __iter__(self) -> Iterator[int]:
        return self._drawn(self.epoch)

    def _drawn(self, epoch: int) -> Iterator[int]:
        """The indices of an epoch.

        The place is taken at the first `next`: a DataLoader with workers calls `iter` twice and uses the second.
        """
        start, reading = 0, object()
        if epoch == self.epoch:
            self._num_drawn = start = self._start
            self._start, self._reading = 0, reading
        for place, sample in enumerate(self.replica_batches(epoch).ravel()[start:].tolist(), start=start + 1):
            if self._reading is reading:  # else an iteration that was left: the place is that of another
                self._num_drawn = place
            yield sample

    def batch_sampler(self) -> NxMBatches:
        """The same, a list of indices for each batch, for ``DataLoader(dataset, batch_sampler=...)``."""
        return NxMBatches(self)

    def set_epoch(self, epoch: int) -> None:
        """Draw epoch ``epoch``, >= 0, from the next iteration on.

        Setting the one that is set already changes nothing, so a loaded place survives.

        Raises:
            ValueError: it is negative.
        """
        check_uint64(epoch, "epoch")
        if epoch != self.epoch:
            self.epoch, self._start, self._num_drawn, self._reading = epoch, 0, 0, None

    def state_dict(self, num_drawn: int | None = None) -> dict[str, Any]:
        """Where an epoch is, and of what sampler; on every replica the same.

        With loader workers ``num_drawn`` must be given: they draw ahead, so only the training loop knows it.

        Args:
            num_drawn: indices of this epoch that were used; by default those of the batches that were handed out whole.
        """
        if num_drawn is None:
            num_drawn = self._num_drawn // self.batch_size * self.batch_size
        return {"epoch": int(self.epoch), "num_drawn": int(num_drawn), "sampler": self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there: the next iteration gives what was left, though `len` stays that of a whole epoch.

        Raises:
            ValueError: the state is of a sampler with other arguments or labels, or not at the end of a batch.
        """
        if state.get("sampler") != self._identity():
            raise ValueError(
                f"{type(self).__name__}: expected the state of a sampler like this, got another; keep labels, N, M, "
                f"shuffle, drop_last, base_seed and the number of replicas"
            )
        num_drawn = int(state["num_drawn"])
        if num_drawn % self.batch_size or not 0 <= num_drawn <= len(self):
            raise ValueError(
                f"{type(self).__name__}: expected num_drawn from 0 to {len(self)} in steps of {self.batch_size}, got "
                f"{num_drawn}"
            )
        self.set_epoch(int(state["epoch"]))
        self._start = self._num_drawn = num_drawn
        self._reading = None

    def _identity(self) -> str:
        """Another one for another order of the samples."""
        numbers = self.N_classes_per_batch, self.M_samples_per_class, int(self.base_seed), int(self.num_replicas)
        arguments = self.exhaustive, bool(self.shuffle), bool(self.drop_last), *numbers
        found = hashlib.sha256(repr(arguments).encode())
        found.update(np.ascontiguousarray(self._class_ids, "<i8").data)
        return found.hexdigest()[:16]

    def report(self) -> NxMReport:
        """What this epoch covers, over all replicas, counted."""
        return report_batches(self.classes, self._class_ids, self._plan, self.epoch_batches(), self.num_replicas)


class RandomNxMSampler(NxMSampler):
    """Each class once in an epoch, M random samples of it; the other arguments are those of `NxMSampler`.

    The M samples are distinct if the class has M; of a class that has fewer each is taken as often as any other, or
    once more. An epoch has one batch for N classes. Where N does not divide the classes, some are left out, or with
    ``drop_last=False`` some are taken again, with other samples as far as there are.
    """

    exhaustive = False


class ExhaustiveNxMSampler(NxMSampler):
    """All samples of each class, in groups of M; the other arguments are those of `NxMSampler`.

    The classes take turns. A class with as many groups left as there are batches left is put into every one of them,
    which gives the most batches of N distinct classes. The epoch ends where fewer than N classes have groups left; the
    samples that are left then are in no batch, others in each shuffled epoch. With ``drop_last=False`` it goes on until
    every sample was taken, and samples of the other classes are taken again. Where M does not divide the samples of a
    class, its last group is filled up with its first samples.
    """

    exhaustive = True


class NxMBatches(Sampler[list[int]]):
    """The batches of a sampler as lists of indices; epochs and states are the sampler's.

    Args:
        sampler: whose batches they are.
    """

    def __init__(self, sampler: NxMSampler) -> None:
        self.sampler = sampler

    @property
    def batch_size(self) -> int:
        """Indices of a batch, N M."""
        return self.sampler.batch_size

    @property
    def drop_last(self) -> bool:
        """True: no batch is short, as with a `torch.utils.data.BatchSampler`; not `NxMSampler.drop_last`."""
        return True

    def __len__(self) -> int:
        return self.sampler.num_batches

    def __iter__(self) -> Iterator[list[int]]:
        return self._cut(iter(self.sampler))

    def _cut(self, indices: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(islice(indices, self.sampler.batch_size)):
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """See `NxMSampler.set_epoch`."""
        self.sampler.set_epoch(epoch)

    def state_dict(self, num_drawn: int | None = None) -> dict[str, Any]:
        """See `NxMSampler.state_dict`."""
        return self.sampler.state_dict(num_drawn)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `NxMSampler.load_state_dict`."""
        self.sampler.load_state_dict(state)
