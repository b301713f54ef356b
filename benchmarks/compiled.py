"""Compare a compiled step with the eager one.

    python -m benchmarks.compiled

Quick runs leave it out, because compiling takes a minute.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig

from . import batches, timing
from .plan import Plan
from .timing import Contender

EAGER, COMPILED = "eager", "compiled"


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """Both in turn; the reason instead, where nothing can be compiled or the plan leaves it out."""
    if plan.compiled is None:
        return {"skipped": "left out of a quick run"}
    torch.set_num_threads(threads)
    batch_size, size, slots = plan.compiled
    batch = batches.random_boxes(batch_size, size, slots, torch.float32).to(device)
    config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, k_range=(1, slots)))
    paste = BatchCopyPaste(config).to(device)
    compiled = torch.compile(BatchCopyPaste(config).to(device), fullgraph=True)
    start = time.perf_counter()
    try:
        compiled(batch)
    except Exception as error:  # no compiler on this machine, or a torch that cannot
        return {"skipped": f"torch.compile: {type(error).__name__}: {' '.join(str(error).split()):.160}"}
    seconds = time.perf_counter() - start
    contenders = {name: Contender(step, lambda: batch) for name, step in ((EAGER, paste), (COMPILED, compiled))}
    clock = timing.wall_clock if device == "cpu" else timing.event_clock
    times = timing.summaries(timing.in_turns(contenders, plan.rounds, clock=clock))
    return {"batch": f"{batch_size} × {size}², 1..{slots}, float32", "seconds_to_compile": seconds, "times": times}


if __name__ == "__main__":
    from .programs import main

    main("compiled", __doc__, measure)
