"""The command line, with a module for each command.

A command is a module with two functions. `add_to` adds its parser; `run` does the work. If it fails, it raises a
ValueError, such as CommandError or an error of the library, or an OSError; `_errors.reported` prints it as one line.

Torch and modules that need it are imported when a command runs, so `--help` and a mistyped option answer at once. From
Python call the library instead; the commands are thin.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import NoReturn

from segpaste._version import __version__
from segpaste.cli import _arguments, _errors, _printed, _process

COMMANDS = {
    "demo": "show what a paste does",
    "augment": "write an augmented dataset",
    "preview": "try the options on a web page",
    "convert": "change the format",
    "split": "divide a dataset into train and val",
    "check": "check a dataset",
    "bank": "banks of objects on disk",
    "tune": "find out whether pasting helps",
    "train": "train an attribute encoder",
    "score": "likelihood ratios of pairs",
    "stats": "count classes",
    "replay": "recreate augmented images",
    "bench": "measure on this machine",
    "doctor": "check this installation",
    "completion": "complete words in a shell",
}
"""Commands, and what they do in a few words; only the module of the command that runs is imported."""
_DESCRIPTION = "Copy-paste augmentation for segmentation datasets, with labels that stay correct for every pixel."
_EXAMPLE = """\
example:
  segpaste demo --out demo_out
  segpaste preview instances.json --images photos
  segpaste augment instances.json --images photos --out augmented --num 1000 --seed 1
  segpaste check instances.json --images photos
  segpaste convert data.yaml --to coco --out coco
  segpaste split coco train=0.8,val=0.2 --out parts
  segpaste bank build instances.json --images photos --out objects
  segpaste stats objects
  segpaste tune instances.json --images photos --trainer 'python train.py {config} {train} {val} {seed} {out}'
  segpaste train train.csv validation.csv --test test.csv --out encoder
  segpaste score trials.csv vectors.csv --model encoder --out scores.csv
  segpaste replay augmented --dataset instances.json --images photos --check augmented
  segpaste bench --quick
  segpaste doctor
"""


def entry() -> NoReturn:
    """Run the command of this process, and end the process with its exit code."""
    _process.run_alone(main)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after ``segpaste``; by default those of the process.

    Returns:
        The exit code: 0; 1 if a check failed; 2 after one line on stderr for bad input; 130 for an interrupt (SIGINT,
        SIGTERM).
    """
    words = list(sys.argv[1:] if argv is None else argv)
    is_first = _command(words) != "train" or os.environ.get("LOCAL_RANK", "0") == "0"  # of torchrun's processes here
    with _errors.reported("--debug" in words, is_first) as outcome:
        args = parse(words)
        with _printed.progress_style(getattr(args, "progress", "bar")):
            args.run(args)
        print(end="", flush=True)  # so that output that cannot be written is an error, too
    return outcome.exit_code


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse arguments to a namespace: ``run``, the command's function, ``overrides``, and the command's own options.

    Raises:
        CommandError: an unknown command or option, a missing one, or a bad value.
    """
    named = _command(words)
    parser = parser_of([named])
    if named and named not in COMMANDS:
        parser.error(f"expected a command, got {named!r}{_arguments.nearest(named, COMMANDS)}")
    args, others = parser.parse_known_args(words)
    if args.takes_overrides and _arguments.is_override(getattr(args, "dataset", None)):
        args.dataset, others = None, [args.dataset, *others]
    if others and not args.takes_overrides:
        wanted, got = "a known option", repr(others[0])
        if _arguments.is_override(others[0]):
            wanted, got = "options only", f"{others[0].partition('=')[0]}=..."
        raise _errors.CommandError(f"expected {wanted}, got {got}; see segpaste {args.command} --help")
    args.overrides = _arguments.overrides(others, args.command)
    return args


def parser_of(names: Collection[str]) -> _arguments.Parser:
    """Return the parser, with the options of these commands; of the others it knows the names."""
    parser = _arguments.Parser("segpaste", description=_DESCRIPTION, example=_EXAMPLE)
    parser.add_argument("--version", action="version", version=f"segpaste {__version__}", help="print the version")
    parser.set_defaults(takes_overrides=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for name, summary in COMMANDS.items():
        if name in names:
            import_module(f"segpaste.cli.{name}").add_to(commands, summary)
        else:
            commands.add_parser(name, help=summary)
    return parser


def _command(words: Sequence[str]) -> str:
    """Return the command of some arguments; empty without one."""
    return next((word for word in words if not word.startswith("-")), "")
