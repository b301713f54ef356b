"""Report of errors: one line on stderr and an exit code; with ``--debug`` also the traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from segpaste._printable import printable
from segpaste._ranks import is_own, is_said
from segpaste.augmenting.options import AugmentError, NothingToPasteError, command_line
from segpaste.extras import MissingPackageError

BAD_INPUT, INTERRUPTED = 2, 130
_TERMINATED = threading.Event()
_NO_MEMORY = "not enough memory", "can't allocate memory", "CUDA out of memory"
_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "; free some space and run the same command again"),
    errno.ENOENT: "; check the path",
    errno.ENOTDIR: "; check the path, a part of it is a file",
    errno.EISDIR: "; give a file",
    errno.EACCES: "; check its permissions",
    errno.EROFS: "; choose a place that can be written",
}
"""What to do about errors of the system."""


class CommandError(ValueError):
    """A request that cannot be fulfilled; the message says why and what to do."""


@dataclass
class CommandEnd:
    """End of a command, with the exit code of the process."""

    exit_code: int = 0


@contextlib.contextmanager
def reported(debug: bool, is_first: bool = True) -> Iterator[CommandEnd]:
    """Run a command, and report an expected error as one line on stderr.

    Expected errors are ValueError, OSError, missing packages and lack of memory; any other is a defect and is raised.

    Args:
        debug: print the traceback, too.
        is_first: True for the first of the processes of this machine that run the command together. The others print
            only errors that no other process has, and no warnings.
    """
    outcome = CommandEnd()
    try:
        with _plain_warnings(is_first), _sigterm_interrupts(), command_line():
            yield outcome
    except SystemExit as stop:  # --help, --version, and failed checks
        outcome.exit_code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str) and is_first:
            _print_line("segpaste: error", stop.code)
    except KeyboardInterrupt as interrupt:
        outcome.exit_code = INTERRUPTED
        if is_first and not is_own(interrupt):  # only the first process prints it
            _print_line("segpaste: interrupted", interrupt)
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        outcome.exit_code = 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        if debug:
            traceback.print_exc()
        if isinstance(error, AugmentError) and error.details and is_first:
            print(*error.details, sep="\n", file=sys.stderr)
        outcome.exit_code = 1 if isinstance(error, NothingToPasteError) else BAD_INPUT
        if is_own(error) or (is_first and not is_said(error)):
            _print_line("segpaste: error", reason)


def _reason(error: Exception) -> str | None:
    """Return the line that describes an expected error, or None for a defect."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}{_HINTS.get(error.errno or 0, '')}"
    if isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY):
        return "expected enough memory for a batch, got too little; make batches or their images smaller"
    return str(error) if isinstance(error, ValueError | OSError | MissingPackageError) else None


def _print_line(start: str, reason: object) -> None:
    text = printable(" ".join(str(reason).split()))
    print(f"{start}: {text}" if text else start, file=sys.stderr)


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        _TERMINATED.set()
        raise KeyboardInterrupt

    _TERMINATED.clear()
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def expect_no_sigterm() -> None:
    """Raise the KeyboardInterrupt of a SIGTERM again if other code swallowed it, as some imported modules do."""
    if _TERMINATED.is_set():
        raise KeyboardInterrupt


@contextlib.contextmanager
def _plain_warnings(is_first: bool) -> Iterator[None]:
    """Print warnings of the library as single lines, like errors."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if is_first and issubclass(category, UserWarning):
            _print_line("segpaste: warning", message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
