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
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.compiler_lock import global_compiler_lock

_KERNELS = Path(__file__).parent
_COMPILED_IN = (
    *sorted(_KERNELS.glob("_cpu_*.py")),
    *(_KERNELS / name for name in ("cpu.py", "operands.py", "whole_operands.py")),
    *(_KERNELS.parent / name for name in ("seeding.py", "types/sampling.py")),
)
"""The loops, and whence they have tuples and constants."""


def _digest() -> str:
    settings = os.environ.get("NUMBA_BOUNDSCHECK", "").encode()
    return hashlib.sha256(b"".join(path.read_bytes() for path in _COMPILED_IN) + settings).hexdigest()[:16]


def _choose_cache(wanted: Path, own: Path) -> Path | None:
    """Where to keep what is compiled: where it is wanted, else in a folder of this user's own, else nowhere.

    Numba reads nothing from a folder that it cannot write, so what is kept there is copied.
    """
    if _can_write(wanted):
        return wanted
    try:
        own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if own.parent.stat().st_uid != os.getuid():  # what lies there is run
            return None
        if wanted.is_dir() and not own.exists():
            copy = Path(tempfile.mkdtemp(dir=own.parent))
            shutil.copytree(wanted, copy, dirs_exist_ok=True)
            copy.rename(own)
    except OSError:
        pass  # another process was faster, or nothing can be written there either
    return own if _can_write(own) else None


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


_NAME = _digest()
_CACHE = _choose_cache(
    Path(os.environ.get("NUMBA_CACHE_DIR") or _KERNELS / "__pycache__") / _NAME,
    Path(tempfile.gettempdir()) / f"segpaste-{os.getuid()}" / _NAME,
)
if _CACHE is None:
    warnings.warn(
        "segpaste can keep its compiled loops nowhere, so every process compiles them for a minute: set "
        "NUMBA_CACHE_DIR to a folder that can be written",
        stacklevel=2,
    )

# A child that is forked while a thread compiles would wait for Numba's lock for ever, so forking waits for the thread.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a loop that Python calls: no lock held, no reordering of sums, kept on disk.

    Numba looks at the file of a function only to see whether what it kept is still true, and loops of one file call
    those of another: so it is kept under a digest of all that is compiled in, apart for code that checks bounds.
    """
    return _kept(function, with_wrapper=True)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile what only other loops call, as `entry` does; called from Python it would crash."""
    return _kept(function, with_wrapper=False)


def _kept(function: Callable[..., Any], with_wrapper: bool) -> Any:
    config: Any = numba.config
    options: Any = {"no_cpython_wrapper": not with_wrapper, "no_cfunc_wrapper": True, "cache": _CACHE is not None}
    before, config.CACHE_DIR = config.CACHE_DIR, str(_CACHE or "")
    try:
        return numba.njit(nogil=True, **options)(function)
    finally:
        config.CACHE_DIR = before
