#!/usr/bin/env python3
"""The compile gate: `BatchCopyPaste` is one graph for every modality subset, source and preset, and equals eager.

Cases are every subset with every ``source.kind``, every preset, and eight pairwise combinations of modalities, source,
``inplace``, ClassMix, ``max_hidden_frac``, harmonising, patches and grouping: any two of these options meet in one of
them. The eight are compiled by inductor. All others are traced by ``aot_eager``, for it is the trace that can break.

Two steps for each case. First `torch._dynamo.explain` counts graphs and names breaks, and every break must be in the
allowlist (one line each: a part of its text; the list is empty). Then the module is compiled with ``fullgraph=True``,
run, and compared with eager: bit for bit, floating point to 1e-5. Neither is enough alone: the report can be empty for
code that does not compile, and ``fullgraph=True`` turns an ``.item()`` into a symbol instead of refusing it. Not a
benchmark: the seconds are those of compiling.

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

ALLOWLIST = Path(__file__).with_name("compile_allowlist.txt")
TOLERANCE = 1e-5

NO_COMPILE_WARNING = (
    "!! --no-compile: only the report of torch._dynamo.explain was read. It can be empty for code that does not\n"
    "!! compile, so this alone proves nothing. Run it again without --no-compile."
)


@dataclass(frozen=True)
class Result:
    """What the gate found for one case.

    Attributes:
        name: of the case.
        num_graphs: graphs that explain counted.
        breaks: graph breaks that explain named, one line each.
        compiles: it compiled whole, ran and equalled eager; None where that was not tried.
        failures: why the gate fails; empty if it does not.
        seconds: that all this took.
    """

    name: str
    num_graphs: int
    breaks: tuple[str, ...]
    compiles: bool | None
    failures: tuple[str, ...]
    seconds: float = 0.0


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


def read_allowlist(path: Path) -> tuple[str, ...]:
    """The lines that are neither empty nor comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def check(name: str, case: Case, allowlist: Sequence[str] = (), *, compiles: bool = True) -> Result:
    """Run the gate on one case.

    Args:
        name: to report.
        case: what must compile.
        allowlist: parts of the texts of breaks that are accepted.
        compiles: also compile, run and compare; without it the result proves nothing.
    """
    start = time.perf_counter()
    num_graphs, breaks, failures = _explained(case, allowlist)
    if compiles:
        differences = _differences(case)
        failures += differences
    seconds = time.perf_counter() - start
    return Result(name, num_graphs, breaks, not differences if compiles else None, failures, seconds)


def _explained(case: Case, allowlist: Sequence[str]) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """The number of graphs, the breaks, and what is wrong with them."""
    torch._dynamo.reset()
    try:
        report = case.call(torch._dynamo.explain(case.module))
    except Exception as error:
        return 0, (), (f"explain raised {_first_line(error)}",)
    breaks = tuple(_break_line(reason) for reason in report.break_reasons)
    new = [line for line in breaks if not any(allowed in line for allowed in allowlist)]
    failures = [f"graph break: {line}" for line in new]
    if report.graph_count < case.num_graphs:
        failures.append("explain counted no graph, so it has looked at nothing; is TORCHDYNAMO_DISABLE set?")
    elif report.graph_count > case.num_graphs and not breaks:
        failures.append(f"expected {case.num_graphs} graphs, got {report.graph_count} without a reason")
    return report.graph_count, breaks, tuple(failures)


def _break_line(reason: torch._dynamo.output_graph.GraphCompileReason) -> str:
    where = [f" at {Path(frame.filename).name}:{frame.lineno}" for frame in reason.user_stack[-1:]]
    return "".join([reason.reason.strip().splitlines()[0], *where])


def _differences(case: Case) -> tuple[str, ...]:
    """Why the module compiled whole is not the module, or nothing."""
    expected, report = case.call(case.module, return_report=True)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        actual = case.call(torch.compile(case.module, fullgraph=True, backend=case.backend))
    except Exception as error:
        return (f"fullgraph=True raised {_first_line(error)}",)
    failures = []
    if (num := torch._dynamo.utils.counters["stats"]["unique_graphs"]) != case.num_graphs:
        failures.append(
            f"expected that torch.compile makes {case.num_graphs} graph, got {num}; is TORCHDYNAMO_DISABLE set?"
        )
    if Modality.INSTANCE in case.batch.modalities and not report.num_placed.any():
        failures.append("eager pasted nothing, so equality says nothing; give a batch with room and free slots")
    return (*failures, *_unequal_fields(actual, expected))


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
    equals = {True: "yes", False: "NO", None: "not tried"}[result.compiles]
    state = "FAIL" if result.failures else "ok"
    return (
        f"{result.name:<48} {result.num_graphs:>6} {len(result.breaks):>6}  {equals:<14} "
        f"{result.seconds:>7.1f}  {state}"
    )


def run(
    names: Iterable[str], allowlist: Sequence[str], compiles: bool, write: Callable[[str], object] = print
) -> list[Result]:
    """Check these cases, and write a table as they are done."""
    write(f"{'case':<48} {'graphs':>6} {'breaks':>6}  {'equals eager':<14} {'seconds':>7}")
    results, makers = [], case_names()
    for name in names:
        results.append(check(name, makers[name](), allowlist, compiles=compiles))
        write(row(results[-1]))
        for failure in results[-1].failures:
            write(f"    {failure}")
    return results


def unused_entries(results: Iterable[Result], allowlist: Iterable[str]) -> list[str]:
    """Entries of the allowlist that no break matches: an exception that is not needed must go."""
    breaks = [line for result in results for line in result.breaks]
    return [entry for entry in allowlist if not any(entry in line for line in breaks)]


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
    parser.add_argument("--no-compile", action="store_true", help="only read explain's report, which proves nothing")
    parser.add_argument("--allowlist", type=Path, default=ALLOWLIST, help="accepted graph breaks, one a line")
    options = parser.parse_args(argv)
    try:
        allowlist = read_allowlist(options.allowlist)
    except OSError as error:
        parser.error(f"--allowlist: expected a text file, got {error}")
    if options.no_compile:
        print(NO_COMPILE_WARNING)
    results = run(options.case or case_names(), allowlist, not options.no_compile)
    unused = [] if options.case else unused_entries(results, allowlist)
    for entry in unused:
        print(f"FAIL {options.allowlist.name}: no graph break matches {entry!r}; remove the line")
    num_failed = sum(bool(result.failures) for result in results)
    print(f"{len(results) - num_failed} of {len(results)} passed")
    if options.no_compile:
        print(NO_COMPILE_WARNING)
    return 1 if num_failed or unused else 0


if __name__ == "__main__":
    sys.exit(main())
