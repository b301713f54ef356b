"""The options of commands that draw the objects of a bank: which mode balances classes, and its parameter."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from segpaste.cli._arguments import fraction
from segpaste.cli._errors import CommandError

MODES = ("repeat_factor", "instance_aware", "tempered", "class_uniform")
"""Of `segpaste.bank.read.class_draws`, which is not imported to parse."""

THRESHOLD, TEMPERATURE = 1e-3, 0.5
"""The defaults of `segpaste.bank.BankSampler`."""

_USED_BY = {"threshold": ("repeat_factor", "instance_aware"), "temperature": ("tempered",)}


def add_to(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--balance``, ``--threshold`` and ``--temperature``; each is None where it is not given."""
    add = parser.add_argument
    add("--balance", choices=MODES, help=f"{what}, default: repeat_factor")
    add("--threshold", metavar="T", type=fraction, help=f"of the repeat factors, default: {THRESHOLD:g}")
    add(
        "--temperature",
        metavar="T",
        type=_from_zero_to_one,
        help=f"of tempered, from 0, as frequent as the objects are, to 1, all classes alike; default: {TEMPERATURE:g}",
    )


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments ``mode``, ``threshold`` and ``temperature`` of a sampler that were given.

    Raises:
        CommandError: a parameter is given that the mode does not have.
    """
    mode = args.balance or MODES[0]
    for name, modes in _USED_BY.items():
        if getattr(args, name) is not None and mode not in modes:
            raise CommandError(
                f"--{name}: expected it with --balance {' or '.join(modes)}, got it with {mode}; change one of them"
            )
    given = {"mode": args.balance, "threshold": args.threshold, "temperature": args.temperature}
    return {name: value for name, value in given.items() if value is not None}


def _from_zero_to_one(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
