"""Report of a run as Markdown: pure functions of the figures, and `publish`, which prints and writes them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from segpaste.workspace import write_whole

from . import timing
from .compiled import COMPILED, EAGER
from .detector import STEP
from .everyday.rows import AGAIN as OWN_AGAIN
from .everyday.rows import BASE, OWN, ROWS, Row
from .everyday.turns import Measured
from .loading import THEIRS
from .pasting import AGAIN, CLONE, IN_PLACE, OUT_OF_PLACE
from .peers import PEERS
from .step import REFERENCE

Found = Mapping[str, Any]

OURS_DOES_NOT = {CLONE: "the baseline", AGAIN: "the baseline measured again: the noise"}
_HEAD = """\
Ratios are medians over the median of a clone of the same batch, with the middle half of the calls; all of a column was
called in turn in one run. What `clone again` is off 1 by is noise. Less than 1 is less than copying the batch."""


def markdown(results: Found) -> str:
    """The whole report."""
    parts = [f"# segpaste bench\n\n{_HEAD}", setting(results)]
    parts += [SECTIONS[name](results[name]) for name in SECTIONS if name in results]
    return "\n\n".join(parts) + "\n"


def setting(results: Found) -> str:
    """Machine, versions and the like in one paragraph."""
    threads, device = results["settings"]["threads"], results["settings"]["device"]
    names = [f"{name} {value}" for name, value in results["machine"].items() if value != ""]
    return f"{_count(threads, 'thread')}, device {device}; " + ", ".join(names) + "."


def publish(title: str, tables: str, results: Found, out: Path | None) -> None:
    """Print tables and their setting; with ``out``, a path without suffix, write them and the figures."""
    text = f"{tables}\n\n{setting(results)}\n"
    print(text)
    if out is not None:
        write_whole(out.with_suffix(".json"), (json.dumps(results, indent=2) + "\n").encode())
        write_whole(out.with_suffix(".md"), f"# {title}\n\n{text}".encode())


def everyday(found: Found) -> str:
    """A row for each thing that a user does."""
    head = ["what a user does", "unit", OWN, "again, the noise", BASE, "instead", "goal", "reached"]
    body = [_everyday_line(row, found["figures"][row.case]) for row in ROWS if row.case in found["figures"]]
    reasons = [f"- {name}: {why}" for said in found["skipped"].values() for name, why in said.items()]
    left_out = "\n\nNot measured:\n\n" + "\n".join(dict.fromkeys(reasons)) if reasons else ""
    return f"## What a user does, and what it costs\n\n{table(head, body)}{left_out}"


def _everyday_line(row: Row, figures: Measured) -> list[str]:
    own = {name: units[row.unit] for name, units in figures.items() if row.unit in units}
    medians = {name: statistics.median(values) for name, values in own.items()}
    if OWN not in medians:
        return [row.what, row.unit, *["–"] * 4, row.goal_text, "not measured"]
    others = [f"{name} {_range(own[name])}" for name in row.peers if name in own]
    reached = {True: "yes", False: "**no**", None: "not measured"}[row.reached(medians)]
    noise = f"{medians[OWN_AGAIN] / medians[OWN]:.2f} ×" if OWN_AGAIN in medians else "–"
    base = f"{_range(own[BASE])}, {medians[OWN] / medians[BASE]:.2f} of it" if BASE in medians else "–"
    return [row.what, row.unit, _range(own[OWN]), noise, base, ", ".join(others) or "–", row.goal_text, reached]


def _range(values: Sequence[float]) -> str:
    """Return the median, and the lowest and the highest."""
    median, low, high = statistics.median(values), min(values), max(values)
    digits = 0 if median >= 100 else 2 if median >= 0.2 else 3
    return f"{median:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def step(found: Found) -> str:
    """A column for each batch, a row for each function."""
    rows = found["rows"]
    names = [CLONE, AGAIN, OUT_OF_PLACE, IN_PLACE, REFERENCE, *(peer.name for peer in PEERS)]
    notes = OURS_DOES_NOT | {peer.name: peer.does_not for peer in PEERS}
    body = []
    for name in names:
        if any(name in row["times"] for row in rows):
            body.append([name, *(_ratio_or_ms(name, row["times"]) for row in rows), notes.get(name, "")])
    pasted = ["pixels pasted by segpaste", *(f"{row['pasted_frac']:.1%}" for row in rows), ""]
    head = ["", *(row["batch"] for row in rows), "what it does not do"]
    return f"## A step, as multiples of a clone\n\n{table(head, [pasted, *body])}{_skipped(rows)}"


def growth(found: Found) -> str:
    """A table for each axis; ratios to the clone of the same batch, and how the times grow."""
    parts = ["## Growth\n\nEvery axis on its own; with time ~ x^p, p = 0 is flat and p = 1 linear."]
    for axis in found["axes"]:
        names = [n for n in (CLONE, AGAIN, OUT_OF_PLACE, IN_PLACE) if n in axis["points"][0]["times"]]
        head = [axis["axis"], *(f"{n}, ms" for n in (CLONE, *_steps(names))), *(f"{n}, ×" for n in names[1:])]
        body = []
        for point in axis["points"]:
            times = point["times"]
            in_ms = [f"{times[n]['median_ms']:.2f}" for n in (CLONE, *_steps(names))]
            body.append([f"{point['x']:,}", *in_ms, *(_times(times[n], times[CLONE]) for n in names[1:])])
        if axis["exponents"]:
            powers = [f"{axis['exponents'][n]:.2f}" for n in (CLONE, *_steps(names))]
            body.append(["p", *powers, *("" for _ in names[1:])])
        parts.append(table(head, body))
    return "\n\n".join(parts)


def memory(found: Found) -> str:
    """Peak memory of a step next to the bytes of its batch."""
    head = ["step", "batch, MiB", "peak beyond it, MiB", "new outputs, MiB", "peak beyond the outputs, of the batch"]
    body = []
    for mode, row in found["rows"].items():
        if "skipped" in row:
            body.append([mode, f"skipped: {row['skipped']}", "", "", ""])
            continue
        sizes = [f"{row[key] / 2**20:,.1f}" for key in ("batch_bytes", "peak_bytes", "new_bytes")]
        body.append([mode, *sizes, f"{beyond_outputs(row):.1%}"])
    return f"## Peak memory of a step\n\n{found['batch']}.\n\n{table(head, body)}"


def beyond_outputs(row: Mapping[str, int]) -> float:
    """Peak memory that is not the outputs', as a share of the batch."""
    return (row["peak_bytes"] - row["new_bytes"]) / row["batch_bytes"]


