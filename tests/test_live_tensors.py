"""The count of live tensors sees what a training keeps, though it visits only what came after it began."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from live_tensors import LEAST_LEAK, LiveTensors, expect_flat

NUM_VALUES = LEAST_LEAK // 4
"""Of a tensor whose bytes are a leak if it is kept at each count."""


def counted(step: Callable[[], object], num_steps: int = 15) -> list[int]:
    alive = LiveTensors()
    for _ in range(num_steps):
        step()
        alive.after_step()
    return alive.num_bytes


def test_kept_tensors_are_seen() -> None:
    """They are in a list that was there before the count began."""
    kept: list[torch.Tensor] = []
    with pytest.raises(AssertionError):
        expect_flat(counted(lambda: kept.append(torch.zeros(NUM_VALUES))))


def test_tensors_that_grow_are_seen() -> None:
    """Tensors that were there before the count began."""
    old = torch.zeros(1)
    with pytest.raises(AssertionError):
        expect_flat(counted(lambda: old.resize_(old.numel() + NUM_VALUES)))


def test_freed_tensors_are_not_counted() -> None:
    old = [torch.zeros(NUM_VALUES)]
    alive = LiveTensors()
    num_bytes = []
    for _ in range(2):
        for _ in range(5):
            alive.after_step()
        num_bytes.append(alive.num_bytes[-1])
        old.clear()
    assert num_bytes[0] - num_bytes[1] == 4 * NUM_VALUES


def test_cycles_are_freed() -> None:
    def step() -> None:
        cycle: list[object] = [torch.zeros(NUM_VALUES)]
        cycle.append(cycle)

    num_bytes = counted(step)
    assert len(set(num_bytes)) == 1
    expect_flat(num_bytes)
