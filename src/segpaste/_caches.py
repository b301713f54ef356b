"""Cache folder of the user, for files that the package can create again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder for one kind of cached files; it may not exist yet.

    Its parent is the folder that ``SEGPASTE_CACHE`` names, else ``segpaste`` in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    if named := os.environ.get("SEGPASTE_CACHE"):
        return Path(named).expanduser().absolute() / name
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "segpaste" / name
