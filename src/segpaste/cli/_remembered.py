"""A dataset whose last photos stay in memory, for a page that draws the same ones again and again."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from typing import Any

from torch import Tensor

from segpaste.bank import Photos
from segpaste.types import DenseSample

_MOST_BYTES = 512 << 20


class RememberedPhotos:
    """A dataset that keeps the samples that were read last, up to a number of bytes, and at least one."""

    def __init__(self, photos: Photos, most_bytes: int = _MOST_BYTES) -> None:
        self.photos, self.most_bytes = photos, most_bytes
        self._samples: OrderedDict[int, tuple[DenseSample, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.photos)

    def __getattr__(self, name: str) -> Any:
        if name == "photos":  # before it is set, when a pickle is read
            raise AttributeError(name)
        return getattr(self.photos, name)

    def __getitem__(self, index: int) -> DenseSample:
        if index not in self._samples:
            sample = self.photos[index]
            self._samples[index] = sample, _num_bytes(sample)
            while len(self._samples) > 1 and sum(size for _, size in self._samples.values()) > self.most_bytes:
                self._samples.popitem(last=False)
        self._samples.move_to_end(index)
        return deepcopy(self._samples[index][0])  # pastes may work in place


def _num_bytes(sample: DenseSample) -> int:
    values = (getattr(sample, name) for name in DenseSample.__dataclass_fields__)
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
