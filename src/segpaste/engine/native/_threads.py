"""Threads of a step: those of the OpenMP runtime that torch uses for its own operations.

They spin for a while after torch's last parallel operation, so a step that begins within that time can use them at
once. Threads of our own would first have to take a core from them, which takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

import torch

_LIBRARY = "libtorch_cpu.dylib" if sys.platform == "darwin" else "libtorch_cpu.so"

_BYTES_PER_THREAD = 1 << 20
"""Minimum bytes of a batch for each thread; with fewer, waking a thread takes longer than its work."""


def _was_forked() -> bool:
    """Return whether this process was forked and has not executed another program since."""
    try:
        flags = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[6]
    except (OSError, IndexError):
        return False
    return bool(int(flags) & 0x40)  # PF_FORKNOEXEC of Linux


# The runtime's threads do not survive a fork, and the runtime starts no others. Checked at import, since the parent may
# have started them before this module was imported.
_is_forked = _was_forked()


def _forget_threads() -> None:
    global _is_forked
    _is_forked = True


os.register_at_fork(after_in_child=_forget_threads)


def num_threads(num_rows: int, num_bytes: int) -> int:
    """Return the number of threads for a step: at most torch's number, one for each row, and one for each MiB.

    Args:
        num_rows: rows of the batch.
        num_bytes: bytes of its images and masks.
    """
    most = min(num_rows, num_bytes // _BYTES_PER_THREAD)
    if most <= 1 or _is_forked or not parallel():
        return 1
    return min(most, torch.get_num_threads())


@cache
def parallel() -> int:
    """Return the address of the runtime's ``GOMP_parallel``, 0 if torch has no such runtime.

    GNU's and LLVM's OpenMP both have this function:
    ``void GOMP_parallel(void (*function)(void *), void *data, unsigned num_threads, unsigned flags)``.
    """
    try:
        library = ctypes.CDLL(os.fspath(Path(torch.__file__).parent / "lib" / _LIBRARY))
        function = library.GOMP_parallel  # found in a dependency of torch's library
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
