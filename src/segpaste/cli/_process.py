"""Process of a command: imports as fast as possible, and an end without tearing the interpreter down.

It is for processes that the console script owns. `segpaste.cli.main`, called from Python or from a test, changes
nothing in its process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

_CANNOT_FLUSH = 120
"""Python's exit code for output that cannot be written at the end."""

_own_process = threading.Event()


def run_alone(command: Any) -> NoReturn:
    """Run a function that returns an exit code, and end the process, which belongs to it, with that code."""
    _own_process.set()
    _end(command())


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import what a command needs that pastes or reads images and neither trains nor compiles.

    In a process of its own the command imports without collecting garbage. If that imports torch, it leaves out the
    compiler, and uses one thread unless OMP_NUM_THREADS is set, because its images are too small to be divided. What
    was made lives as long as the process, so later collections skip it.
    """
    if not _own_process.is_set():
        yield
        return
    gc.disable()
    try:
        _put_off_compiler()
        yield
    finally:
        gc.freeze()
        gc.enable()
    if "OMP_NUM_THREADS" not in os.environ and (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


class _Later(ModuleType):
    """Stand-in for a module of torch's compiler: it imports the module when somebody uses another name of it.

    Torchvision and segpaste mark functions for the compiler when they are imported. Without the compiler the marks mean
    nothing, but its import takes half of the time and a fifth of the memory of all imports.
    """

    def __getattr__(self, name: str) -> Any:
        is_package = self.__name__ == "torch._dynamo"
        if name.startswith("__") and not (is_package and name == "__path__"):
            raise AttributeError(name)
        for module in [name for name, module in sys.modules.items() if isinstance(module, _Later)]:
            del sys.modules[module]
        return getattr(import_module(self.__name__), name)


def _put_off_compiler() -> None:
    """Put off the import of torch's compiler, unless it is there already."""
    if "torch._dynamo" in sys.modules:
        return
    compiler, utils = _Later("torch._dynamo"), _Later("torch._dynamo.utils")
    compiler.disable = _unmarked  # type: ignore[attr-defined]
    compiler.assume_constant_result = _unmarked  # type: ignore[attr-defined]
    utils.is_compile_supported = lambda device: _Later.__getattr__(utils, "is_compile_supported")(device)  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in (compiler, utils)}


def _unmarked(function: Any = None, *_: Any, **__: Any) -> Any:
    """Return a function as it is, or without one a decorator that does so."""
    return _unmarked if function is None else function


def _end(exit_code: int) -> NoReturn:
    """End the process: run the exit handlers, which also end child processes, flush, and free nothing.

    The interpreter ends as usual where its own end does more: it waits for threads, and hands over to a profiler, a
    debugger or an interactive session.
    """
    threads = [thread for thread in threading.enumerate() if not thread.daemon]
    if len(threads) > 1 or sys.getprofile() or sys.gettrace() or sys.flags.inspect or sys.flags.interactive:
        sys.exit(exit_code)
    gc.collect()  # closes files and ends workers that only cycles keep
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            print(end="", flush=True, file=stream)
        except OSError:
            exit_code = exit_code or _CANNOT_FLUSH
    os._exit(exit_code)
