"""Run all benchmarks one after the other, for `segpaste bench`."""

from __future__ import annotations

import dataclasses
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import compiled, detector, device, device_steps, growth, loading, memory, peers, plots, report, step
from .everyday import measuring as everyday
from .machine import machine
from .plan import DEVICE_SHAPES, FULL, QUICK, TINY, Plan

PLANS = {"full": FULL, "quick": QUICK, "tiny": TINY}

Measure = Callable[..., dict[str, Any]]


def plan_for(size: str, device_name: str) -> Plan:
    """A plan by its name; on a CUDA device with the shapes that are meant for one."""
    plan = PLANS[size]
    if device_name == "cpu" or plan is TINY:
        return plan
    return dataclasses.replace(plan, shapes=DEVICE_SHAPES if plan is FULL else DEVICE_SHAPES[:1])


def parts(plan: Plan, device_name: str) -> dict[str, Measure]:
    """The sections of a run, in the order in which they are measured."""
    steps: dict[str, Measure] = {"step": step.measure, "growth": growth.measure, "memory": memory.measure}
    if device_name == "cpu":
        first: dict[str, Measure] = {"everyday": everyday.measure}
        return first | steps | {"loading": loading.measure, "compiled": compiled.measure}
    card = {"bandwidth": device.measure, "device_steps": device_steps.measure, "detector": detector.measure}
    return card | steps | {"compiled": compiled.measure}


def run(plan: Plan, threads: int, device_name: str, announce: Callable[[str], object] = str) -> dict[str, Any]:
    """Measure every section.

    Args:
        plan: the sizes.
        threads: of torch, and of the peers' libraries.
        device_name: ``cpu`` or ``cuda``.
        announce: called with the name of each section before it is measured.

    Returns:
        The figures, all of it JSON: ``settings``, ``machine``, ``seconds`` of each section, a key for each section.
    """
    torch.manual_seed(0)
    settings = {"threads": threads, "device": device_name, "rounds": plan.rounds}
    results: dict[str, Any] = {"settings": settings, "machine": machine(sorted(peers.packages())), "seconds": {}}
    for name, measure in parts(plan, device_name).items():
        announce(name)
        start = time.perf_counter()
        with warnings.catch_warnings():  # a draw that pastes nothing is a draw
            warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
            results[name] = measure(plan, threads, device_name)
        results["seconds"][name] = time.perf_counter() - start
    return results


def write(folder: Path, results: dict[str, Any]) -> None:
    """``report.md``, ``results.json`` and the plots, into a folder that nobody looks at yet."""
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(report.markdown(results), encoding="utf-8")
    for name, picture in plots.pictures(results).items():
        picture.save(folder / f"{name}.png")
