"""Progress bars and the summary of pastes, which several commands print."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable

if TYPE_CHECKING:
    from segpaste.augmenting.options import Progress
    from segpaste.augmenting.summary import AugmentSummary
    from segpaste.datasets.conversion.starting import Start


def progress(total: int, unit: str = "image", **options: Any) -> Any:
    """Return a progress bar on stderr, as a context manager; it prints nothing if stderr is not a terminal."""
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, dynamic_ncols=True, **{"disable": None, **options})


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
