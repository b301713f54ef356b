"""Lock of a folder, so that one process at a time writes there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def lock_folder(folder: Path) -> int | None:
    """Lock an existing folder until the descriptor is closed or the process ends.

    Returns:
        The descriptor, or None if another process holds the lock or has just moved the folder away.

    Raises:
        OSError: the path is not a folder, or cannot be opened.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(folder)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None
