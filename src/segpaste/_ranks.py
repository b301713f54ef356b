"""Which of several processes tells the user about an error.

Processes that work together often fail for one reason. The one whose error it is prints it; the others raise it too, so
that they end, and say nothing. The marks are notes of the exception (PEP 678), which travel with it.
"""

from __future__ import annotations

_SAID = "raised in another process, which prints it"
_OWN = "raised in this process alone"


def mark_said(error: BaseException) -> None:
    """Mark an error that another process prints."""
    error.add_note(_SAID)


def mark_own(error: BaseException) -> None:
    """Mark an error that no other process knows of, unless another one prints it."""
    if not is_said(error) and not is_own(error):
        error.add_note(_OWN)


def is_said(error: BaseException) -> bool:
    """Whether another process prints the error."""
    return _SAID in getattr(error, "__notes__", ())


def is_own(error: BaseException) -> bool:
    """Whether this process alone knows of the error."""
    return _OWN in getattr(error, "__notes__", ())
