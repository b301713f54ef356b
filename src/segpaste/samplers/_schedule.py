"""Schedule of the classes of each batch: N distinct ones in each, for as many batches as possible.

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

Ints = NDArray[np.int64]


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
