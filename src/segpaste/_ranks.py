"""Marks on errors, which decide which of several processes prints an error.

Processes that work together often fail for the same reason. The process in which the error occurred prints it. The
others raise it too, so that they exit, but print nothing. The marks are notes of the exception (PEP 678), so they stay
with it when it is sent to another process.
"""

from __future__ import annotations

_SAID = "raised in another process, which prints it"
_OWN = "raised in this process alone"


def mark_said(error: BaseException) -> None:
    """Mark an error that another process prints."""
    error.add_note(_SAID)


def mark_own(error: BaseException) -> None:
    """Mark an error that occurred in this process alone, unless another process prints it."""
    if not is_said(error) and not is_own(error):
        error.add_note(_OWN)


def is_said(error: BaseException) -> bool:
    """Return whether another process prints the error."""
    return _SAID in getattr(error, "__notes__", ())


def is_own(error: BaseException) -> bool:
    """Return whether the error occurred in this process alone."""
    return _OWN in getattr(error, "__notes__", ())
