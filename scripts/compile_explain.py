#!/usr/bin/env python3
"""Check that `BatchCopyPaste` compiles to one graph for every modality subset, source and preset, and equals eager.

Cases are every subset with every ``source.kind``, every preset, and eight pairwise combinations of modalities, source,
``inplace``, ClassMix, ``max_hidden_frac``, harmonising, patches and grouping: any two of these options meet in one of
them. The eight are compiled by inductor. All others are traced by ``aot_eager``, for it is the trace that can break.

Each case is compiled, run, and compared with eager: bit for bit, floating point to 1e-5. Then it runs with other seeds.
Dynamo must count one frame, compiled whole, without a break. ``fullgraph=True`` is left out: it can turn an ``.item()``
into a symbol instead of refusing it. `torch._dynamo.explain` names the line of a break; compile_allowlist.txt beside
this file lists those that may be, one in a line, and is empty. Not a benchmark: the seconds are those of compiling.

    python scripts/compile_explain.py
    python scripts/compile_explain.py --case instance+depth --case bank:instance+depth
    python scripts/compile_explain.py --case preset:vit_patch --case pairwise:3
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from compile_cases import Case, case_names
from torch import Tensor

from segpaste.types import FIELDS, Modality, PaddedBatchedDenseSample

TOLERANCE = 1e-5
ALLOWLIST = Path(__file__).with_name("compile_allowlist.txt")


@dataclass(frozen=True)
class Result:
    """Findings of the gate for one case.

    Attributes:
        name: of the case.
        num_graphs: number of graphs that Dynamo made.
        failures: why the gate fails; empty if it does not.
        breaks: graph breaks that the allow-list has.
        seconds: that all this took.
    """

    name: str
    num_graphs: int
    failures: tuple[str, ...]
    seconds: float = 0.0
    breaks: tuple[str, ...] = ()


def allowed_breaks() -> list[str]:
    """Return the lines of the allow-list, each a graph break as the gate prints it."""
    return [line for line in ALLOWLIST.read_text(encoding="utf-8").splitlines() if line.strip()]


def legal_case(text: str) -> str:
    """The name of a case, whose modalities may stand in any order.

    Raises:
        argparse.ArgumentTypeError: there is none.
    """
    names = {_unordered(name): name for name in case_names()}
    if (name := names.get(_unordered(text))) is None:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(names.values())}; got {text}")
    return name


def _unordered(name: str) -> tuple[str, frozenset[str]]:
    kind, _, rest = name.rpartition(":")
    return kind, frozenset(rest.split("+"))


def check(name: str, case: Case) -> Result:
    """Compile one case, run it, and compare it with eager."""
    start = time.perf_counter()
    expected, report = case.call(case.module, return_report=True)
    failures: list[str] = []
    breaks: list[str] = []
    if Modality.INSTANCE in case.batch.modalities and not report.num_placed.any():
        failures.append("eager pasted nothing, so equality says nothing; give a batch with room and free slots")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        compiled = torch.compile(case.module, backend=case.backend)
        actual = case.call(compiled)
        case.of_other_seeds().call(compiled)
    except Exception as error:
        return Result(name, 0, (*failures, f"torch.compile raised {_first_line(error)}"), time.perf_counter() - start)
    counted = torch._dynamo.utils.counters
    num_graphs, frames = counted["stats"]["unique_graphs"], counted["frames"]
    if counted["graph_break"]:
        breaks, allowed = _breaks(case), allowed_breaks()
        failures += [f"graph break: {line}" for line in breaks if line not in allowed]
    elif (num_graphs, frames["ok"], frames["total"]) != (case.num_graphs, 1, 1):
        failures.append(
            f"expected {case.num_graphs} graph of one frame compiled whole, got {num_graphs} of {frames['ok']} among "
            f"{frames['total']} frames; is TORCHDYNAMO_DISABLE set?"
        )
    failures += _unequal_fields(actual, expected)
    return Result(name, num_graphs, tuple(failures), time.perf_counter() - start, tuple(breaks))


def _breaks(case: Case) -> list[str]:
    """Name each graph break and its line."""
    counted = [reason.splitlines()[0] for reason in torch._dynamo.utils.counters["graph_break"]]
    torch._dynamo.reset()
    reasons = case.call(torch._dynamo.explain(case.module)).break_reasons
    return [_break_line(reason) for reason in reasons] or counted


def _break_line(reason: torch._dynamo.output_graph.GraphCompileReason) -> str:
    where = [f" at {Path(frame.filename).name}:{frame.lineno}" for frame in reason.user_stack[-1:]]
    return "".join([reason.reason.strip().splitlines()[0], *where])


def _unequal_fields(actual: PaddedBatchedDenseSample, expected: PaddedBatchedDenseSample) -> list[str]:
    failures = []
    for name in (field.batched_name for field in FIELDS):
        one: Tensor | None = getattr(actual, name)
        other: Tensor | None = getattr(expected, name)
        if one is None or other is None:
            if one is not other:
                failures.append(f"{name} is there in one of compiled and eager only")
            continue
        tolerance = TOLERANCE if one.is_floating_point() and name != "boxes" else 0.0
        try:
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            failures.append(f"{name} differs from eager: {' '.join(str(error).split())}")
    return failures


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def row(result: Result) -> str:
    """One line of the table."""
    state = "FAIL" if result.failures else "ok"
    return f"{result.name:<48} {result.num_graphs:>6} {result.seconds:>7.1f}  {state}"


def run(names: Iterable[str], write: Callable[[str], object] = print) -> list[Result]:
    """Check these cases, and write a table as they are done."""
    write(f"{'case':<48} {'graphs':>6} {'seconds':>7}")
    results, makers = [], case_names()
    for name in names:
        results.append(check(name, makers[name]()))
        write(row(results[-1]))
        for failure in results[-1].failures:
            write(f"    {failure}")
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Run the gate; 0 if it is passed, 1 if not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--case",
        type=legal_case,
        action="append",
        metavar="NAME",
        help="only this one, may be repeated: instance+depth, bank:instance, preset:vit_patch, pairwise:3",
    )
    options = parser.parse_args(argv)
    results = run(options.case or case_names())
    num_failed = sum(bool(result.failures) for result in results)
    print(f"{len(results) - num_failed} of {len(results)} passed")
    stale = set(allowed_breaks()).difference(*(result.breaks for result in results))
    if stale and not options.case:
        print(f"FAIL {ALLOWLIST.name}: no case breaks like this any more, delete: {'; '.join(sorted(stale))}")
    return 1 if num_failed or (stale and not options.case) else 0


if __name__ == "__main__":
    sys.exit(main())
