#!/usr/bin/env python3
"""Capture whole forwards as CUDA graphs, replay them with other values, and compare with the CPU.

Each case is captured twice: the eager forward by a plain ``torch.cuda.CUDAGraph``, whose input is then overwritten with
other batches, and the compiled one by ``torch.compile(mode="reduce-overhead")``, which must make one graph, skip no
capture and never recompile. Every output and report must equal that of the native backend on the CPU for the same
values, bit for bit. Modules in place are captured, too, but not compiled: inductor makes no CUDA graph of code that
writes to its inputs.

    python scripts/check_graphs.py --out graphs.json
    python scripts/check_graphs.py --device cpu --case classes    # small, compiled for the CPU, nothing is captured

Exits with 1 if anything differs, or could not be captured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import device_cases
import torch
from device_cases import LARGE, SMALL, Case, Outcome, Size
from hostile_batches import differences
from torch import Tensor
from torch.utils._pytree import tree_leaves

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.engine import use_backend
from segpaste.types import StagedCrops
from segpaste.workspace import write_whole

Given = tuple[PaddedBatchedDenseSample, StagedCrops | None]

IN_PLACE = "captured, in place"
NUM_BATCHES = 4
"""Batches of each case, all of one shape."""


def captured(call: Callable[[], Outcome], refill: Callable[[], None], device: torch.device) -> Callable[[], Outcome]:
    """Return the replay of a call, captured as a graph after a warm-up on a stream of its own.

    Args:
        call: works on the same memory each time.
        refill: restores its input, which a call in place changes.
        device: on the CPU, which has no graphs, the replay is the call.

    Raises:
        RuntimeError: the call does what cannot be captured.
    """
    if device.type == "cpu":
        return call
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            refill()
            call()
        refill()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outcome = call()

    def replay() -> Outcome:
        graph.replay()
        return outcome

    return replay


@dataclass(frozen=True)
class Expected:
    """Batches of one shape, and what the native backend makes of them on the CPU."""

    config: BatchCopyPasteConfig
    reports: bool
    given: list[Given]
    outcomes: list[Outcome]

    @classmethod
    def of(cls, case: Case, size: Size) -> Self:
        """Make the batches, and paste them."""
        given = [case.made(size, seed) for seed in range(NUM_BATCHES)]
        with use_backend("native"):
            paste = BatchCopyPaste(case.config)
            outcomes = [device_cases.forward(paste, *one, reports=case.reports) for one in given]
        return cls(case.config, case.reports, given, outcomes)

    def wrong(self, number: int, found: Outcome) -> list[str]:
        """Return what differs in the outcome of one batch."""
        names = differences(self.outcomes[number], device_cases.on_cpu(found))
        return [f"batch {number}: {name} differs from native" for name in names]


def check_capture(expected: Expected, device: torch.device, *, inplace: bool) -> list[str]:
    """Replay a captured eager forward on other values; return what is wrong."""
    own = _moved(expected.given[0], device)
    paste = BatchCopyPaste(expected.config, inplace=inplace).to(device)

    def forward() -> Outcome:
        return device_cases.forward(paste, *own, reports=expected.reports)

    def refill(number: int = 0) -> None:
        for to, of in zip(_tensors(own), _tensors(expected.given[number]), strict=True):
            to.copy_(of)

    replay, wrong = captured(forward, refill, device), []
    for number in (*range(NUM_BATCHES), 0):
        refill(number)
        wrong += expected.wrong(number, replay())
    return wrong


def check_compiled(expected: Expected, device: torch.device) -> list[str]:
    """Call a compiled forward on other values, which must replay a graph; return what is wrong."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    paste = BatchCopyPaste(expected.config).to(device)

    def forward(*given: Any) -> Outcome:
        return device_cases.forward(paste, *given, reports=expected.reports)

    compiled = torch.compile(forward, fullgraph=True, mode="reduce-overhead")
    wrong = []
    with torch._dynamo.config.patch(error_on_recompile=True):
        for number in (*range(NUM_BATCHES), 0):
            torch.compiler.cudagraph_mark_step_begin()
            wrong += expected.wrong(number, compiled(*_moved(expected.given[number], device)))
    counters = torch._dynamo.utils.counters
    if (num := counters["stats"]["unique_graphs"]) != 1:
        wrong.append(f"expected one graph, got {num}")
    return wrong if device.type == "cpu" else [*wrong, *_graphless(counters["inductor"])]


def _graphless(counted: Mapping[str, int]) -> Iterator[str]:
    """Yield what inductor's counters say against CUDA graphs."""
    if skipped := counted["cudagraph_skips"]:
        yield f"expected CUDA graphs, {skipped} were skipped"
    if not counted["cudagraph_recorded_non_static_inputs"]:
        yield "expected CUDA graphs, none was recorded"


def _moved(given: Given, device: torch.device) -> Given:
    """Return the values on the device, in memory of their own."""
    batch, staged = given
    return device_cases.copied(batch).to(device), None if staged is None else device_cases.copied(staged).to(device)


def _tensors(given: Given) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(list(given)) if isinstance(leaf, Tensor)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if nothing differs."""
    options = options_of(argv)
    size = LARGE if options.device == "cuda" else SMALL
    torch.set_num_threads(1)
    rows, start = [], time.monotonic()
    with device_cases.device_or_interpreter(options.device) as device:
        checks: dict[str, Callable[[Expected], list[str]]] = {
            "captured": lambda expected: check_capture(expected, device, inplace=False),
            IN_PLACE: lambda expected: check_capture(expected, device, inplace=True),
            "compiled": lambda expected: check_compiled(expected, device),
        }
        for name in options.case:
            case = device_cases.cases(size)[name]
            expected = Expected.of(case, size)
            for check, function in checks.items():
                if check == IN_PLACE and True not in case.ways:
                    continue
                rows.append({"case": name, "check": check, **_tried(function, expected)})
                print(f"{name}, {check}: {'differs' if rows[-1]['wrong'] else 'fine'}", *rows[-1]["wrong"], flush=True)
    num_wrong, seconds = sum(bool(row["wrong"]) for row in rows), time.monotonic() - start
    print(f"{len(rows)} graphs of {NUM_BATCHES + 1} replays, {num_wrong} with differences, {seconds:.0f} s")
    if options.out is not None:
        found = {"device": options.device, "torch": torch.__version__, "rows": rows}
        write_whole(options.out, (json.dumps(found, indent=1) + "\n").encode())
    return 1 if num_wrong else 0


def _tried(check: Callable[[Expected], list[str]], expected: Expected) -> dict[str, Any]:
    """Run one check; whatever it raises is wrong, and the others go on."""
    start = time.monotonic()
    try:
        wrong = check(expected)
    except Exception as error:
        wrong = [f"{type(error).__name__}: {' '.join(str(error).split()):.300}"]
    return {"wrong": wrong, "seconds": round(time.monotonic() - start, 1)}


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    names = list(device_cases.cases(SMALL))
    parser.add_argument("--case", choices=names, nargs="+", default=names, help="only these")
    return device_cases.parsed(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
