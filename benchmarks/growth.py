"""Measure how the time of a step grows with batch, image size, slots, pasted area and threads, one at a time.

    python -m benchmarks.growth --quick

All points of an axis are called in turn. Squares are pasted in their own size, so that what is pasted is known; but for
its own axis, each thing stays the same: more slots are empty ones, larger pictures have squares of the same size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from segpaste.augmentation import BatchCopyPasteConfig, PlacementConfig

from . import batches, pasting, timing
from .pasting import AGAIN, CLONE, IN_PLACE, OUT_OF_PLACE
from .plan import Growth, Plan

ROUNDS = 15
_SEPARATOR = " @ "


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that grows.

    Attributes:
        name: what it is.
        values: of it.
        sizes: for each value the arguments of `batches.equal_squares`.
        by_pixels: its values are replaced by the number of pixels that are really pasted.
    """

    name: str
    values: tuple[int, ...]
    sizes: tuple[dict[str, int], ...]
    by_pixels: bool = False


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """Every axis; that of the threads on a CPU only."""
    torch.set_num_threads(threads)
    rounds = min(ROUNDS, plan.rounds)
    found = [measure_axis(axis, rounds, device) for axis in axes(plan.growth)]
    if device == "cpu":
        found += [measure_threads(plan.growth, side, rounds) for side in plan.growth.thread_sides]
        torch.set_num_threads(threads)
    return {"threads": threads, "device": device, "axes": found}


def axes(growth: Growth) -> list[Axis]:
    """The axes but for the threads."""
    base = {
        "batch_size": growth.batch_size,
        "size": growth.size,
        "max_instances": growth.max_instances,
        "num_instances": growth.instances,
        "side": growth.side,
    }
    return [
        Axis("images, B", growth.batch_sizes, _each(base, "batch_size", growth.batch_sizes)),
        Axis("pixels of an image, H·W", tuple(v * v for v in growth.sizes), _each(base, "size", growth.sizes)),
        Axis("slots, K", growth.slots, _each(base, "max_instances", growth.slots)),
        Axis("pasted pixels", growth.sides, _each(base, "side", growth.sides), by_pixels=True),
    ]


def measure_axis(axis: Axis, rounds: int, device: str = "cpu") -> dict[str, Any]:
    """All points of an axis in turn."""
    contenders: dict[str, timing.Contender] = {}
    xs: list[float] = []
    for value, sizes in zip(axis.values, axis.sizes, strict=True):
        batch, config = batches.equal_squares(**sizes).to(device), _config(sizes["num_instances"])
        xs.append(pasting.pasted_pixels(batch, config) if axis.by_pixels else value)
        for name, contender in pasting.contenders(batch, config).items():
            contenders[f"{name}{_SEPARATOR}{len(xs)}"] = contender
    cpu_clock = (
        timing.cpu_clock if torch.get_num_threads() == 1 else timing.wall_clock
    )  # other programs cost no CPU time
    clock = cpu_clock if device == "cpu" else timing.event_clock
    times = timing.summaries(timing.in_turns(contenders, rounds, clock=clock))
    points = [{"x": x, "times": _of_point(times, number)} for number, x in enumerate(xs, start=1)]
    return {"axis": axis.name, "points": points, "exponents": exponents(points)}


def measure_threads(growth: Growth, side: int, rounds: int) -> dict[str, Any]:
    """The same step on each number of threads, one number after the other: torch's pool is not changed in turns."""
    batch = batches.equal_squares(growth.batch_size, growth.size, growth.max_instances, growth.instances, side)
    pixels = pasting.pasted_pixels(batch, _config(growth.instances))
    points = []
    for threads in growth.threads:
        if threads <= (os.cpu_count() or 1):
            torch.set_num_threads(threads)
            times = timing.in_turns(pasting.contenders(batch, _config(growth.instances)), rounds)
            points.append({"x": threads, "times": timing.summaries(times)})
    return {"axis": f"threads, {pixels:,.0f} pasted pixels", "points": points, "exponents": exponents(points)}


def exponents(points: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the p of time ~ x^p for each function; nothing where fewer than two values differ."""
    if len({point["x"] for point in points}) < 2:
        return {}
    names = [name for name in (CLONE, AGAIN, OUT_OF_PLACE, IN_PLACE) if name in points[0]["times"]]
    return {
        name: timing.growth_exponent([(point["x"], point["times"][name]["median_ms"]) for point in points])
        for name in names
    }


def _each(base: dict[str, int], key: str, values: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    return tuple({**base, key: value} for value in values)


def _config(num_instances: int) -> BatchCopyPasteConfig:
    placement = PlacementConfig(paste_prob=1.0, scale_range=(1.0, 1.0), k_range=(num_instances, num_instances))
    return BatchCopyPasteConfig(placement=placement)


def _of_point(times: Mapping[str, timing.Summary], number: int) -> dict[str, timing.Summary]:
    ending = f"{_SEPARATOR}{number}"
    return {name.removesuffix(ending): value for name, value in times.items() if name.endswith(ending)}


if __name__ == "__main__":
    from .programs import main

    main("growth", __doc__, measure)
