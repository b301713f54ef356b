"""Errors and advice for both callers: options are named as Python or as the command line spells them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

_FLAGS = {"images_dir": "--images", "format": "--from", "image_format": "--format"}
"""Options whose names on the command line are others than in Python."""
_is_command_line = False


class AugmentError(ValueError):
    """A request that cannot be fulfilled; the message says why and what to do.

    Attributes:
        details: further lines, such as one for each image that cannot be read.
    """

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = details


class NothingToPasteError(AugmentError):
    """A dataset without anything that could be pasted."""


def flag_of(name: str) -> str:
    """Return the name of an option on the command line."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


@contextlib.contextmanager
def command_line() -> Iterator[None]:
    """Spell options as flags, such as ``--num``, within the block."""
    global _is_command_line
    before, _is_command_line = _is_command_line, True
    try:
        yield
    finally:
        _is_command_line = before


def option(name: str, value: object = None) -> str:
    """Return an option as the caller writes it: ``num=3`` or ``--num 3``; without a value only its name."""
    if _is_command_line:
        flag = flag_of(name)
        return flag if value is None or value is True else f"{flag} {value}"
    return name if value is None else f"{name}={value!r}"


def command(name: str, *names: str, **options: object) -> str:
    """Return a call as the caller writes it: ``segpaste convert --to coco --split``, or ``segpaste.convert_dataset``.

    Args:
        name: the command.
        names: options without a value.
        options: options with their values.
    """
    given = [option(key, value) for key, value in options.items()]
    if _is_command_line:
        return " ".join([f"segpaste {name}", *given, *map(option, names)])
    return f"segpaste.{name}_dataset({', '.join(['...', *given, *(f'{key}=...' for key in names)])})"
