"""Lists of names in text files, a name on each line: classes, and the images of a split.

Only a line feed ends a line. `str.splitlines` also splits at characters that names may contain.

A class name that a line cannot hold is written as a string of JSON, in double quotes: an empty name, and one with
blanks at its ends, a line break, or the form of another line of such lists. So the position of a name is its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

_OTHER_FORMS = re.compile(r'["#\ufeff]|\d+\s+\d+\s+\d+\s')
"""Starts of names that would be read as a string, a comment, a mark of the encoding, or as a colour and a name."""
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FLAG = re.compile(r"\s+[-+]?[01]$")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, with the blanks at their ends."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def class_names_of(text: str) -> list[str]:
    """Return the class of each line. An empty line is a class without a name, except at the end of the text."""
    lines = [line.strip() for line in lines_of(text)]
    while lines and not lines[-1]:
        lines.pop()
    return [class_name_of(line) for line in lines]


def class_name_of(line: str) -> str:
    """Return the class name of a line without blanks at its ends; a string of JSON is decoded."""
    if len(line) > 1 and line[0] == line[-1] == '"':
        try:
            return str(json.loads(line))
        except ValueError:
            pass
    return line


def class_list_text(names: Iterable[str]) -> str:
    """Return the text of a list of classes, from which `class_names_of` returns the same names."""
    return "".join(f"{name if _is_line(name) else json.dumps(name)}\n" for name in names)


def image_name_of(line: str, is_there: Callable[[str], bool], *, has_flags: bool = False) -> str:
    """Return the image that a line names, which may contain blanks; empty for an empty line.

    Args:
        line: the line.
        is_there: function that returns whether there is an image of this name.
        has_flags: True if names may be followed by -1, 0 or 1, as in VOC's lists of one class; such an end is part of
            the name if an image has it.
    """
    short = line.strip()
    found = next((name for name in (line, short) if short and is_there(name)), None)
    return found or (_FLAG.sub("", short) if has_flags else short)


def _is_line(name: str) -> bool:
    """Return whether a name is a line of its own."""
    return bool(name) and name == name.strip() and not (_CONTROLS.search(name) or _OTHER_FORMS.match(name))


def is_background(name: str) -> bool:
    """Return whether a class is the background of semantic maps, if it is the first one."""
    return name.strip("_").lower() == "background"
