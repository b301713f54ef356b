"""Classes take turns: the loop of `segpaste.samplers.schedule`, one class after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def fill(num_left: NDArray[np.int64], turns: NDArray[np.float64] | None, classes: NDArray[np.int64]) -> None:
    """Fill ``classes`` [T, N]; the arguments are those of `segpaste.samplers.schedule.schedule`.

    A class is bound once it has a group for every batch that is left. It stays in the queue until its turn comes there.
    """
    num_batches, num_distinct = classes.shape
    left: list[int] = num_left.tolist()
    queue = _Queue([c for c, num in enumerate(left) if num > 0], None if turns is None else turns.tolist())
    of_num: dict[int, set[int]] = {}  # the classes that are not bound, by how many groups they have left
    for c in queue:
        of_num.setdefault(left[c], set()).add(c)
    bound: list[int] = []
    is_bound = [False] * len(left)
    since, now = list(range(len(left))), len(left)
    for t in range(num_batches):
        for c in of_num.pop(num_batches - t, ()):
            is_bound[c] = True
            bound.append(c)
        if bound:
            bound.sort(key=since.__getitem__)
        chosen = bound[:num_distinct]
        while len(chosen) < num_distinct:
            c = queue.take()
            if not is_bound[c]:
                chosen.append(c)
        if bound and turns is None:  # as they stood in the queue
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
    num_left[:] = left


class _Queue:
    """Classes whose turn it may be: the first, or one that ``turns``, from 0 to 1, choose to change places with it."""

    def __init__(self, classes: list[int], turns: list[float] | None) -> None:
        self._classes = deque(classes)
        self._turns = None if turns is None else iter(turns)

    def __iter__(self) -> Iterator[int]:
        return iter(self._classes)

    def append(self, c: int) -> None:
        """Add a class at the end."""
        self._classes.append(c)

    def take(self) -> int:
        """Remove the class whose turn it is."""
        classes = self._classes
        if self._turns is not None:
            other = int(next(self._turns) * len(classes))
            classes[0], classes[other] = classes[other], classes[0]
        return classes.popleft()
