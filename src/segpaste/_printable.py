"""Names out of files, made safe to print: a class name may hold anything, a terminal obeys escape sequences."""

from __future__ import annotations

import unicodedata
from html import escape

_JOINERS = "\u200c\u200d"
"""Letters of several scripts need them."""
_CONTROLS = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    r"""Return the text with control characters written out.

    Escape sequences, line breaks and marks that reverse the direction of what follows become ``\x1b``, ``\n`` and
    ``\u202e``, so a name can neither command the terminal nor pass for another line.
    """
    return "".join(_written_out(char) if _is_control(char) else char for char in text)


def in_html(text: str) -> str:
    """Return the text for a page, `printable` and with its markup escaped."""
    return escape(printable(text))


def _is_control(char: str) -> bool:
    return char not in _JOINERS and unicodedata.category(char) in _CONTROLS


def _written_out(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
