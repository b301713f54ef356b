"""A dataset whose last samples stay in memory, for a page that draws the same ones again and again."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy

from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.types import DenseSample

_MOST_BYTES = 512 << 20


class CachedSamples(DatasetWrapper):
    """A dataset that keeps the samples that were read last, up to a number of bytes, and at least one."""

    def __init__(self, dataset: AnnotatedDataset, most_bytes: int = _MOST_BYTES) -> None:
        super().__init__(dataset)
        self.most_bytes = most_bytes
        self._samples: OrderedDict[int, tuple[DenseSample, int]] = OrderedDict()

    def __getitem__(self, index: int) -> DenseSample:
        if index not in self._samples:
            sample = self.dataset[index]
            self._samples[index] = sample, _num_bytes(sample)
            while len(self._samples) > 1 and sum(size for _, size in self._samples.values()) > self.most_bytes:
                self._samples.popitem(last=False)
        self._samples.move_to_end(index)
        return deepcopy(self._samples[index][0])  # pastes may work in place


def _num_bytes(sample: DenseSample) -> int:
    values = (getattr(sample, name) for name in DenseSample.__dataclass_fields__)
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
