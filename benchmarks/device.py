"""Measure the limits of a CUDA device: the bandwidth of a copy within its memory, and of a fill.

    python -m benchmarks.device

The reference for the other figures there: no step that returns a new batch is faster than its bytes at this bandwidth.
"""

from __future__ import annotations

from typing import Any

import torch

from . import timing
from .plan import Plan
from .timing import Contender

NUM_BYTES = 1 << 30


def measure(plan: Plan, threads: int = 1, device: str = "cuda") -> dict[str, Any]:
    """Bytes read and written in a second by a copy of one GiB, and bytes written by filling it."""
    source = torch.randint(256, (NUM_BYTES,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    work = {"copy": Contender(target.copy_, lambda: source), "fill": Contender(target.fill_, lambda: 1)}
    times = timing.summaries(timing.in_turns(work, plan.rounds, clock=timing.event_clock))
    return {
        "gb_per_second": bytes_per_second(2 * NUM_BYTES, times["copy"]) / 1e9,
        "fill_gb_per_second": bytes_per_second(NUM_BYTES, times["fill"]) / 1e9,
        "times": times,
    }


def bytes_per_second(num_bytes: int, times: timing.Summary) -> float:
    """The rate at the median."""
    return num_bytes / times["median_ms"] * 1e3


if __name__ == "__main__":
    from .programs import main

    main("bandwidth", __doc__, measure, device="cuda")