def loading(found: Found) -> str:
    """Images a second, and how many times the other pipeline's, on photos of each size."""
    parts = [found, *([found["large"]] if "large" in found else [])]
    return "\n\n".join(["## The loader", *(f"{part['photos']}.\n\n{_loading_table(part)}" for part in parts)])


def _loading_table(found: Found) -> str:
    theirs = found["times"][THEIRS]
    body = []
    for name, times in found["times"].items():
        faster = timing.ratio(theirs, times)[0]
        body.append([name, f"{found['images_per_second'][name]:,.1f}", f"{faster:.2f}", _ms(times)])
    return table(["decode, jitter, collate", "images a second and core", f"× {THEIRS}", "an epoch, ms"], body)


def compiled(found: Found) -> str:
    """Eager over compiled."""
    if "skipped" in found:
        return f"## Compiled\n\nSkipped: {found['skipped']}."
    times = found["times"]
    body = [[name, _ms(times[name]), _times(times[name], times[COMPILED])] for name in (EAGER, COMPILED)]
    note = f"{found['batch']}; compiled in {found['seconds_to_compile']:.0f} s."
    return f"## Compiled\n\n{note}\n\n{table(['step', 'ms', 'multiples of the compiled step'], body)}"


def bandwidth(found: Found) -> str:
    """Bandwidth of a copy and of a fill on the device."""
    lines = [f"A copy within its memory: {found['gb_per_second']:,.0f} GB/s, read and written."]
    if "fill_gb_per_second" in found:
        lines.append(f"A fill: {found['fill_gb_per_second']:,.0f} GB/s, written.")
    return f"## The card\n\n{' '.join(lines)}"


