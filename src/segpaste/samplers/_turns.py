"""Classes take turns: the loop of `segpaste.samplers.schedule`, compiled by Numba."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def fill(num_left, turns, shuffled, classes):
    """Fill ``classes`` [T, N]; the arguments are those of `segpaste.samplers.schedule.schedule`.

    ``queue`` is a ring of classes whose turn it may be, ``length`` of them from ``first`` on. A class is bound once it
    has a group for every batch that is left; it stays in the queue until it is met there. The others are listed by how
    many groups they have left, so that those that become bound are found at once.
    """
    num_classes, (num_batches, num_distinct) = len(num_left), classes.shape
    lists = np.full(num_batches + 1, -1), np.full(num_classes, -1), np.full(num_classes, -1)
    queue, first, length = np.empty(num_classes, np.int64), 0, 0
    for c in range(num_classes):
        if num_left[c] > 0:
            queue[length] = c
            length += 1
            _enter(lists, num_left[c], c)
    is_bound, bound, num_bound = np.zeros(num_classes, np.bool_), np.empty(num_classes, np.int64), 0
    since, now, turn = np.arange(num_classes), num_classes, 0
    for t in range(num_batches):
        num_bound = _bind(lists, num_batches - t, is_bound, bound, num_bound)
        num_chosen = min(num_bound, num_distinct)
        _first_by(since, bound[:num_bound], num_chosen)
        classes[t, :num_chosen] = bound[:num_chosen]
        while num_chosen < num_distinct:
            if shuffled:
                other = (first + int(turns[turn] * length)) % num_classes
                queue[first], queue[other] = queue[other], queue[first]
                turn += 1
            c, first, length = queue[first], (first + 1) % num_classes, length - 1
            if not is_bound[c]:
                classes[t, num_chosen] = c
                num_chosen += 1
        if num_bound > 0 and not shuffled:  # as they stood in the queue
            _first_by(since, classes[t], num_distinct)
        for c in classes[t]:
            since[c], now = now, now + 1
            if is_bound[c]:
                continue
            _leave(lists, num_left[c], c)
            num_left[c] -= 1
            if num_left[c] > 0:
                _enter(lists, num_left[c], c)
                queue[(first + length) % num_classes] = c
                length += 1


@numba.njit(cache=True)
def _enter(lists, num, c):
    """Put a class at the head of the list of those that have ``num`` groups left."""
    head, after, before = lists
    after[c], before[c] = head[num], -1
    if head[num] >= 0:
        before[head[num]] = c
    head[num] = c


@numba.njit(cache=True)
def _leave(lists, num, c):
    """Take a class out of the list of those that have ``num`` groups left."""
    head, after, before = lists
    if before[c] >= 0:
        after[before[c]] = after[c]
    else:
        head[num] = after[c]
    if after[c] >= 0:
        before[after[c]] = before[c]


@numba.njit(cache=True)
def _bind(lists, num, is_bound, bound, num_bound):
    """Add the classes that have ``num`` groups left to those that are bound; returns how many these are."""
    head, after, _ = lists
    c = head[num]
    while c >= 0:
        is_bound[c], bound[num_bound] = True, c
        num_bound += 1
        c = after[c]
    return num_bound


@numba.njit(cache=True)
def _first_by(since, classes, num):
    """Move the ``num`` classes of smallest ``since`` to the front, ascending."""
    if num > 32:  # sorting all of them is faster then than finding the smallest ``num`` times
        classes[:] = classes[np.argsort(since[classes])]
        return
    for i in range(num):
        for j in range(i + 1, len(classes)):
            if since[classes[j]] < since[classes[i]]:
                classes[i], classes[j] = classes[j], classes[i]
