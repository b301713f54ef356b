"""What the commands' options share: a parser whose errors are one line, number types, ``KEY=VALUE`` words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from segpaste.cli._errors import CommandError

MAX_SEED = (1 << 64) - 1
BANK_FORMATS = ("memmap", "lmdb", "webdataset")  # of `segpaste.bank.format`, whose import takes seconds


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` that raises `CommandError` and shows an example at the end of its help."""

    def __init__(self, prog: str, description: str = "", example: str = "", **options: Any) -> None:
        super().__init__(
            prog,
            description=description,
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )
        self.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show where an error arose")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and exiting."""
        raise CommandError(f"{message}; see {self.prog} --help")


class Version(argparse.Action):
    """Print the version and stop; it is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print and exit."""
        from segpaste import __version__

        print(f"segpaste {__version__}")
        parser.exit()


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """The type of an option that is an integer from ``low`` to ``high``, both included."""
    wanted = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    def convert(text: str) -> int:
        if re.fullmatch(r"[+-]?\d+", text) is None or int(text) < low or (high is not None and int(text) > high):
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return int(text)

    return convert


def fraction(text: str) -> float:
    """The type of an option that is a number above 0, up to 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, up to 1, got {text!r}")
    return value


def overrides(words: Sequence[str]) -> dict[str, str]:
    """The words ``KEY=VALUE`` as a mapping.

    Raises:
        CommandError: a word has another form, or a key comes twice: as itself, or inside a table that is given too.
    """
    found: dict[str, str] = {}
    for word in words:
        match = re.fullmatch(r"([A-Za-z_][\w.]*)=(.*)", word, re.DOTALL)
        if match is None:
            raise CommandError(f"expected a known option, or KEY=VALUE for the configuration, got {word!r}; see --help")
        if match[1] in found:
            raise CommandError(f"expected {match[1]}=... once, got it twice; remove one")
        found[match[1]] = match[2]
    for key in found:
        groups = key.split(".")
        for table in (".".join(groups[:i]) for i in range(1, len(groups))):
            if table in found:
                raise CommandError(f"expected {table}=... or {key}=..., got both; write one of them")
    return found
