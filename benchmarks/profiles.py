"""Profile a step on a CUDA device: launches and device time by kernel, from torch's profiler.

    python -m benchmarks.profiles --quick
    python -m benchmarks.profiles --out profiles.json

Not a benchmark: the profiler slows the host down. `benchmarks.device_steps` tells how long a step takes, and
``scripts/compile_kernels.py`` what each kernel needs of a multiprocessor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from segpaste.augmentation import BatchCopyPaste

from . import pasting, step
from .plan import HARD_SHAPES, QUICK, Plan, Shape

CALLS = 5
"""Calls over which the profile is averaged."""


class Work(NamedTuple):
    """One piece of work of the device.

    Attributes:
        name: of the kernel, copy or fill.
        microseconds: that it took.
    """

    name: str
    microseconds: float


def measure(plan: Plan, threads: int = 1, device: str = "cuda") -> dict[str, Any]:
    """Profile a step out of place and in place on each shape."""
    torch.set_num_threads(threads)
    shapes = HARD_SHAPES[:1] if plan is QUICK else HARD_SHAPES
    return {"rows": [profile(shape, in_place, device) for shape in shapes for in_place in (False, True)]}


def profile(shape: Shape, in_place: bool, device: str = "cuda") -> dict[str, Any]:
    """Profile some calls of a step after a warm-up."""
    batch, config = step.made(shape)
    batch = batch.to(device)
    paste = BatchCopyPaste(config, inplace=in_place).to(device)
    for number in range(3):
        paste(pasting.reseeded(batch, number))
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as found:
        for number in range(CALLS):
            paste(pasting.reseeded(batch, number))
        torch.cuda.synchronize()
    work = [
        Work(event.name, event.device_time)
        for event in found.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    mode = pasting.IN_PLACE if in_place else pasting.OUT_OF_PLACE
    return {"batch": step.name_of(shape), "step": mode, **by_kernel(work, CALLS)}


def by_kernel(work: Iterable[Work], calls: int) -> dict[str, Any]:
    """Add up the launches and the time of each kernel in one of so many calls, the longest first."""
    launches: dict[str, int] = defaultdict(int)
    times: dict[str, float] = defaultdict(float)
    for name, microseconds in work:
        launches[name] += 1
        times[name] += microseconds
    kernels = [
        {"kernel": name, "launches": launches[name] / calls, "microseconds": times[name] / calls}
        for name in sorted(times, key=lambda name: -times[name])
    ]
    return {
        "launches": sum(launches.values()) / calls,
        "microseconds": sum(times.values()) / calls,
        "kernels": kernels,
    }


if __name__ == "__main__":
    from .programs import main

    main("profiles", __doc__, measure, device="cuda")
