"""Which classes meet in which batch: N distinct ones in each, for as many batches as there can be.

A class comes as a number of groups, of M samples each, which are interchangeable here. A batch takes one group each of
N classes. So a class has part in at most T of T batches, and T batches can be filled if and only if

    sum over classes of min(groups of c, T)  >=  N T.

`num_full_batches` solves that for T, and `schedule` fills T batches whenever it holds: classes take turns, but one that
has a group for every batch that is left is bound, and must be in all of them.

This never fails, for the condition holds for the T - 1 batches that are left after one. If at most N classes are bound,
the batch takes all of them: each class that it takes lowers the sum by one and no other class does, so by N in all. If
more than N are bound, N of them have a group for every batch that is left, which is enough by itself.

It is the preemptive scheduling of jobs on N machines: McNaughton, "Scheduling with deadlines and loss functions",
Management Science 6(1), 1959.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from segpaste.samplers._turns import fill

Ints = NDArray[np.int64]


def num_full_batches(num_groups: Ints, num_distinct: int) -> int:
    """The most batches of N distinct classes that can be made of so many groups of each class, [C]."""
    low, high = 0, int(num_groups.sum()) // num_distinct
    while low < high:  # where T batches can be filled, T - 1 can
        middle = (low + high + 1) // 2
        if int(np.minimum(num_groups, middle).sum()) >= num_distinct * middle:
            low = middle
        else:
            high = middle - 1
    return low


def num_covering_batches(num_groups: Ints, num_distinct: int) -> int:
    """The fewest batches of N distinct classes, of at least N, in which every group of each class, [C], has a place."""
    return max(int(num_groups.max()), -(-int(num_groups.sum()) // num_distinct))


def filled_up(num_groups: Ints, num_distinct: int, num_batches: int) -> Ints:
    """Groups of each class, [C], so that they fill the batches: classes are taken again in turn, from the first on.

    Args:
        num_groups: of each class, [C], at most ``num_batches`` each and no more in all than there are places.
        num_distinct: N, at most C.
        num_batches: T.
    """
    missing = num_distinct * num_batches - int(num_groups.sum())
    room = num_batches - num_groups
    rounds, most = 0, num_batches
    while rounds < most:  # the most whole rounds that the missing ones suffice for
        middle = (rounds + most + 1) // 2
        if int(np.minimum(room, middle).sum()) <= missing:
            rounds = middle
        else:
            most = middle - 1
    filled = num_groups + np.minimum(room, rounds)
    rest = num_distinct * num_batches - int(filled.sum())
    filled[np.flatnonzero(filled < num_batches)[:rest]] += 1
    return filled


def schedule(num_groups: Ints, num_distinct: int, num_batches: int, turns: NDArray[np.float64] | None = None) -> Ints:
    """The classes of each batch, [T, N], no class twice in one.

    Args:
        num_groups: of each class, [C].
        num_distinct: N.
        num_batches: T, at most `num_full_batches`.
        turns: random numbers in [0, 1), [(T + 1) N], that choose who is next; by default classes take turns in their
            order, and one that had its turn queues up behind.
    """
    classes = np.empty((num_batches, num_distinct), np.int64)
    fill(np.minimum(num_groups, num_batches), turns, classes)
    return classes
