"""Medians of interleaved runs, on an allocator that keeps freed memory; their ratios and growth."""

from __future__ import annotations

import functools
import itertools
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}
"""With glibc's defaults freed memory goes back to the system, and a clone costs twice as much."""

SLEEP_CYCLES = 40_000_000
"""About 20 ms, longer than any step takes to be queued."""

Summary = dict[str, float]
"""``median_ms``, ``low_ms`` and ``high_ms``, the middle half."""

Clock = Callable[[Callable[[], object]], float]
"""Calls a function once; milliseconds."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to time: ``call(fresh())``, of which ``fresh`` is not timed.

    Attributes:
        call: takes what ``fresh`` returned.
        fresh: makes the input; for a function that changes its input, a new one each time.
    """

    call: Callable[[Any], object]
    fresh: Callable[[], Any]


def keep_freed_memory() -> None:
    """Start this program again with `ALLOCATOR` in its environment, if it is not there yet."""
    if any(os.environ.get(key) != value for key, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ALLOCATOR})


def wall_clock(function: Callable[[], object]) -> float:
    """Milliseconds by the clock on the wall."""
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3


def cpu_clock(function: Callable[[], object]) -> float:
    """CPU milliseconds of this process."""
    start = time.process_time()
    function()
    return (time.process_time() - start) * 1e3


def event_clock(function: Callable[[], object]) -> float:
    """Milliseconds between two events of the current CUDA device, the host's share included."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def host_clock(function: Callable[[], object]) -> float:
    """Milliseconds until the call returns, on an idle CUDA device that still works on it then."""
    torch.cuda.synchronize()
    milliseconds = wall_clock(function)
    torch.cuda.synchronize()
    return milliseconds


def queued_clock(function: Callable[[], object]) -> float:
    """Milliseconds that a CUDA device works, without the host's: it sleeps first, until the whole call is queued."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP_CYCLES)
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def in_turns(
    contenders: Mapping[str, Contender], rounds: int, warm_up: int = 5, clock: Clock = wall_clock
) -> dict[str, list[float]]:
    """Milliseconds of each contender, called in turn, again and again.

    The inputs of a round are all made before its first call, so that nobody finds his own in the cache; each round has
    an order of its own, the same in every run, so that nobody always comes after the same one.

    Args:
        contenders: by name.
        rounds: calls of each that count.
        warm_up: calls of each before, which do not.
        clock: how a call is timed.
    """
    for contender in contenders.values():
        for _ in range(warm_up):
            contender.call(contender.fresh())
    found: dict[str, list[float]] = {name: [] for name in contenders}
    order = random.Random(0)
    for _ in range(rounds):
        inputs = {name: contender.fresh() for name, contender in contenders.items()}
        for name in order.sample(list(contenders), len(contenders)):
            found[name].append(clock(functools.partial(contenders[name].call, inputs.pop(name))))
    return found


def rotating(contenders: Sequence[Contender]) -> Contender:
    """Return a function that does the same work on another input each time, so that no cache holds it."""
    turn = itertools.cycle(contenders)

    def fresh() -> tuple[Contender, Any]:
        current = next(turn)
        return current, current.fresh()

    return Contender(lambda pair: pair[0].call(pair[1]), fresh)


def summary(times: Sequence[float]) -> Summary:
    """Median and the middle half, milliseconds; of a single time, that time."""
    if len(times) == 1:
        return {"median_ms": times[0], "low_ms": times[0], "high_ms": times[0]}
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return {"median_ms": median, "low_ms": low, "high_ms": high}


def summaries(times: Mapping[str, Sequence[float]]) -> dict[str, Summary]:
    """Return the `summary` of each."""
    return {name: summary(values) for name, values in times.items()}


def ratio(of: Summary, to: Summary) -> tuple[float, float, float]:
    """Median, low and high of one as multiples of the median of the other."""
    return tuple(of[key] / to["median_ms"] for key in ("median_ms", "low_ms", "high_ms"))  # type: ignore[return-value]


def growth_exponent(points: Iterable[tuple[float, float]]) -> float:
    """The p of y ~ x^p that fits best (least squares of the logarithms): 0 is flat, 1 is linear."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope
