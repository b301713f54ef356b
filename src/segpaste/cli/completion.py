"""`segpaste completion`: print a script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from typing import Any

from segpaste import cli, extras

_SHELLS = ("bash", "zsh", "fish")
_FILES = ("DATASET", "DIR", "FILE", "FOLDER", "BANK", "PATH", "RECORDS", "TARGET", "NEW")
"""Words of which the metavariables of files and folders are made."""
_EXAMPLE = """\
examples:
  eval "$(segpaste completion bash)"                                          # in ~/.bashrc
  segpaste completion zsh > "${fpath[1]}/_segpaste"
  segpaste completion fish > ~/.config/fish/completions/segpaste.fish
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Print a script with which a shell completes commands, options and files. It needs the package shtab."
    parser = commands.add_parser("completion", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste completion {bash,zsh,fish}"
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"one of {', '.join(_SHELLS)}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    shtab = extras.require("shtab")
    parser = cli.parser_of(cli.COMMANDS)
    for action in _actions(parser):
        if action.choices is None and set(_FILES) & set(str(action.metavar or "").replace(".", "|").split("|")):
            action.complete = shtab.FILE
    print(shtab.complete(parser, args.shell))


def _actions(parser: argparse.ArgumentParser) -> list[Any]:
    """Return the arguments of a parser and of its commands."""
    own: list[Any] = [*parser._actions]
    inner = [
        parser for action in own if isinstance(action, argparse._SubParsersAction) for parser in action.choices.values()
    ]
    return own + [action for parser in inner for action in _actions(parser)]
