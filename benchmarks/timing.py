"""Medians taken in turns, on an allocator that keeps what is freed, with the machine beside them."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torchvision

import segpaste

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}
"""With glibc's defaults freed memory goes back to the system, and a clone costs twice as much."""


def keep_freed_memory() -> None:
    """Start this program again with `ALLOCATOR` in its environment, if it is not there yet."""
    if any(os.environ.get(key) != value for key, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ALLOCATOR})


def in_turns(functions: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 5) -> dict[str, list[float]]:
    """Milliseconds of each function, called one after the other, again and again."""
    for function in functions.values():
        for _ in range(warm_up):
            function()
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            found[name].append((time.perf_counter() - start) * 1e3)
    return found


def summary(times: list[float]) -> dict[str, float]:
    """Median and the middle half, milliseconds."""
    low, median, high = statistics.quantiles(times, n=4)
    return {"median_ms": median, "low_ms": low, "high_ms": high}


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "segpaste": segpaste.__version__,
        "commit": commit,
        "allocator": " ".join(f"{key}={value}" for key, value in ALLOCATOR.items()),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
