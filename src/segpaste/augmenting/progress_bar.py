"""Progress bar of several commands."""

from __future__ import annotations

from typing import Any


def progress(total: int, unit: str = "image", **options: Any) -> Any:
    """Return a progress bar on stderr, as a context manager; it prints nothing if stderr is not a terminal."""
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, dynamic_ncols=True, **{"disable": None, **options})
