"""Where a step on the CPU spends its time: each phase of the loops again and again, and what is beside them.

    python -m benchmarks.phases

The loops are measured warm, on arrays that the caches hold as far as they can; in a step everything is cold once. What
is beside the loops is the step, on a batch that other work has pushed out of the caches, less the loops in it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any
from unittest import mock

import numba
import numpy as np
import torch

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.kernels import _cpu_step
from segpaste.kernels._cpu_arrays import Seen
from segpaste.kernels._cpu_layout import lay_out
from segpaste.kernels._cpu_measure import measure
from segpaste.kernels._cpu_paint import read_row
from segpaste.kernels._cpu_step import _reach
from segpaste.kernels._cpu_visibility import cut_out, resolve
from segpaste.kernels._cpu_write import copy_row, write_losses, write_paste
from segpaste.types import PaddedBatchedDenseSample

from . import batches, pasting, timing

PHASES = ("copy", "lay out", "cut out", "resolve", "measure", "read", "write")
REPEATS = 20


@numba.njit(nogil=True)
def _again(
    which, times, first, end, out, target, source, given, plan, measures, slots, found, rules, _, __, ___, stage, lines
):
    """The phases of `segpaste.kernels._cpu_step.paste_rows`, one of them ``times`` over."""
    height, width = target.images.shape[2], target.images.shape[3]
    layer = np.empty((height, width), found.layer.dtype)
    owner = np.empty((height, width) if rules.with_owner else (0, 0), found.layer.dtype)
    cut, starts = np.empty(0, np.uint8), np.empty(plan.carried.shape[1:], np.int64)
    protected = np.zeros(slots.ignored_class.shape[1], np.bool_)
    for b in range(first, end):
        for _ in range(times if which == 0 else 1):
            copy_row(b, out, target)
        for _ in range(times if which == 1 else 1):
            lay_out(b, plan, given, height, width)
        for _ in range(times if which == 2 else 1):
            cut = cut_out(b, plan, source, cut, starts)
        depth, ok, reach = np.empty(len(cut), np.float32), np.empty(len(cut), np.uint8), _reach(b, plan)
        seen = Seen(layer, owner, cut, starts, depth, ok)
        for _ in range(times if which == 3 else 1):
            resolve(b, seen, plan, target, source, reach, protected, given.ranks, rules.ignore_index)
        for _ in range(times if which == 4 else 1):
            measure(b, seen, rules.exclusive, plan, target, reach, measures)
        for _ in range(times if which == 5 else 1):
            stage.used[:] = 0
            stage = read_row(b, stage, seen, plan, target, source, slots, rules.exclusive, lines)
        for _ in range(times if which == 6 else 1):
            write_losses(b, out, target, plan, slots, rules.ignore_index, False)
            for n in range(stage.used[0]):
                write_paste(n, stage, out, plan, slots)


def phases(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> dict[str, float]:
    """Milliseconds of each phase of the loops, of a step out of place, of its loops, and of a clone."""
    calls: list[Any] = []
    seconds: list[float] = []
    paste_rows = _cpu_step.paste_rows

    def watched(*arguments: Any) -> Any:
        calls[:] = [arguments]  # no more: what is kept cannot be used again, and fresh memory is slow
        start = time.perf_counter()
        stage = paste_rows(*arguments)
        seconds.append(time.perf_counter() - start)
        return stage

    paste, other = BatchCopyPaste(config), batch.clone()
    with mock.patch.object(_cpu_step, "paste_rows", watched):
        steps = timing.in_turns(
            {
                pasting.CLONE: timing.Contender(PaddedBatchedDenseSample.clone, lambda: batch),
                pasting.OUT_OF_PLACE: timing.Contender(paste, lambda: pasting.restored(other, batch)),
            },
            30,
        )
    found = {name: statistics.median(values) for name, values in steps.items()}
    found["loops"] = statistics.median(seconds) * 1e3
    once = _least(-1, 1, calls[-1])
    for number, name in enumerate(PHASES):
        found[name] = (_least(number, REPEATS, calls[-1]) - once) / (REPEATS - 1)
    return found


def _least(which: int, times: int, arguments: Any) -> float:
    """Milliseconds of the fastest of some calls."""
    found = []
    for _ in range(7):
        arguments[-2].used.fill(0)
        start = time.perf_counter()
        _again(which, times, *arguments)
        found.append(time.perf_counter() - start)
    return min(found[1:]) * 1e3


def table(columns: dict[str, dict[str, float]]) -> str:
    """Milliseconds in Markdown."""
    rows = ["clone", "segpaste", "loops", *PHASES]
    lines = [f"| ms | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [f"| {row} | {' | '.join(f'{column[row]:.2f}' for column in columns.values())} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    """Rectangles in both dtypes, and scenes with all five modalities."""
    argparse.ArgumentParser(prog="python -m benchmarks.phases", description=__doc__.splitlines()[0]).parse_args()
    timing.keep_freed_memory()
    torch.set_num_threads(1)
    rectangles = {
        f"8 × 512², 1..5, {pasting.dtype_name(dtype)}": (batches.random_boxes(8, 512, 5, dtype), BatchCopyPasteConfig())
        for dtype in (torch.float32, torch.uint8)
    }
    made = {**rectangles, "8 × 512², five modalities": batches.scenes(8, 512, 24)}
    print(table({name: phases(*given) for name, given in made.items()}))


if __name__ == "__main__":
    main()
