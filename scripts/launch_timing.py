"""Run the same calls with different timing: on several streams, beside busy kernels, in another order of programs.

Every way takes the calls and returns what they returned, when all of it is there. Those of a CUDA device change which
programs run at the same time and which one arrives last; in Triton's interpreter, which runs one program after another,
their order is drawn.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

T = TypeVar("T")
Calls = Sequence[Callable[[], T]]
Way = Callable[[Calls[Any], random.Random], list[Any]]

MOST_CYCLES = 2_000_000
"""Longest pause before a call on a stream: about a millisecond."""

SIDE = 4096
"""Of the square matrices that the busy neighbour multiplies."""

DEVICE = "cuda"
"""Of the busy neighbours."""


def alone(calls: Calls[T], draws: random.Random) -> list[T]:
    """One after another."""
    return [call() for call in calls]


def filled(calls: Calls[T], draws: random.Random) -> list[T]:
    """One after another, with NaN and the largest integers in all memory that is allocated and not written."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # torch.utils.deterministic.fill_uninitialized_memory
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [call() for call in calls]
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def on_streams(calls: Calls[T], draws: random.Random) -> list[T]:
    """Each on a stream of its own, after a pause that is drawn."""
    current, found = torch.cuda.current_stream(), []
    for call in calls:
        stream = torch.cuda.Stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(draws.randrange(1, MOST_CYCLES))
            found.append(call())
    torch.cuda.synchronize()
    return found


def beside_products(calls: Calls[T], draws: random.Random) -> list[T]:
    """One after another, while another stream keeps the multiprocessors busy."""
    matrix = torch.ones(SIDE, SIDE, dtype=torch.bfloat16, device=DEVICE)
    with _neighbour(lambda: matrix @ matrix, num=4 + 2 * len(calls)):
        return [call() for call in calls]


def beside_copies(calls: Calls[T], draws: random.Random) -> list[T]:
    """One after another, while another stream keeps the memory busy and the second cache full."""
    values = torch.ones(SIDE * SIDE * 4, device=DEVICE)
    with _neighbour(values.clone, num=8 + 4 * len(calls)):
        return [call() for call in calls]


@contextmanager
def _neighbour(work: Callable[[], object], num: int) -> Iterator[None]:
    """Queue work on another stream first, and wait for everything at the end."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(num):
            work()
    yield
    torch.cuda.synchronize()


def shuffled(calls: Calls[T], draws: random.Random) -> list[T]:
    """One after another, in the interpreter, with the programs of each launch in an order that is drawn."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    set_dim, set_idx, order = builder.set_grid_dim, builder.set_grid_idx, list[int]()

    def dimensions(self: Any, x: int, y: int, z: int) -> None:
        order[:] = draws.sample(range(x), x)
        set_dim(self, x, y, z)

    def index(self: Any, x: int, y: int, z: int) -> None:
        set_idx(self, order[x], y, z)

    builder.set_grid_dim, builder.set_grid_idx = dimensions, index
    try:
        return [call() for call in calls]
    finally:
        builder.set_grid_dim, builder.set_grid_idx = set_dim, set_idx


WAYS: Mapping[str, Mapping[str, Way]] = {
    "cpu": {"shuffled": shuffled, "filled": filled},
    "cuda": {
        "alone": alone,
        "on streams": on_streams,
        "beside products": beside_products,
        "beside copies": beside_copies,
        "filled": filled,
    },
}
"""By device and name, in the order in which they take turns."""
