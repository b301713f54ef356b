"""Log file of a long run, in its output folder: lines with the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segpaste._printable import printable


class RunLog:
    """A log that all runs of one output append to. A run that finishes nothing leaves no line.

    Args:
        path: the file; its folder must exist when the first line is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[str] = []
        self._is_open = False

    def say(self, text: str) -> None:
        """Add a line; it is written once something is finished."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._waiting += [f"{stamp} {printable(line)}\n" for line in text.splitlines()]
        if self._is_open:
            self.open()

    def open(self) -> None:
        """Write the lines collected so far, and every later line at once; called after the first finished step."""
        self._is_open = True
        if self._waiting:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(self._waiting)
            self._waiting.clear()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Add a line if the block ends with an error or an interrupt."""
        try:
            yield
        except BaseException as error:
            self.say(f"stopped: {error or type(error).__name__}")
            raise
