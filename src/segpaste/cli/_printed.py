"""Output of several commands: a progress bar, and counts of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from segpaste._printable import printable

_MAX_CLASSES = 12


def progress(total: int, unit: str = "image", **options: Any) -> Any:
    """Return a progress bar on stderr, as a context manager; it prints nothing if stderr is not a terminal."""
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, dynamic_ncols=True, **{"disable": None, **options})


def class_lines(counts: Iterable[tuple[str, int]], name_width: int, num_width: int) -> Iterator[str]:
    """Yield a line for each of the most frequent classes, and one for all others."""
    ranked = sorted(counts, key=lambda pair: (-pair[1], pair[0]))
    for name, num in ranked[:_MAX_CLASSES]:
        yield f"  {printable(name):<{name_width}} {num:>{num_width},}"
    if rest := ranked[_MAX_CLASSES:]:
        yield f"  {f'{len(rest)} more classes':<{name_width}} {sum(num for _, num in rest):>{num_width},}"
