"""Sentences and tables of the pages: each sentence on a comparison follows from its figures alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from segpaste.tuning.comparing import Comparison, Kept, Values, Verdict
from segpaste.tuning.statistics import Interval, paired_bootstrap
from segpaste.workspace import write_whole

from .protocol import Choice, Protocol, Score, choices
from .runs import Run, RunFolder

Found = Mapping[str, Mapping[int, Run]]
"""Runs by arm and seed."""


class Results(NamedTuple):
    """Results that a page is written from.

    Attributes:
        protocol: what was run.
        chosen: settings that tuning chose, by arm.
        found: runs of equal steps.
        longer: runs of equal CPU seconds, more steps than those of ``found``.
    """

    protocol: Protocol
    chosen: Mapping[str, Choice]
    found: Found
    longer: Found


Section = Callable[[Results], str]
Pictures = Callable[[Protocol, Found], Mapping[str, Image.Image]]

_SAID: dict[Verdict, str] = {
    "higher": "**{ours} is better than {theirs}**",
    "lower": "**{ours} is worse than {theirs}**",
    "undecided": "**undecided between {ours} and {theirs}**",
}
_KEPT: dict[Kept, str] = {
    "kept": "{ours} **keeps** {measure} within {margin} points of {theirs}",
    "lost": "{ours} **loses** more than {margin} points of {measure} to {theirs}",
    "undecided": "the runs **do not decide** whether {ours} keeps {measure} within {margin} points of {theirs}",
}


def said(comparison: Comparison, ours: str, theirs: str) -> str:
    """Return a sentence on which of two arms is better, with its figures."""
    return f"{_SAID[comparison.verdict].format(ours=ours, theirs=theirs)} ({figures(comparison)})."


def edges_said(chosen: Mapping[str, Choice]) -> list[str]:
    """Return a sentence on the arms whose best learning rate may lie outside those that were tried, if any."""
    rates = [choice.lr for choice in chosen.values() if choice.is_edge]
    if not rates:
        return []
    tried = " or ".join(f"{rate:g}" for rate in sorted(set(rates)))
    return [f"For {len(rates)} of {len(chosen)} arms the best learning rate was the lowest or highest tried, {tried}."]


def said_kept(comparison: Comparison, ours: str, theirs: str, measure: str, margin: float) -> str:
    """Return a sentence on whether ours lost less than a margin, with its figures."""
    text = _KEPT[comparison.kept(margin)].format(ours=ours, theirs=theirs, measure=measure, margin=f"{100 * margin:g}")
    return f"{text[0].upper()}{text[1:]} ({points(comparison.interval)} points)."


def figures(comparison: Comparison) -> str:
    """Return difference, interval, p value and wins in one line."""
    wins = f"better at {comparison.num_better} of {comparison.num_pairs} seeds"
    return f"{points(comparison.interval)} points, p = {p_text(comparison.p_value)}, {wins}"


def points(interval: Interval) -> str:
    """Return a difference in points of IoU with its interval."""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}"


def p_text(p_value: float) -> str:
    """Return a p value with two digits."""
    return f"{p_value:.2g}" if p_value >= 0.001 else "< 0.001"


def mean_text(values: Values) -> str:
    """Return the mean over the seeds and its bootstrap interval."""
    mean, low, high = paired_bootstrap(list(values.values()))
    return f"{mean:.3f} ({low:.3f}–{high:.3f})"


def comparison_table(found: Mapping[str, Comparison]) -> str:
    """Return a row for each comparison."""
    head = ["compared", "difference, points", "95 % interval", "p, Holm", "better at", ""]
    body = []
    for name, comparison in found.items():
        mean, low, high = (100 * value for value in comparison.interval)
        wins = f"{comparison.num_better} of {comparison.num_pairs}"
        p_value = p_text(comparison.p_value)
        body.append([name, f"{mean:+.1f}", f"{low:+.1f} to {high:+.1f}", p_value, wins, comparison.verdict])
    return table(head, body)


def runs_table(panels: Mapping[str, Mapping[str, Values]]) -> str:
    """Return every run: for each measure and arm the value at each seed."""
    parts = []
    for title, arms in panels.items():
        seeds = sorted(next(iter(arms.values())))
        body = [[arm, *(f"{values[seed]:.3f}" for seed in seeds)] for arm, values in arms.items()]
        parts.append(f"{title}, by seed:\n\n{table(['arm', *map(str, seeds)], body)}")
    return "\n\n".join(parts)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [list(head), ["---"] * len(head), *(list(row) for row in body)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def setting(runs: Sequence[Run]) -> str:
    """Return machines and versions of the runs in one paragraph."""
    kinds = sorted({", ".join(f"{name} {value}" for name, value in run.machine.items() if value != "") for run in runs})
    return "\n".join(f"- {kind}" for kind in kinds)


def settled(curve: Sequence[float]) -> float:
    """Return how much a curve rose over its last quarter."""
    return curve[-1] - curve[-1 - max(1, len(curve) // 4)]


def mean_curve(runs: Mapping[int, Run], value_of: Callable[[Mapping[str, Any]], float]) -> list[tuple[float, float]]:
    """Return (step, mean over the seeds of a value) of the checks."""
    curves = [run.found["curve"] for run in runs.values()]
    return [
        (points[0]["step"], sum(value_of(point) for point in points) / len(points))
        for points in zip(*curves, strict=True)
    ]


def choice_cells(choice: Choice) -> list[str]:
    """Return the cells of a learning rate and of the CPU milliseconds of a step."""
    return [f"{choice.lr:g}{', at the edge' if choice.is_edge else ''}", f"{1e3 * choice.cpu_seconds:.0f}"]


def by_arm(folder: RunFolder, wanted: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, Run]]:
    """Return the runs of these settings.

    Raises:
        LookupError: some are not done.
    """
    missing = folder.missing(wanted)
    if missing:
        raise LookupError(f"expected {len(wanted)} runs, {len(missing)} are missing; do them with `run`")
    found: dict[str, dict[int, Run]] = {}
    for settings in wanted:
        run = folder.find(settings)
        assert run is not None
        found.setdefault(settings["arm"], {})[settings["seed"]] = run
    return found


def writer(sections: Sequence[Section], pictures: Pictures) -> Callable[[Protocol, RunFolder, Score, Path], Path]:
    """Return a function that writes a page and its pictures, and returns the page's path.

    Args:
        sections: the parts of the page, in order.
        pictures: pictures of the runs of equal steps, by name.
    """

    def write(protocol: Protocol, folder: RunFolder, score: Score, docs: Path) -> Path:
        chosen = choices(protocol, folder, score)
        found = by_arm(folder, protocol.compared(chosen))
        results = Results(protocol, chosen, found, by_arm(folder, protocol.longer_runs(chosen)))
        text = [section(results) for section in sections]
        return write_page(docs, protocol.name, text, pictures(protocol, found))

    return write


def write_page(docs: Path, name: str, sections: Sequence[str], pictures: Mapping[str, Image.Image]) -> Path:
    """Write a page and its pictures ``<name>-<picture>.png`` into a folder, and return the page's path."""
    docs.mkdir(parents=True, exist_ok=True)
    for picture_name, picture in pictures.items():
        data = BytesIO()
        picture.save(data, "PNG", optimize=True)
        write_whole(docs / f"{name}-{picture_name}.png", data.getvalue())
    path = docs / f"{name}.md"
    write_whole(path, ("\n\n".join(sections) + "\n").encode())
    return path
