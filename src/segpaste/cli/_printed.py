"""Progress bars and the summary of pastes, which several commands print."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from segpaste._printable import printable

if TYPE_CHECKING:
    from segpaste.augmenting.options import Progress
    from segpaste.augmenting.summary import AugmentSummary
    from segpaste.datasets.checking.tools.starts import Start


_STYLE: Final[ContextVar[str]] = ContextVar("progress", default="bar")
_LINE_EVERY_S = 1.0


@contextlib.contextmanager
def progress_style(style: str) -> Iterator[None]:
    """Let the progress of a command be a ``bar``, lines of ``json``, or ``off``."""
    token = _STYLE.set(style)
    try:
        yield
    finally:
        _STYLE.reset(token)


def progress(total: int, unit: str = "image", **options: Any) -> Any:
    """Return a context manager that prints progress on stderr: a bar if stderr is a terminal, or lines of JSON."""
    if _STYLE.get() == "json":
        return JsonLines(total, unit, options.get("initial", 0), is_quiet=options.get("disable") is True)
    from tqdm import tqdm

    is_quiet = True if _STYLE.get() == "off" or not total else None  # tqdm takes 0 for an unknown number
    return tqdm(total=total, unit=f" {unit}", dynamic_ncols=True, **{"disable": is_quiet, **options})


class JsonLines:
    """Progress as lines of JSON on stderr, for programs: at most one a second, and always the last.

    A line is ``{"progress": unit, "done": number, "total": number}``, with the figures of `set_postfix`. The methods
    are those of a bar of tqdm.
    """

    disable = True
    """No bar is drawn."""

    def __init__(self, total: int, unit: str, initial: int = 0, *, is_quiet: bool = False) -> None:
        self.total, self.unit, self.n, self._is_quiet = total, unit, initial, is_quiet
        self._figures: dict[str, str] = {}
        self._printed_at, self._printed = 0.0, -1

    def __enter__(self) -> JsonLines:
        """Print the first line."""
        self._print()
        return self

    def __exit__(self, *_: object) -> None:
        """Print the last line."""
        self._print()

    def update(self, more: int = 1) -> None:
        """Count, and print a line if the last is a second ago."""
        self.n += more
        if time.monotonic() - self._printed_at >= _LINE_EVERY_S:
            self._print()

    def set_description(self, text: str) -> None:
        """Name the unit."""
        self.unit = text

    def set_postfix(self, figures: dict[str, str], refresh: bool = True) -> None:
        """Add figures to the lines."""
        self._figures = figures

    def _print(self) -> None:
        if self._is_quiet or self.n == self._printed:
            return
        self._printed_at, self._printed = time.monotonic(), self.n
        line = {"progress": self.unit, "done": self.n, "total": self.total, **self._figures}
        print(json.dumps(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a callback that draws a progress bar for each thing that is counted."""
    with contextlib.ExitStack() as stack:
        bars: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in bars or bars[what].total != total:
                stack.close()
                bars[what] = stack.enter_context(progress(total, what, initial=done))
            bars[what].update(done - bars[what].n)

        yield show


def print_end(args: argparse.Namespace, summary: Any, lines: Iterator[str], *, is_as_wanted: bool) -> None:
    """Print the summary of a new dataset, as lines or as JSON; with ``--strict`` exit with 1 if it is not as wanted."""
    print(json.dumps(summary.to_dict(), indent=2) if args.json else "\n".join(lines))
    if args.strict and not is_as_wanted:
        raise SystemExit(1)


def print_summary(summary: AugmentSummary, seconds: float) -> None:
    """Print the summary, the speed and the run time.

    The speed is that of the whole run: the images that it made, in all its processes, by its time from start to end.
    """
    print("\n".join(summary.lines()))
    if num := summary.num_made:
        workers = f" with {summary.workers} workers" if summary.workers > 1 else ""
        earlier = summary.num_images - num
        there = f"; {earlier:,} were there already" if earlier > 0 else ""
        print(f"speed    {num / seconds:,.1f} images/s, {num:,} made in this run{workers}{there}")
    print(f"time     {seconds:.1f} s in total")


def start_lines(start: Start) -> Iterator[str]:
    """Yield how a tool is started from a written dataset, and what it lacks."""
    yield ""
    if start.call:
        yield f"start    {printable(start.call)}"
    if start.lacks:
        yield f"lacks    {printable(start.lacks)}"
