"""Index of the samples of each class. It needs NumPy only, as `segpaste stats` does."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 20


class SamplesOfClasses:
    """Index of the samples of each class, 4 bytes per sample.

    Args:
        class_ids: the class of every sample, [num_samples].
        num_classes: C.

    Attributes:
        counts: number of samples of each class, [C].
    """

    def __init__(self, class_ids: NDArray[np.int64], num_classes: int) -> None:
        self.counts = np.bincount(class_ids, minlength=num_classes)
        self._starts = np.cumsum(self.counts) - self.counts
        self._order = np.empty(len(class_ids), np.uint32 if len(class_ids) < 1 << 32 else np.int64)
        small = np.min_scalar_type(max(num_classes - 1, 0))  # NumPy sorts short integers by radix
        ends = self._starts.copy()
        for first in range(0, len(class_ids), _CHUNK):  # sorting all at once would take three times the memory
            ids = class_ids[first : first + _CHUNK]
            order = ids.astype(small).argsort(kind="stable")
            counts = np.bincount(ids, minlength=num_classes)
            within = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
            self._order[np.repeat(ends, counts) + within] = order + first
            ends += counts

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._order)

    def of_class(self, class_id: int) -> NDArray[np.int64]:
        """Return the samples of one class, ascending."""
        start = self._starts[class_id]
        return self._order[start : start + self.counts[class_id]].astype(np.int64)

    def pick(self, classes: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the samples at the given places, from 0, within their classes; the arrays broadcast."""
        return np.asarray(self._order[self._starts[classes] + places], np.int64)

    def shuffled(self, keys: NDArray[np.uint32]) -> SamplesOfClasses:
        """Return a copy in which the samples of each class are sorted by random keys, [num_samples]."""
        other = copy(self)  # shares all but the order
        classes = np.repeat(np.arange(len(self.counts), dtype=np.uint64), self.counts)
        order = (classes << np.uint64(32) | keys[self._order]).argsort(kind="stable")
        other._order = self._order[order]
        return other
