"""Measure the peak memory of one step, relative to the bytes of its batch.

    python -m benchmarks.memory --quick

Each step runs in a process of its own, after a small one that loads and compiles what is needed. On the CPU the
memory is what the kernel counts as resident at the peak, less what was before; large blocks go back to the system at
once there, so that no freed memory hides an allocation. On a CUDA device torch's allocator counts.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from segpaste.augmentation import BatchCopyPaste
from segpaste.types import PaddedBatchedDenseSample

from . import batches, pasting
from .plan import Plan
from .timing import ALLOCATOR

_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """Both steps; the message instead, where this system does not tell its memory."""
    batch_size, size, slots = plan.memory
    name = f"{batch_size} × {size}², panoptic, K = {slots}, float32"
    rows = {mode: _in_a_process(mode, plan.memory, threads, device) for mode in ("out of place", "in place")}
    return {"batch": name, "threads": threads, "device": device, "rows": rows}


def peak_of_step(mode: str, sizes: tuple[int, int, int], device: str) -> dict[str, int]:
    """Return the bytes of the batch and of new returned tensors, and the peak beyond the memory before the step."""
    small, config = batches.panoptic_tiles(2, 64, sizes[2])
    paste = BatchCopyPaste(config, inplace=mode == "in place").to(device)
    paste(small.to(device))
    batch = batches.panoptic_tiles(*sizes)[0].to(device)
    gc.collect()
    reset, before, peak = _gauges(device)
    reset()
    start = before()
    out = paste(batch)
    used = peak() - start
    return {
        "batch_bytes": pasting.num_bytes(batch),
        "new_bytes": _new_bytes(out, batch),
        "peak_bytes": max(0, used),
    }


def _new_bytes(out: PaddedBatchedDenseSample, batch: PaddedBatchedDenseSample) -> int:
    """Return the bytes of the tensors of ``out`` that do not share memory with those of ``batch``."""
    old = {t.untyped_storage().data_ptr() for t in tree_leaves(batch)}
    new = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tree_leaves(out)}
    return sum(size for pointer, size in new.items() if pointer not in old)


def _gauges(device: str) -> tuple[Any, Any, Any]:
    """Return functions that reset the peak, and give the bytes in use and at the peak."""
    if device == "cpu":
        return (
            lambda: Path("/proc/self/clear_refs").write_text("5"),
            lambda: status_bytes("VmRSS"),
            lambda: status_bytes("VmHWM"),
        )
    return torch.cuda.reset_peak_memory_stats, torch.cuda.memory_allocated, torch.cuda.max_memory_allocated


def status_bytes(key: str) -> int:
    """A line of this process's status, which the kernel gives in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024


def _in_a_process(mode: str, sizes: tuple[int, int, int], threads: int, device: str) -> dict[str, Any]:
    package = str(__package__)
    root = str(Path(__file__).resolve().parents[package.count(".") + 1])
    environment = {key: value for key, value in os.environ.items() if key not in ALLOCATOR} | _GIVE_BACK
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    words = json.dumps({"mode": mode, "sizes": sizes, "threads": threads, "device": device})
    command = [sys.executable, "-m", f"{package}.memory", "--child", words]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"skipped": " ".join(run.stderr.split()[-30:]) or f"the process ended with {run.returncode}"}
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def _child(words: str) -> None:
    asked = json.loads(words)
    torch.set_num_threads(asked["threads"])
    print(json.dumps(peak_of_step(asked["mode"], tuple(asked["sizes"]), asked["device"])))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2])
    else:
        from .programs import main

        main("memory", __doc__, measure)
