"""How the loops of the CPU kernels are compiled, and where what is compiled is kept.

Compiling is what the first paste of a machine waits for, so the loops are written to be compiled quickly:

- Only what Python calls is an `entry`. To take arguments out of Python's objects, dozens of arrays in named tuples,
  takes longer to compile than most of the loops do.
- A constant is handed over as ``np.int64(0)``, for Numba compiles a function once more for each constant it is given.
- Arrays are copied in loops: the error that ``a[:] = b`` may raise is longer than the copy.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_LOOPS = sorted(Path(__file__).parent.glob("_cpu_*.py"))
_SETTINGS = os.environ.get("NUMBA_BOUNDSCHECK", "").encode()
_CACHE = (
    Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    / hashlib.sha256(b"".join(p.read_bytes() for p in _LOOPS) + _SETTINGS).hexdigest()[:16]
)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a loop that Python calls: no lock held, no reordering of sums, kept on disk.

    Numba looks at the file of a function only to see whether what it kept is still true, and loops of one file call
    those of another: so it is kept under a digest of all of them, apart for code that checks bounds. Where that folder
    cannot be written Numba chooses.
    """
    return _kept(function, with_wrapper=True)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile what only other loops call, as `entry` does; called from Python it would crash."""
    return _kept(function, with_wrapper=False)


def _kept(function: Callable[..., Any], with_wrapper: bool) -> Any:
    config: Any = numba.config
    options: Any = {"no_cpython_wrapper": not with_wrapper, "no_cfunc_wrapper": True}
    before, config.CACHE_DIR = config.CACHE_DIR, str(_CACHE)
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    finally:
        config.CACHE_DIR = before
