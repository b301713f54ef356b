"""Where the package keeps what it can make again: the cache folder of the user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder of one kind of cached files, which need not exist.

    It is in the folder that ``SEGPASTE_CACHE`` names, else in ``segpaste`` under ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    if named := os.environ.get("SEGPASTE_CACHE"):
        return Path(named).expanduser().absolute() / name
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "segpaste" / name