def device_steps(found: Found) -> str:
    """A row for each batch and step: the times as multiples of the clone's work on the device, memory and waits."""
    head = ["batch", "step", "device, ms", "device, ×", "eager, ×", "graph, ×", "host, ms", "beyond the outputs, MiB"]
    body, notes = [], []
    for row in found["rows"]:
        times = row["times"]
        baseline = times["device"].get(CLONE) if "device" in times else None
        for name in (CLONE, OUT_OF_PLACE, IN_PLACE):
            ratios = [_over(times.get(clock, {}).get(name), baseline) for clock in ("device", "eager", "graph")]
            ms = [_ms(times[clock][name]) if name in times.get(clock, {}) else "–" for clock in ("device", "host")]
            beyond = row.get("peak_beyond_outputs", {}).get(name)
            memory = "–" if beyond is None else f"{beyond / 2**20:,.1f}"
            body.append([row["batch"], name, ms[0], *ratios, ms[1], memory])
        notes += [f"- {row['batch']}, {name}: waits: {wait}" for name, wait in row.get("waits", {}).items() if wait]
        notes += [f"- {row['batch']}, {name}: skipped: {reason}" for name, reason in row["skipped"].items()]
    text = (
        "Multiples are of the device's time for the clone of the same batch. Device: the work alone, queued before it "
        "starts; eager: from an idle device until all is done; graph: the work of a replay; host: until the call "
        "returns."
    )
    said = "\n\n" + "\n".join(notes) if notes else ""
    return f"## A step on the device\n\n{text}\n\n{table(head, body)}{said}{_goals(found.get('goals', ()))}"


def _goals(goals: Sequence[Found]) -> str:
    """A row for each goal: its batch, the measured value, and whether it holds."""
    body = [
        [
            g["batch"],
            g["goal"],
            "–" if g["measured"] is None else f"{g['measured']:.2f}",
            "holds" if g["holds"] else "missed",
        ]
        for g in goals
    ]
    return f"\n\n{table(['batch', 'goal', 'measured', ''], body)}" if body else ""


def detector(found: Found) -> str:
    """Milliseconds of a training step and of a paste, and the share of the step that a paste takes."""
    times = found["times"]
    whole = times[STEP]
    body = [[STEP, _ms(whole), "–"]]
    body += [[name, _ms(times[name]), f"{timing.ratio(times[name], whole)[0]:.2%}"] for name in _steps(list(times))]
    head = ["", "ms", "of the training step"]
    return f"## A training step of Mask R-CNN, ResNet-50 FPN\n\n{found['batch']}.\n\n{table(head, body)}"


def profiles(found: Found) -> str:
    """A table for each batch and step, of the kernels that take at least a hundredth of its time."""
    parts = ["## Launches and time by kernel\n\nOf one call, from the profiler, which slows the host down."]
    for row in found["rows"]:
        whole = f"{row['batch']}, {row['step']}: {row['launches']:.1f} launches, {row['microseconds']:,.0f} µs"
        body = [
            [f"{kernel['kernel']:.60}".replace("|", "/"), f"{kernel['launches']:.1f}", f"{kernel['microseconds']:,.1f}"]
            for kernel in row["kernels"]
            if kernel["microseconds"] * 100 >= row["microseconds"]
        ]
        parts.append(f"{whole}.\n\n{table(['kernel', 'launches', 'µs'], body)}")
    return "\n\n".join(parts)


def _over(of: timing.Summary | None, to: timing.Summary | None) -> str:
    return "–" if of is None or to is None else _times(of, to)


_MOVED = {
    "out_of_place": "out of place, ×",
    "pixels_out_of_place": "of which pixels",
    "in_place": "in place, ×",
    "pixels_in_place": "of which pixels in place",
}
"""Columns of the traffic, by the names of `benchmarks.look_traffic.shares`."""


