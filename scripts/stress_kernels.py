#!/usr/bin/env python3
"""Repeat the same forwards on a device with different timing, and check that all bits are equal.

The decisions of a row are taken by whichever program arrives last, and pastes in place read what other programs write.
A race there changes a result now and then, and compute-sanitizer's racecheck sees shared memory only. Each case is
pasted on the CPU by the native backend, once on the device, and then again and again: on several streams, beside busy
kernels, and with memory that holds NaN where nothing was written (`launch_timing`). Every tensor of an output and its
report must equal the first, bit for bit, and the CPU's.

    python scripts/stress_kernels.py --seconds 60 --out stress.json
    python scripts/stress_kernels.py --device cpu --case classes      # in Triton's interpreter, small

Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import device_cases
import torch
from device_cases import LARGE, SMALL, Case, Outcome, Size
from hostile_batches import differences
from launch_timing import WAYS

from segpaste import BatchCopyPaste
from segpaste.engine import use_backend
from segpaste.workspace import write_whole

TOGETHER = 3
"""Calls of each turn, all of which are in flight at once on streams of their own."""


class Stress:
    """One case, out of place or in place.

    Args:
        case: what is pasted.
        size: of its batch.
        device: where.
        inplace: of the module.
    """

    def __init__(self, case: Case, size: Size, device: torch.device, *, inplace: bool) -> None:
        batch, staged = case.made(size, seed=0)
        with use_backend("native"):
            out, report = BatchCopyPaste(case.config)(batch, staged=staged, return_report=True)
        self.expected, self.num_placed = (out, report if case.reports else None), int(report.num_placed.sum())
        self.batch, self.staged = batch.to(device), None if staged is None else staged.to(device)
        self.paste, self.reports = BatchCopyPaste(case.config, inplace=inplace).to(device), case.reports

    def calls(self, num: int) -> list[device_cases.Call]:
        """Return calls of the same forward; in place each has a batch of its own."""
        return [self._call() for _ in range(num)]

    def _call(self) -> device_cases.Call:
        batch = device_cases.copied(self.batch) if self.paste.inplace else self.batch
        return lambda: device_cases.forward(self.paste, batch, self.staged, reports=self.reports)

    def repeat(self, device: str, seconds: float, most: int) -> dict[str, Any]:
        """Repeat in all ways in turn, at least once in each, until the time or the number of turns is up."""
        end, draws, ways = time.monotonic() + seconds, random.Random(0), WAYS[device]
        with device_cases.named_launches() as kernels:
            first = self._call()()
        wrong = [
            f"first: {name} differs from native" for name in differences(self.expected, device_cases.on_cpu(first))
        ]
        turns = dict.fromkeys(ways, 0)
        for number in range(most * len(ways)):
            name, way = list(ways.items())[number % len(ways)]
            if number >= len(ways) and time.monotonic() > end:
                break
            for found in way(self.calls(TOGETHER if device == "cuda" else 1), draws):
                wrong += [f"turn {number}, {name}: {field} differs from the first" for field in unequal(found, first)]
            turns[name] += 1
        return {"kernels": sorted(kernels), "pastes": self.num_placed, "turns": turns, "wrong": wrong}


def unequal(one: Outcome, other: Outcome) -> list[str]:
    """Return the names of the tensors that differ in any bit."""
    values, others = device_cases.tensors_of(one), device_cases.tensors_of(other)
    missing = sorted(values.keys() ^ others.keys())
    return missing + [
        name for name in sorted(values.keys() & others.keys()) if not _same_bits(values[name], others[name])
    ]


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(*(tensor.contiguous().view(torch.uint8) for tensor in (one, other)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if nothing differs."""
    options = options_of(argv)
    size = LARGE if options.device == "cuda" else SMALL
    chosen = {name: case for name, case in device_cases.cases(size).items() if options.case in (None, name)}
    torch.set_num_threads(1)
    rows, start = [], time.monotonic()
    with device_cases.device_or_interpreter(options.device) as device:
        for name, case in chosen.items():
            for inplace in case.ways:
                left = options.seconds - (time.monotonic() - start)
                share = left / (sum(len(case.ways) for case in chosen.values()) - len(rows))
                stress = Stress(case, size, device, inplace=inplace)
                row = {"case": name, "inplace": inplace, **stress.repeat(options.device, share, options.turns)}
                rows.append(row)
                print(_line(row), *row["wrong"][:10], sep="\n    ", flush=True)
    num_wrong, seconds = sum(bool(row["wrong"]) for row in rows), time.monotonic() - start
    print(f"{len(rows)} forwards, {_num_calls(rows, options.device)} repetitions, {num_wrong} differ, {seconds:.0f} s")
    if options.out is not None:
        found = {"device": _name(options.device), "torch": torch.__version__, "rows": rows}
        write_whole(options.out, (json.dumps(found, indent=1) + "\n").encode())
    return 1 if num_wrong else 0


def _line(row: dict[str, Any]) -> str:
    turns = ", ".join(f"{num} {way}" for way, num in row["turns"].items())
    return f"{row['case']}{', in place' if row['inplace'] else ''}: {row['pastes']} pastes; turns: {turns}"


def _num_calls(rows: list[dict[str, Any]], device: str) -> int:
    return sum(sum(row["turns"].values()) for row in rows) * (TOGETHER if device == "cuda" else 1)


def _name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "Triton's interpreter"


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--case", choices=device_cases.cases(SMALL), help="only this one")
    parser.add_argument("--seconds", type=float, default=60, help="in all, but each way has a turn; default: 60")
    parser.add_argument("--turns", type=int, default=200, help="of each way at most, default: 200")
    return device_cases.parsed(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
