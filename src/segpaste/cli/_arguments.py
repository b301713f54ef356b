"""Shared parts of the parsers: a parser with one-line errors, number types, options of several commands."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from segpaste.augmenting.options import (
    DEFAULT_MODE,
    DEFAULT_TEMPERATURE,
    MOST_SHARDS,
    TASKS,
    AugmentOptions,
    InputOptions,
    PasteOptions,
    expected,
    flag_of,
)
from segpaste.cli._errors import CommandError

BANK_FORMATS = ("memmap", "lmdb", "webdataset")  # the same as in `segpaste.bank`, whose import takes seconds
_OVERRIDE = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
_REWORDED = [
    (re.compile(r"^the following arguments are required: (.*)$"), r"expected \1, got none"),
    (re.compile(r"^one of the arguments (\S+) (\S+) is required$"), r"expected \1 or \2, got none"),
    (re.compile(r"expected (?:one|at least one) argument$"), "expected a value, got none"),
    (re.compile(r"not allowed with argument (\S+)$"), r"expected no \1 beside it, got both; leave one out"),
]
"""Messages of argparse, and what they are instead."""
_DESTS = {"images_dir": "images", "format": "from_", "image_format": "format"}
"""Names in parsed arguments of fields that are called otherwise."""
_Options = TypeVar("_Options", bound=InputOptions)


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` that raises `CommandError` and shows an example at the end of its help."""

    def __init__(self, prog: str, *, example: str = "", **options: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, epilog=example, formatter_class=layout, allow_abbrev=False, **options)
        self.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="print tracebacks")

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; an unknown option is an error that comes before one about a missing option."""
        known = self._option_string_actions
        for word in itertools.takewhile(lambda word: word != "--", args or () if self._subparsers is None else ()):
            name = word.partition("=")[0]
            if name.startswith("--") and name not in known:
                shown = [option for option, action in known.items() if action.help != argparse.SUPPRESS]
                self.error(f"expected a known option, got {name!r}{nearest(name, shown)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise `argparse.ArgumentError` for a value that is none of the choices."""
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            text = f"expected one of {', '.join(names)}, got {value!r}{nearest(str(value), names)}"
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and exiting, with the words of all other errors."""
        for pattern, text in _REWORDED:
            message = pattern.sub(text, message)
        raise CommandError(f"{message}; see {self.prog} --help")


def nearest(word: str, names: Iterable[str]) -> str:
    """Return text that names the nearest of some names, empty if none is near."""
    near = difflib.get_close_matches(word, [*names], 1)
    return f"; the nearest is {near[0]!r}" if near else ""


def options_of(kind: type[_Options], args: argparse.Namespace) -> _Options:
    """Return the options of a command as a record; what the command does not have has its default."""
    found = {entry.name: _DESTS.get(entry.name, entry.name) for entry in fields(kind)}
    return kind(**{name: getattr(args, dest) for name, dest in found.items() if hasattr(args, dest)})


def add_field(parser: Any, kind: type[InputOptions], name: str, text: str, **options: Any) -> None:
    """Add the option of a field, with its default and its limits."""
    entry = next(entry for entry in fields(kind) if entry.name == name)
    limits = entry.metadata
    if "choices" in limits:
        options["choices"] = limits["choices"]
    elif "most" in limits:
        options["type"] = number(limits["most"], above_zero=limits.get("is_above_zero", False))
    else:
        options["type"] = integer(limits["low"], limits.get("high"))
    dest = _DESTS.get(name, name)
    parser.add_argument(flag_of(name), dest=dest, default=entry.default, help=text, **options)


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return the type of an option that is an integer from ``low`` to ``high``, both included."""
    wanted = expected({"low": low, "high": high})

    def convert(text: str) -> int:
        if re.fullmatch(r"[+-]?\d+", text) is None or int(text) < low or (high is not None and int(text) > high):
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return int(text)

    return convert


def number(high: float, *, above_zero: bool = False) -> Callable[[str], float]:
    """Return the type of an option that is a number from 0, with ``above_zero`` above 0, up to ``high``."""
    wanted = expected({"most": high, "is_above_zero": above_zero})

    def convert(text: str) -> float:
        with contextlib.suppress(ValueError):
            value = float(text)
            if 0 < value <= high or (value == 0 and not above_zero):
                return value
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")

    return convert


def shard(text: str) -> tuple[int, int]:
    """Convert the option ``I/N``, shard I of N, counted from 1."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, total = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= total <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"expected I/N, shard I of N from 1/N to N/N, got {text!r}")
    return number, total


def sides(low: int, high: int) -> Callable[[str], tuple[int, int] | Literal["own"]]:
    """Return the type of an option that is a size: ``WxH``, the side of a square, or ``own``; as (H, W) or ``own``."""
    wanted = f"WxH or PX, each an integer from {low} to {high}, or own"

    def convert(text: str) -> tuple[int, int] | Literal["own"]:
        if text == "own":
            return "own"
        match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
        width, height = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not low <= min(width, height) <= max(width, height) <= high:
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return height, width

    return convert


def add_photos(parser: argparse.ArgumentParser, tasks: Sequence[str] = TASKS) -> None:
    """Add the options that name the files of a dataset other than its annotations."""
    add_files(parser)
    add_split(parser, tasks)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the folders of an annotation file."""
    parser.add_argument("--images", metavar="DIR", type=Path, help="folder of the images")
    text = "folder of the panoptic PNG files, default: the folder named like the JSON file"
    parser.add_argument("--panoptic-dir", metavar="DIR", type=Path, help=text)


