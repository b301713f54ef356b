"""Safe printing of names read from files: a class name may contain escape sequences, which a terminal executes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from html import escape

_JOINERS = "\u200c\u200d"
"""Format characters that are kept, because letters of several scripts need them."""
_CONTROLS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_MAX_CLASSES = 12


def printable(text: str) -> str:
    r"""Return the text with control characters escaped.

    Escape sequences, line breaks and marks that reverse the text direction become ``\x1b``, ``\n`` and ``\u202e``, so a
    name can neither control the terminal nor imitate another line.
    """
    return "".join(_escaped(char) if _is_control(char) else char for char in text)


def in_html(text: str) -> str:
    """Return the text for an HTML page: `printable`, with its markup escaped."""
    return escape(printable(text))


def class_lines(counts: Iterable[tuple[str, int]], name_width: int, num_width: int) -> Iterator[str]:
    """Yield a line for each of the most frequent classes, and one for all others."""
    ranked = sorted(counts, key=lambda pair: (-pair[1], pair[0]))
    for name, num in ranked[:_MAX_CLASSES]:
        yield f"  {printable(name):<{name_width}} {num:>{num_width},}"
    if rest := ranked[_MAX_CLASSES:]:
        yield f"  {f'{len(rest)} more classes':<{name_width}} {sum(num for _, num in rest):>{num_width},}"


def _is_control(char: str) -> bool:
    return char not in _JOINERS and unicodedata.category(char) in _CONTROLS


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