def launches(found: Found) -> str:
    """Return the tables of launches and waits, over the cases of each preset and of each option, and of the bytes."""
    head = ["cases", "launches", "of torch", "own kernels", "outside of the engine", "waits", "host tensors"]
    plain, special = ([row for row in found["rows"] if bool(row["option"]) == is_set] for is_set in (False, True))
    tables = [
        table([name, *head, "launches of the first"], _launch_rows(rows, name))
        for name, rows in (("preset", plain), ("option", special))
        if rows
    ]
    note = (
        "Counted on fake tensors, without a card: the smallest and the largest number over the counted cases (subsets "
        "of modalities, with and without padding, out of place and in place), of forwards after the first."
    )
    counted = "\n\n".join(["## Launches of an eager forward", note, *tables])
    moved = [
        [
            str(row["slots"]),
            row["planes"],
            *(f"{row[name]:.2f}" for name in ("pasted", *_MOVED)),
        ]
        for row in found["traffic"]
    ]
    note = "Bytes that the kernels move, as multiples of a clone's, by a model: 8 images of 1024², float32."
    return f"{counted}\n\n{note}\n\n{table(['slots', 'planes', 'pasted', *_MOVED.values()], moved)}"


def _launch_rows(rows: Sequence[Found], by: str) -> list[list[str]]:
    """Return a row for each value of a column: the number of its cases, and the range of each count."""
    names, body = ("launches", "torch", "kernels", "outside", "waits", "host"), []
    for value in dict.fromkeys(row[by] for row in rows):
        own = [row for row in rows if row[by] == value]
        body.append([value, str(len(own)), *(_largest([_number(row[name]) for row in own]) for name in names)])
        body[-1].append(_largest([row["first"]["launches"] for row in own]))
    return body


def allocations(found: Found) -> str:
    """Return the table of memory on a CUDA device."""
    body: dict[tuple[str, str], list[str]] = {}
    for row in found["rows"]:
        extra = (row["peak_bytes"] - row["new_bytes"]) / row["batch_bytes"]
        cells = body.setdefault((row["planes"], str(row["slots"])), [f"{row['batch_bytes'] / 2**20:,.0f}"])
        cells.append(f"{extra:.2%}".replace("%", " %"))
    head = ["planes", "slots", "batch, MiB", "out of place", "in place", "in place, with a report"]
    note = (
        f"Peak memory beyond the batch and the new tensors that are returned, over the batch, {found['batch']}, "
        "float32; counted on fake tensors, without a card."
    )
    return f"## Memory on a CUDA device\n\n{note}\n\n{table(head, [[*key, *cells] for key, cells in body.items()])}"


def _number(value: int | Mapping[str, int]) -> int:
    return value if isinstance(value, int) else sum(value.values())


def _largest(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(high) if low == high else f"{low}..{high}"


SECTIONS: dict[str, Callable[[Found], str]] = {
    "everyday": everyday,
    "launches": launches,
    "allocations": allocations,
    "bandwidth": bandwidth,
    "device_steps": device_steps,
    "detector": detector,
    "profiles": profiles,
    "step": step,
    "growth": growth,
    "memory": memory,
    "loading": loading,
    "compiled": compiled,
}
"""In the order of the report."""


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _steps(names: Sequence[str]) -> list[str]:
    return [name for name in (OUT_OF_PLACE, IN_PLACE) if name in names]


def _ratio_or_ms(name: str, times: Mapping[str, timing.Summary]) -> str:
    if name not in times:
        return "–"
    return f"{_ms(times[name])} ms" if name == CLONE else _times(times[name], times[CLONE])


def _times(of: timing.Summary, to: timing.Summary) -> str:
    median, low, high = timing.ratio(of, to)
    return f"{median:.2f} ({low:.2f}..{high:.2f})"


def _ms(of: timing.Summary) -> str:
    return f"{of['median_ms']:.2f} ({of['low_ms']:.2f}..{of['high_ms']:.2f})"


def _skipped(rows: Sequence[Found]) -> str:
    """List the libraries that were left out and why, each reason once, with the batches where it is not all of them."""
    where: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, reason in row["skipped"].items():
            where.setdefault((name, reason), []).append(row["batch"])
    measured = {name for row in rows for name in row["times"]}
    lines = []
    for (name, reason), batches in where.items():
        place = f" ({'; '.join(batches)})" if name in measured else ""
        lines.append(f"- {name}{place}: {reason}")
    return "\n\nSkipped:\n\n" + "\n".join(lines) if lines else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
