"""The records of the last images, decoded once for several questions."""

from __future__ import annotations

from collections.abc import Callable

from segpaste.datasets.entries import JsonRow

_NUM_KEPT = 16


class RecentRecords:
    """Records of the last images, for callers that ask for several facts of one."""

    def __init__(self) -> None:
        self._found: dict[int, JsonRow] = {}

    def get(self, index: int, decode: Callable[[int], JsonRow]) -> JsonRow:
        """Return the record of an image, which must not be changed; it is decoded if it is not among the last."""
        if (found := self._found.get(index)) is not None:
            return found
        found = decode(index)
        self._found = {} if len(self._found) >= _NUM_KEPT else self._found  # so that threads need no lock
        self._found[index] = found
        return found
