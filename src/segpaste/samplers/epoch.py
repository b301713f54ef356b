"""Batches of an epoch, computed by index arithmetic: N classes in each batch, M samples of each class.

Samples of a class are taken in groups of M: its first M samples, the next M, and so on. A short last group is filled
with the first samples of the class. A group repeats no sample if its class has at least M samples.

Each class has a number of groups of M samples; its groups are interchangeable. A batch takes one group from each of N
classes. Hence a class is in at most T of T batches, and T batches can be filled if and only if

    sum over classes of min(groups of c, T)  >=  N T.

`num_full_batches` solves this for T, and `schedule` fills T batches whenever it holds: classes take turns, but a class
with a group for every remaining batch is bound and must be in all of them.

This never fails, because the condition still holds for the T - 1 batches after the first. If at most N classes are
bound, the batch takes all of them. Each class in the batch lowers the sum by one, and no other class does, so the sum
falls by N. If more than N classes are bound, N of them have a group for every remaining batch, which is enough.

This is preemptive scheduling of jobs on N machines: McNaughton, "Scheduling with deadlines and loss functions",
Management Science 6(1), 1959.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from segpaste.samplers.by_class import SamplesOfClasses
from segpaste.samplers.classes import Labels, read_labels
from segpaste.seeding import check_uint64, random_bits_numpy

Ints = NDArray[np.int64]


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


def num_full_batches(num_groups: Ints, num_distinct: int) -> int:
    """Return the largest number of batches of N distinct classes, given the number of groups of each class, [C]."""

    def num_missing(num_batches: int) -> int:
        return num_distinct * num_batches - int(np.minimum(num_groups, num_batches).sum())

    most = int(num_groups.sum()) // num_distinct
    return bisect_right(range(1, most + 1), 0, key=num_missing)  # where T batches can be filled, T - 1 can


def num_covering_batches(num_groups: Ints, num_distinct: int) -> int:
    """Return the smallest number of batches of N distinct classes that hold all groups of each class, [C]."""
    return max(int(num_groups.max()), -(-int(num_groups.sum()) // num_distinct))


def filled_up(num_groups: Ints, num_distinct: int, num_batches: int) -> Ints:
    """Add groups to classes until the batches are full, and return the groups of each class, [C].

    Args:
        num_groups: groups of each class, [C], at most ``num_batches`` each and N T in all.
        num_distinct: N, at most C.
        num_batches: T.
    """
    missing = num_distinct * num_batches - int(num_groups.sum())
    room = num_batches - num_groups

    def num_taken(num_rounds: int) -> int:
        return int(np.minimum(room, num_rounds).sum())

    rounds = bisect_right(range(1, num_batches + 1), missing, key=num_taken)  # full rounds over all classes
    filled = num_groups + np.minimum(room, rounds)
    rest = num_distinct * num_batches - int(filled.sum())
    filled[np.flatnonzero(filled < num_batches)[:rest]] += 1
    return filled


def schedule(num_groups: Ints, num_distinct: int, num_batches: int, turns: NDArray[np.float64] | None = None) -> Ints:
    """Return the classes of each batch, [T, N], without repeating a class in a batch.

    A bound class stays in the queue until its turn, and is skipped then.

    Args:
        num_groups: groups of each class, [C].
        num_distinct: N.
        num_batches: T, at most `num_full_batches`.
        turns: random numbers in [0, 1), [(T + 1) N], that choose the next class; by default the first class in the
            queue is next, and returns to its end.
    """
    left: list[int] = np.minimum(num_groups, num_batches).tolist()
    queue = deque(c for c, num in enumerate(left) if num > 0)
    turn = None if turns is None else iter(turns.tolist())
    of_num: dict[int, set[int]] = {}  # the classes that are not bound, by the number of groups left
    for c in queue:
        of_num.setdefault(left[c], set()).add(c)
    bound: list[int] = []
    is_bound = [False] * len(left)
    since, now = list(range(len(left))), len(left)
    classes = np.empty((num_batches, num_distinct), np.int64)
    for t in range(num_batches):
        for c in of_num.pop(num_batches - t, ()):
            is_bound[c] = True
            bound.append(c)
        if bound:
            bound.sort(key=since.__getitem__)
        chosen = bound[:num_distinct]
        while len(chosen) < num_distinct:
            c = _next_in_turn(queue, turn)
            if not is_bound[c]:
                chosen.append(c)
        if bound and turns is None:  # in the order of the queue
            chosen.sort(key=since.__getitem__)
        classes[t] = chosen
        for c in chosen:
            since[c], now = now, now + 1
            if is_bound[c]:
                continue
            of_num[left[c]].discard(c)
            left[c] -= 1
            if left[c] > 0:
                of_num.setdefault(left[c], set()).add(c)
                queue.append(c)
    return classes


def _next_in_turn(queue: deque[int], turn: Iterator[float] | None) -> int:
    """Remove and return the first class of the queue, or with ``turn``, numbers in [0, 1), a random class."""
    if turn is not None:
        other = int(next(turn) * len(queue))
        queue[0], queue[other] = queue[other], queue[0]
    return queue.popleft()
