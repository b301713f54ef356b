"""The memory of the tensors that are alive, for tests that a training keeps none of its batches."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

EVERY = 5
LEAST_LEAK = 256 << 10
"""Bytes; five batches of the smallest training, of 2 x 48 x 48 pixels, take more."""

_frozen_tensors: list[weakref.ref[Tensor]] = []


class LiveTensors:
    """Bytes of all tensors that Python holds in this process, counted at every fifth step.

    The peak of the process is no measure: it depends on what ran before, and on the allocator.
    """

    def __init__(self) -> None:
        freeze()
        self.num_bytes: list[int] = []
        self._num_steps = 0

    def after_step(self) -> None:
        """Count a step."""
        self._num_steps += 1
        if self._num_steps % EVERY == 0:
            self.num_bytes.append(live_bytes())


def freeze() -> None:
    """Take the objects that exist now out of what later counts visit, and remember the tensors among them.

    A trainer's modules are a million objects, and visiting them takes longer than a step of a small model.
    """
    gc.collect()
    _frozen_tensors[:] = map(weakref.ref, _held_tensors())
    gc.freeze()


def live_bytes() -> int:
    """Return the bytes of the storages of all tensors that Python holds, without those that only compilers see."""
    gc.collect()
    real = (tensor for tensor in _held_tensors() if type(tensor) not in (FakeTensor, FunctionalTensor))
    storages = [tensor.untyped_storage() for tensor in real if tensor.layout == torch.strided]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages if storage.device.type != "meta"}.values())


def _held_tensors() -> Iterator[Tensor]:
    yield from (value for value in gc.get_objects() if issubclass(type(value), Tensor))
    yield from (tensor for ref in _frozen_tensors if (tensor := ref()) is not None)


def expect_flat(num_bytes: Sequence[int]) -> None:
    """Fail if the bytes grow from each count to the next; batches differ, so one count may be above another."""
    assert len(num_bytes) > 2, num_bytes
    growth = [later - earlier for earlier, later in itertools.pairwise(num_bytes)]
    assert min(growth) < LEAST_LEAK, num_bytes
