"""Write docs/reference/command-line.md, the options of all commands, from their parsers; with --check only compare.

python scripts/write_command_line.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from segpaste.cli import COMMANDS, parser_of
from segpaste.workspace import write_whole

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "command-line.md"
HEAD = """\
# Command line

For those who call `segpaste` in a shell: every command with its options. `segpaste COMMAND --help` prints the same.

All commands have `--help`, and `--debug`, which prints the traceback of an error. The exit code is 0; 1 if a check
failed or nothing could be pasted; 2 after one line on stderr for bad input; 130 after an interrupt. Nothing appears
under its final name before it is complete.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for parser in leaves(parser_of(COMMANDS)) for line in section(parser))])


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of commands that have no commands of their own."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for inner in group.choices.values():
            yield from leaves(inner)


def section(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of a command."""
    yield f"## {parser.prog}\n"
    yield f"{parser.description}\n"
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())  # in one line on any terminal
    yield f"```text\n{usage}\n```\n"
    yield "| argument | meaning |\n|---|---|"
    for action in parser._actions:
        if action.help not in (None, argparse.SUPPRESS) and action.dest not in ("help", "debug"):
            yield f"| {_names(parser, action)} | {_escaped(parser._get_formatter()._expand_help(action))} |"
    text, _, examples = (parser.epilog or "").rpartition("example")
    if text.strip():
        yield f"\n{_prose(text)}"
    commands = re.sub(r"^.*?:\n", "", examples, count=1)
    yield f"\n```sh\n{re.sub('^  ', '', commands, flags=re.MULTILINE).strip()}\n```\n"


def _names(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    value = parser._get_formatter()._format_args(action, str(action.metavar or action.dest).upper())
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return f"`{_escaped(value)}`"
    return f"`{_escaped(f'{action.option_strings[-1]} {value}'.strip())}`"


def _prose(text: str) -> str:
    """Return paragraphs; those whose lines are indented stay as they are, as code."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        is_table = any(line.startswith(" ") for line in paragraph.splitlines())
        found.append(f"```text\n{paragraph}\n```" if is_table else _escaped(paragraph))
    return "\n\n".join(found)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is not up to date")
    wanted = page()
    if not parser.parse_args().check:
        write_whole(PAGE, wanted.encode())
    elif PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{PAGE.name} is not what the parsers say: run python scripts/write_command_line.py")


if __name__ == "__main__":
    main()
