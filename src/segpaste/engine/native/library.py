"""Loading of the native library, once per process, its workspace memory and threads, and addresses of tensors.

``SEGPASTE_ISA`` forces an instruction set: ``v2``, ``v3`` or ``v4`` of x86-64, ``baseline`` elsewhere.
``SEGPASTE_NATIVE_LIBRARY`` names another file of the library, such as one with a sanitizer.

The threads of a step are those of the OpenMP runtime that torch uses for its own operations. They spin for a while
after torch's last parallel operation, so a step that begins within that time can use them at once. Threads of our own
would first have to take a core from them, which takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from struct import Struct

import torch
from torch import Tensor

from segpaste.engine.native import build

_JOBS = {
    "survey": 1,
    **dict.fromkeys(("rows", "draw", "draw_classes", "read_image", "read_planes", "read_runs", "cut_out"), 2),
    "compose": 3,
    "step": 4,
}
"""Functions on records, and the number of addresses that each takes."""

_LEVELS = {"baseline": 2, "v2": 2, "v3": 3, "v4": 4}

_LIBRARY = "libtorch_cpu.dylib" if sys.platform == "darwin" else "libtorch_cpu.so"

_BYTES_PER_THREAD = 1 << 20
"""Minimum bytes of a batch for each thread; with fewer, waking a thread takes longer than its work."""


class NativeError(ImportError):
    """Raised if the native library cannot be used; the message says why and what to do."""


@cache
def load(path: Path | None = None) -> ctypes.CDLL:
    """Return the library, with its instruction set chosen.

    Args:
        path: file of the library; by default ``SEGPASTE_NATIVE_LIBRARY``, else that of the package.

    Raises:
        NativeError: it was not built, not from these sources, or not for this processor.
    """
    if path is None:
        path = Path(os.environ.get("SEGPASTE_NATIVE_LIBRARY") or build.LIBRARY)
    advice = f"build it with `python {build.__file__}`, which needs a C++ compiler or the package ziglang"
    found = build.built_digest(path)
    if found is None:
        raise NativeError(f"{path} is missing: {advice}")
    if build.SOURCES.is_dir() and found != build.digest():
        raise NativeError(f"{path} was built from other sources: {advice}")
    try:
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise NativeError(f"{path} cannot be loaded ({error}): {advice}") from error
    _declare(library)
    wanted = os.environ.get("SEGPASTE_ISA") or None
    if wanted is not None and wanted not in _LEVELS:
        raise NativeError(f"SEGPASTE_ISA: expected one of {', '.join(_LEVELS)}, got {wanted!r}")
    level = library.segpaste_level() if wanted is None else _LEVELS[wanted]
    if library.segpaste_choose(level):
        raise NativeError(f"expected a processor of level {max(level, 2)}, this one is of {library.segpaste_level()}")
    return library


def _declare(library: ctypes.CDLL) -> None:
    library.segpaste_level.restype = ctypes.c_int64
    library.segpaste_choose.argtypes = [ctypes.c_int64]
    library.segpaste_choose.restype = ctypes.c_int64
    library.segpaste_workspace.restype = ctypes.c_void_p
    library.segpaste_free_workspace.argtypes = [ctypes.c_void_p]
    library.segpaste_free_workspace.restype = None
    for name, num_arguments in _JOBS.items():
        function = getattr(library, f"segpaste_{name}")
        function.argtypes = [ctypes.c_void_p] * num_arguments
        function.restype = ctypes.c_int64


def call(name: str, words: Sequence[int], *arguments: int) -> int:
    """Call a function of the library on a record of int64 words; return what it returns, for most an error code."""
    record = packed(words)  # outlives the call
    found: int = getattr(load(), name)(record.buffer_info()[0], *arguments)
    return found


def packed(words: Sequence[int]) -> array[int]:
    """Return words in memory, in a third of the time that `array` takes to convert a list."""
    return array("q", _packer(len(words))(*words))


@cache
def _packer(num: int) -> Callable[..., bytes]:
    return Struct(f"{num}q").pack


class _ThreadMemory:
    """Memory of one thread, kept from step to step and freed with the thread."""

    def __init__(self) -> None:
        self.library, self.process = load(), os.getpid()
        self.address: int = self.library.segpaste_workspace() or 0
        if not self.address:
            raise MemoryError("segpaste: no memory for a thread's workspace")

    def __del__(self) -> None:
        # A daemon thread may still be at work while the interpreter shuts down, another thread while its process forks.
        if getattr(self, "address", 0) and not sys.is_finalizing() and os.getpid() == self.process:
            self.library.segpaste_free_workspace(self.address)


class _Local(threading.local):
    def __init__(self) -> None:
        self.workspaces: list[_ThreadMemory] = []
        self.addresses = array("Q")


_LOCAL = _Local()


def workspace() -> int:
    """Return the address of this thread's workspace."""
    return workspaces(1)[0]


def workspaces(num: int) -> array[int]:
    """Return at least ``num`` addresses: this thread's workspace, then its helpers'."""
    while len(_LOCAL.addresses) < num:  # an interrupt may come between any two lines
        made = _ThreadMemory()
        _LOCAL.workspaces.append(made)
        _LOCAL.addresses.append(made.address)
    return _LOCAL.addresses


def addresses(values: Iterable[Tensor | int | None]) -> list[int]:
    """Return the `address` of each tensor, 0 for None, and addresses as they are."""
    return [
        0
        if value is None
        else value
        if isinstance(value, int)
        else (type(value) is Tensor and value.is_cpu and value.data_ptr()) or address(value)  # most in one expression
        for value in values
    ]


def address(tensor: Tensor) -> int:
    """Return the address of a tensor's values in the memory of the CPU.

    Raises:
        ValueError: its values are elsewhere, or it has none.
    """
    kind = type(tensor)
    try:
        if tensor.is_cpu and (kind is Tensor or kind.__torch_dispatch__ is Tensor.__torch_dispatch__):
            found = tensor.data_ptr()
            if found or not tensor.numel():
                return found
    except RuntimeError:  # a tensor inside a transform of torch.func
        pass
    raise ValueError(
        f"the native backend: expected tensors whose values are in the memory of the CPU, got a {kind.__name__} on "
        f"{tensor.device} without; give batches of the CPU, or let the reference backend paste them: "
        "segpaste.engine.use_backend('reference')"
    )


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