def add_new_dataset(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a new dataset, and the options that say how the given one is read."""
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the new dataset's folder")
    add_files(parser)
    add_from(parser)


def add_end(parser: argparse.ArgumentParser, strict: str) -> None:
    """Add what becomes known at the end: ``--verify``, ``--strict`` (with its help), ``--json`` and ``--progress``."""
    add_verify(parser)
    parser.add_argument("--strict", action="store_true", help=strict)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_progress(parser)


def expect_dataset(command: str, dataset: str) -> None:
    """Raise `CommandError` for synthetic scenes, which are in no files."""
    if dataset == "scenes":
        raise CommandError(f"{command}: expected a dataset, got scenes; segpaste augment writes them")


def add_repeated_ids(parser: argparse.ArgumentParser, told: str) -> None:
    """Add ``--repeated-ids``; ``told`` says what is told of these annotations."""
    text = f"for annotations of COCO that have no id, or that of another one: renumber them or leave them out; {told}"
    parser.add_argument("--repeated-ids", choices=("renumber", "drop"), help=f"{text}; default: an error")


def add_class_attribute(parser: argparse.ArgumentParser) -> None:
    """Add ``--class-attribute``."""
    text = "for files of VIA: the attribute of regions that is their class, default: the only one"
    parser.add_argument("--class-attribute", metavar="NAME", help=text)


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add ``--progress``."""
    text = "bar (default): a bar if stderr is a terminal; json: lines of JSON on stderr; off: nothing"
    parser.add_argument("--progress", choices=("bar", "json", "off"), default="bar", help=text)


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add ``--verify``."""
    text = (
        "read the written files again and compare them before the folder gets its name: all labels and checksums of "
        "images, and the pixels of some images (sample) or of all (full); default: sample"
    )
    add_field(parser, AugmentOptions, "verify", text)


def add_depth_fill(parser: argparse.ArgumentParser) -> None:
    """Add ``--depth-fill``."""
    text = "give holes in the depth of objects their nearest valid depth; they stay invalid, see depth_order"
    parser.add_argument("--depth-fill", action="store_true", help=text)


def add_backgrounds(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a folder of images without objects."""
    text = "folder of images without objects, to paste into as well; with --bank also without a dataset"
    parser.add_argument("--backgrounds", metavar="FOLDER", type=Path, help=text)


def add_split(parser: argparse.ArgumentParser, tasks: Sequence[str] = TASKS) -> None:
    """Add the options that select a part of a dataset in a folder."""
    text = "split of a folder or data YAML, such as valid; default: the training split"
    parser.add_argument("--split", metavar="NAME", help=text)
    parser.add_argument("--task", choices=tasks, help="task of the labels, default: recognised from them")
    add_from(parser)


def add_from(parser: argparse.ArgumentParser) -> None:
    """Add ``--from``."""
    text = "format of the dataset, default: recognised from its files; the documentation lists the formats"
    parser.add_argument("--from", dest="from_", metavar="FORMAT", help=text)


def add_balance(parser: argparse.ArgumentParser, what: str, *, pastes: bool = False) -> None:
    """Add ``--balance``, ``--threshold`` and ``--temperature``, which are None by default.

    With ``pastes``, the help also has the default of a command without ``--bank``, see
    `segpaste.augmenting.draws.default_balance`.
    """
    default = f"default: {DEFAULT_MODE}"
    if pastes:
        default += (
            " with --bank; without it natural (objects are equally likely), or tempered if placement.class_temperature "
            "is above 0"
        )
    add_field(parser, PasteOptions, "balance", f"{what}, {default}")
    text = "threshold of the repeat factors, default: the mean frequency of the classes"
    add_field(parser, PasteOptions, "threshold", text, metavar="T")
    text = "for tempered, from 0 (objects are equally likely) to 1 (classes are equally likely); default: "
    add_field(parser, PasteOptions, "temperature", f"{text}{DEFAULT_TEMPERATURE:g}", metavar="T")


def is_override(word: str | None) -> bool:
    """Return whether an argument in the place of a dataset is ``KEY=VALUE`` and not a file."""
    return word is not None and _OVERRIDE.fullmatch(word) is not None and not Path(word).exists()


def overrides(words: Sequence[str], command: str = "") -> dict[str, str]:
    """Return arguments ``KEY=VALUE`` of a command as a mapping.

    Raises:
        CommandError: an argument has another form, or a key is given twice, directly or inside a table.
    """
    found: dict[str, str] = {}
    told = f"; see segpaste {command} --help" if command else ""
    for word in words:
        match = _OVERRIDE.fullmatch(word)
        if match is None:
            raise CommandError(f"expected a known option, or KEY=VALUE for the configuration, got {word!r}{told}")
        if match[1] in found:
            raise CommandError(f"expected {match[1]}=... once, got it twice; remove one")
        found[match[1]] = match[2]
    for key in found:
        groups = key.split(".")
        for table in (".".join(groups[:i]) for i in range(1, len(groups))):
            if table in found:
                raise CommandError(f"expected {table}=... or {key}=..., got both; write one of them")
    return found
