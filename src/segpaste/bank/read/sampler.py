"""Sampler of crops: it draws a class first, then a crop of it, so that rare classes get their share.

The modes are those of `segpaste.bank.read.class_draws`. Draws are with replacement. For an exact pass over a bank
iterate over its indices instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste._reprs import counted
from segpaste.bank.format.protocol import InstanceBank, check_bank
from segpaste.bank.read.class_draws import (
    ClassTable,
    DrawMode,
    DrawReport,
    class_probabilities,
    photo_fracs,
    report_draws,
    uniforms,
)
from segpaste.epochs import EpochPass, EpochProgress, EpochSampler, Replica
from segpaste.samplers.by_class import SamplesOfClasses
from segpaste.seeding import check_uint64, derive_seed
from segpaste.types.check import check_count, check_number

Replicas = Literal["independent", "disjoint"]

_BLOCK = 1 << 14
_WITH_THRESHOLD = ("repeat_factor", "instance_aware")


class Draws(NamedTuple):
    """Some draws of an epoch.

    Attributes:
        seed: seed of their sequence.
        positions: positions in the sequence, int64 [n].
        classes: class of each draw, int64 [n].
        crops: index in the bank of each draw, int64 [n].
    """

    seed: int
    positions: NDArray[np.int64]
    classes: NDArray[np.int64]
    crops: NDArray[np.int64]


class BankSampler(EpochSampler[int]):
    """Sampler of the crops of a bank, which draws rare classes more often.

    A draw is a pure function of (seed, epoch, rank, position). Each iteration is a new epoch; on several ranks call
    `set_epoch` before each, see `segpaste.epochs.progress`.

    Args:
        bank: bank of the crops.
        num_samples: number of draws of an epoch on each replica; by default the replica's part of the crops.
        mode: draw mode, see `segpaste.bank.read.class_draws.class_probabilities`, also for the next two.
        threshold: threshold t of the repeat factors; by default the mean frequency of the bank's classes, so that every
            rarer class is drawn more often. The paper's 1e-3 changes little in banks of few classes.
        temperature: temperature of ``tempered``.
        base_seed: seed of all draws.
        rank: number of this process; by default that of torch.distributed when a pass begins, else 0.
        num_replicas: number of processes; by default likewise.
        replicas: ``independent``: each replica has its own sequence; or ``disjoint``: all take turns in one sequence.
            Their draws together are the first ``num_replicas * num_samples`` of that sequence, and do not depend on the
            number of replicas.

    Attributes:
        probabilities: probability of each class, [C].
        progress: epoch and position of the pass; a loader around the sampler shares it.

    Raises:
        TypeError: ``bank`` is not a bank but, for example, a path, or another argument has the wrong type.
        ValueError: the bank is empty, or an argument is out of its range.
        BankError: the mode is ``instance_aware``, and the bank does not keep the image of a crop.
    """

    def __init__(
        self,
        bank: InstanceBank,
        num_samples: int | None = None,
        *,
        mode: DrawMode = "repeat_factor",
        threshold: float | None = None,
        temperature: float = 0.5,
        base_seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
        replicas: Replicas = "independent",
    ) -> None:
        check_bank("BankSampler", bank)
        super().__init__(EpochProgress("BankSampler", rank, num_replicas))
        if replicas not in ("independent", "disjoint"):
            raise ValueError(f"BankSampler: expected replicas 'independent' or 'disjoint', got {replicas!r}")
        if num_samples is not None:
            check_count("BankSampler: num_samples", num_samples)
        if threshold is not None:
            check_number("BankSampler: threshold", threshold)
        check_number("BankSampler: temperature", temperature)
        if not len(bank):
            raise ValueError("BankSampler: expected a bank with crops, got an empty one")
        self.crops = SamplesOfClasses(bank.crop_class_ids(), len(bank.class_frequencies))
        self.probabilities = class_probabilities(
            self.crops.counts,
            mode,
            threshold=threshold,
            temperature=temperature,
            photo_fracs=photo_fracs(bank, self.crops) if mode == "instance_aware" else None,
        )
        check_uint64(base_seed, "base_seed")  # fails here, not at the first draw
        self.base_seed, self.replicas = base_seed, replicas
        self._num_samples, self._multiple_of = num_samples, 1
        self._table = ClassTable(self.probabilities)
        self._class_names = bank.class_names
        self._facts = {
            "bank": bank.version,
            "mode": mode,
            "threshold": None if threshold is None or mode not in _WITH_THRESHOLD else float(threshold),
            "temperature": float(temperature) if mode == "tempered" else None,
            "replicas": replicas,
            "base_seed": int(base_seed),
        }

    def _facts_in_words(self) -> Iterator[Callable[[], str | None]]:
        yield lambda: counted(len(self), "draw")
        yield lambda: f"of {len(self.crops):,} crops of {counted(len(self.probabilities), 'class', 'classes')}"
        for name in ("mode", "threshold", "temperature"):
            yield partial(self._fact, name)
        yield lambda: None if self.replicas == "independent" else f"replicas={self.replicas}"
        yield from self.progress.facts(self.base_seed)

    def _fact(self, name: str) -> str | None:
        return None if (value := self._facts[name]) is None else f"{name}={value}"

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """Number of draws of an epoch on each replica."""
        num = self.replica.share(len(self.crops)) if self._num_samples is None else self._num_samples
        return -(-num // self._multiple_of) * self._multiple_of

    def __len__(self) -> int:
        return self.num_samples

    def pass_indices(self, this: EpochPass) -> Iterator[int]:
        """Yield the crops of a pass, from its start position on."""
        num_samples = self.num_samples
        for first in range(this.start, num_samples, _BLOCK):
            num = min(_BLOCK, num_samples - first)
            yield from self.draws(first, num, epoch=this.epoch, replica=this.replica).crops.tolist()

    def draws(self, first: int, num: int, *, epoch: int | None = None, replica: Replica | None = None) -> Draws:
        """Return draws of a replica in an epoch, independent of any iteration before.

        Args:
            first: position of the first draw.
            num: number of draws.
            epoch: epoch, by default the present one.
            replica: replica, by default this process.
        """
        replica = replica or self.replica
        epoch = self.epoch if epoch is None else epoch
        independent = self.replicas == "independent"
        seed = derive_seed(self.base_seed, epoch, replica.rank if independent else 0, 0, 0)
        positions = (Replica(0, 1) if independent else replica).turns(first, num)
        classes = self._table.draw(uniforms(seed, "bank.class", positions))
        places = uniforms(seed, "bank.crop", positions) * self.crops.counts[classes]
        return Draws(seed, positions, classes, self.crops.pick(classes, places.astype(np.int64)))

    def identity(self) -> dict[str, Any]:
        """Return the facts that determine an epoch; a state with other facts is rejected."""
        return {**self._facts, "num_samples": self.num_samples, "num_replicas": int(self.num_replicas)}

    def report(self) -> DrawReport:
        """Return the expected draws of an epoch."""
        return report_draws(self._class_names, self.crops.counts, self.probabilities, self.num_samples)
