#!/usr/bin/env python3
"""Compile every Triton kernel ahead of time, without a GPU, and check the resources it needs of a multiprocessor.

Every kernel is compiled for so many launches that each pair of values that its arguments can have is in one of them:
constants, dtypes, layouts, fields that are absent, integers that are 1 (`tests/engine/kernel_values.py`). A kernel
beyond a ceiling fails the run: registers of a thread, bytes that are spilled to memory, bytes of shared memory. So does
one that fuses or approximates arithmetic. The Triton that runs compiles; set PYTHONPATH to the folder of another one.

    python scripts/compile_kernels.py
    python scripts/compile_kernels.py --cards 90 --every 4
    python scripts/compile_kernels.py --kernels extend paste
    PYTHONPATH=.venv/triton-3.6 python scripts/compile_kernels.py --out kernels.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "engine")]

from cuda_compiles import CARDS, compiled_for, faults, launches_of  # noqa: E402
from kernel_launches import every_pair  # noqa: E402
from kernel_values import covering  # noqa: E402

MOST_REGISTERS, MOST_SPILLED, MOST_SHARED = 128, 0, 48 * 1024
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Compiled:
    """One kernel for one set of arguments.

    Attributes:
        name: of the kernel.
        card: compute capability, as in 90.
        registers: of a thread.
        spilled: bytes of registers that are stored in memory, and loaded.
        shared: bytes of shared memory of a block.
        warps: of a block.
    """

    name: str
    card: int
    registers: int
    spilled: int
    shared: int
    warps: int

    @property
    def excesses(self) -> list[str]:
        """Return the figures beyond their ceilings."""
        found = [
            (self.registers, MOST_REGISTERS, "registers"),
            (self.spilled, MOST_SPILLED, "bytes spilled"),
            (self.shared, MOST_SHARED, "bytes of shared memory"),
        ]
        return [f"{value} {what}, at most {most}" for value, most, what in found if value > most]


def compile_all(cards: Iterable[int], every: int = 1, kernels: Sequence[str] = ()) -> tuple[list[Compiled], list[str]]:
    """Compile for each card every ``every``-th of the chosen launches, those of some kernels only if they are named.

    Returns:
        What was compiled, and what `cuda_compiles.faults` says.
    """
    launches = covering(launches_of(every_pair()))
    if unknown := set(kernels) - {launch.name for launch in launches}:
        raise ValueError(f"expected names of kernels that are launched, got {', '.join(sorted(unknown))}")
    launches = [launch for launch in launches if not kernels or launch.name in kernels][::every]
    found: dict[tuple[int, str], Compiled] = {}
    wrong = []
    for number, launch in enumerate(launches):
        print(f"launch {number} of {len(launches)}", file=sys.stderr, flush=True)
        for card in cards:
            kernel, log = _compiled(card, launch)
            if (card, kernel.hash) not in found:
                found[card, kernel.hash] = _read(launch.name, card, kernel.metadata, log)
                wrong += [f"{launch.name} for sm_{card}: {fault}" for fault in faults(card, kernel)]
    return list(found.values()), wrong


def _compiled(card: int, launch: Any) -> tuple[Any, str]:
    """Compile a kernel and return it with the log of the assembler."""
    log = io.StringIO()
    with triton.knobs.nvidia.scope(), contextlib.redirect_stdout(log):  # a knob is an environment variable too
        triton.knobs.nvidia.dump_ptxas_log = True
        return compiled_for(card, launch), log.getvalue()


def _read(name: str, card: int, metadata: Any, log: str) -> Compiled:
    """Read the needs of a kernel from the log of the assembler."""
    registers = [int(number) for number in _REGISTERS.findall(log)]
    if not registers:
        raise RuntimeError(f"expected the assembler's log of {name}, got {log!r:.200}; is the kernel in a cache?")
    spilled = sum(int(number) for pair in _SPILLS.findall(log) for number in pair)
    return Compiled(name, card, max(registers), spilled, metadata.shared, metadata.num_warps)


def table(found: Sequence[Compiled]) -> list[str]:
    """Return the largest needs of each kernel on each card as lines of Markdown."""
    lines = ["| kernel | sm | variants | registers | spilled | shared | warps |", "|---|---|---|---|---|---|---|"]
    for name, card in sorted({(kernel.name, kernel.card) for kernel in found}):
        same = [kernel for kernel in found if (kernel.name, kernel.card) == (name, card)]
        most = [max(getattr(kernel, what) for kernel in same) for what in ("registers", "spilled", "shared", "warps")]
        low = min(kernel.registers for kernel in same)
        lines.append(f"| {name} | {card} | {len(same)} | {low}..{' | '.join(map(str, most))} |")
    return lines


def main() -> int:
    """Compile, print the table and what is beyond a ceiling; 1 if anything is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cards", type=int, nargs="+", default=CARDS, metavar="SM", help="default: 80 90 100")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th launch only, default: all")
    parser.add_argument("--kernels", nargs="+", default=(), metavar="NAME", help="these kernels only, default: all")
    parser.add_argument("--out", type=Path, help="a JSON file for all kernels")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:  # a kernel in a cache has no log
        os.environ["TRITON_CACHE_DIR"] = cache
        try:
            found, wrong = compile_all(args.cards, args.every, args.kernels)
        except ValueError as error:
            parser.error(str(error))
    print(f"Triton {triton.__version__}", *table(found), sep="\n")
    wrong += [f"{k.name} for sm_{k.card}: {excess}" for k in found for excess in k.excesses]
    for line in sorted(set(wrong)):
        print(line)
    if args.out is not None:
        args.out.write_text(json.dumps({"triton": triton.__version__, "kernels": [asdict(k) for k in found]}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
