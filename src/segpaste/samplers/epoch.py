"""Batches of an epoch, computed by index arithmetic: N classes in each batch, M samples of each class.

Samples of a class are taken in groups of M: its first M samples, the next M, and so on. A short last group is filled
with the first samples of the class. A group repeats no sample if its class has at least M samples.
`segpaste.samplers._schedule` chooses the classes of each batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from segpaste.samplers._schedule import filled_up, num_covering_batches, num_full_batches, schedule
from segpaste.samplers.classes import Labels, SamplesOfClasses, read_labels
from segpaste.seeding import check_uint64, random_bits_numpy


def epoch_batches(
    labels: Labels,
    N_classes_per_batch: int,
    M_samples_per_class: int,
    *,
    exhaustive: bool = True,
    shuffle: bool = True,
    drop_last: bool = True,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Return all batches of an epoch, [T, N M], as a pure function of the arguments.

    The samplers use ``seed=derive_seed(base_seed, epoch, 0, 0, 0)``; see `segpaste.derive_seed`.

    Args:
        labels: the class of each sample, see `segpaste.samplers.Labels`.
        N_classes_per_batch: number of distinct classes in a batch, N, at least 1.
        M_samples_per_class: number of samples of each class in a batch, M, at least 1.
        exhaustive: take all groups of each class, as `segpaste.samplers.ExhaustiveNxMSampler` does; else take one
            group of random samples, as `segpaste.samplers.RandomNxMSampler` does.
        shuffle: shuffle the classes, the batches and the samples of each class.
        drop_last: end when fewer than N classes have groups left; else continue until every group is in a batch, and
            repeat other classes to fill the batches.
        seed: seed of all random choices, in [0, 2**64).

    Raises:
        ValueError: there are fewer than N classes, or an argument is out of its range.
    """
    check_uint64(seed, "seed")
    _, class_ids = np.unique(read_labels(labels), return_inverse=True)
    samples = SamplesOfClasses(class_ids, int(class_ids.max()) + 1)
    plan = Plan(samples.counts, N_classes_per_batch, M_samples_per_class, exhaustive, drop_last)
    return plan.batches(samples, shuffle, seed)


class Plan:
    """Number of batches of an epoch, and number of groups of each class.

    Args:
        counts: number of samples of each class, [C], at least one.
        N_classes_per_batch, M_samples_per_class, exhaustive, drop_last: see `epoch_batches`.

    Attributes:
        num_batches: T.
        num_groups: number of groups of each class, [C]; with ``drop_last`` some groups may be in no batch.
    """

    def __init__(
        self,
        counts: NDArray[np.int64],
        N_classes_per_batch: int,
        M_samples_per_class: int,
        exhaustive: bool,
        drop_last: bool,
    ) -> None:
        size = N_classes_per_batch, M_samples_per_class
        if not all(isinstance(num, int | np.integer) and not isinstance(num, bool) and num >= 1 for num in size):
            raise ValueError(
                "expected integers, at least one class in a batch and one sample of each, got "
                f"N = {N_classes_per_batch!r} and M = {M_samples_per_class!r}"
            )
        if len(counts) < N_classes_per_batch:
            raise ValueError(
                f"expected at least N = {N_classes_per_batch} classes, as many as a batch has, got {len(counts)}; "
                "lower N"
            )
        self.N_classes_per_batch, self.M_samples_per_class = N_classes_per_batch, M_samples_per_class
        self.exhaustive, self.drop_last = exhaustive, drop_last
        self.num_groups = -(-counts // M_samples_per_class) if exhaustive else np.ones_like(counts)
        find_num_batches = num_full_batches if drop_last else num_covering_batches
        self.num_batches = find_num_batches(self.num_groups, N_classes_per_batch)

    def batches(self, samples: SamplesOfClasses, shuffle: bool, seed: int) -> NDArray[np.int64]:
        """Return all batches, [T, N M]; see `epoch_batches` for the arguments."""
        num_classes = len(self.num_groups)
        order = _random(seed, "nxm.class", num_classes).argsort(kind="stable") if shuffle else np.arange(num_classes)
        groups = self.num_groups[order]
        if not self.drop_last:
            groups = filled_up(groups, self.N_classes_per_batch, self.num_batches)
        num_turns = (self.num_batches + 1) * self.N_classes_per_batch if shuffle else 0
        turns = _random(seed, "nxm.turn", num_turns).astype(np.float64) * 2.0**-32
        classes = order[schedule(groups, self.N_classes_per_batch, self.num_batches, turns if shuffle else None)]
        if shuffle or not self.exhaustive:
            num_samples = int(samples.counts.sum())
            samples = samples.shuffled(_random(seed, "nxm.sample", num_samples).astype(np.uint32))
        first = _nth_of_each(classes.ravel()) * self.M_samples_per_class
        places = first[:, None] + np.arange(self.M_samples_per_class)
        taken = samples.pick(classes.reshape(-1, 1), places % samples.counts[classes.reshape(-1, 1)])
        batches = taken.reshape(self.num_batches, -1)
        return batches[_random(seed, "nxm.batch", len(batches)).argsort(kind="stable")] if shuffle else batches


def _nth_of_each(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the equal values before each value, [n]."""
    order = values.argsort(kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    nth = np.empty_like(values)
    nth[order] = np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))
    return nth


def _random(seed: int, name: str, num: int) -> NDArray[np.int64]:
    """Draw random integers in [0, 2**32), [num]."""
    return np.asarray(random_bits_numpy(seed, name, np.arange(num)) >> np.uint64(32), np.int64)
