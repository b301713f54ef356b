"""The memory of the tensors that are alive, for tests that a training keeps none of its batches."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

EVERY = 5
LEAST_LEAK = 256 << 10
"""Bytes; five batches of the smallest training, of 2 x 48 x 48 pixels, take more."""


class LiveTensors:
    """Bytes of all tensors that Python holds in this process, counted at every fifth step.

    The peak of the process is no measure: it depends on what ran before, and on the allocator.
    """

    def __init__(self) -> None:
        self.num_bytes: list[int] = []
        self._num_steps = 0

    def after_step(self) -> None:
        """Count a step."""
        self._num_steps += 1
        if self._num_steps % EVERY == 0:
            self.num_bytes.append(live_bytes())


def live_bytes() -> int:
    """Return the bytes of the storages of all tensors that Python holds, without those that only compilers see."""
    gc.collect()
    held = (value for value in gc.get_objects() if issubclass(type(value), Tensor))
    real = (tensor for tensor in held if type(tensor) not in (FakeTensor, FunctionalTensor))
    storages = [tensor.untyped_storage() for tensor in real if tensor.layout == torch.strided]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages if storage.device.type != "meta"}.values())


def expect_flat(num_bytes: Sequence[int]) -> None:
    """Fail if the bytes grow from each count to the next; batches differ, so one count may be above another."""
    assert len(num_bytes) > 2, num_bytes
    growth = [later - earlier for earlier, later in itertools.pairwise(num_bytes)]
    assert min(growth) < LEAST_LEAK, num_bytes
