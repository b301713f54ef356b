"""The threads of a step: those of the OpenMP runtime that torch runs its own operations on.

They still spin from torch's last operation when a step begins, so they start at once; threads of our own would have to
take a core from them first, which takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

import torch

_LIBRARY = "libtorch_cpu.dylib" if sys.platform == "darwin" else "libtorch_cpu.so"

# The runtime's threads do not survive a fork, and it does not make new ones.
_is_forked = False


def _forget_threads() -> None:
    global _is_forked
    _is_forked = True


os.register_at_fork(after_in_child=_forget_threads)


def num_threads(num_rows: int) -> int:
    """Return how many threads work on a step: as many as torch has, at most one for each row; one in a forked child."""
    most = 1 if _is_forked or not parallel() else torch.get_num_threads()
    return max(1, min(most, num_rows))


@cache
def parallel() -> int:
    """Return the address of the runtime's ``GOMP_parallel``, 0 where torch has no such runtime.

    GNU's and LLVM's OpenMP both have this function:
    ``void GOMP_parallel(void (*function)(void *), void *data, unsigned num_threads, unsigned flags)``.
    """
    try:
        library = ctypes.CDLL(os.fspath(Path(torch.__file__).parent / "lib" / _LIBRARY))
        function = library.GOMP_parallel  # found in what torch's library depends on
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
