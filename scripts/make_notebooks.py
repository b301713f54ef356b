#!/usr/bin/env python3
"""Make a notebook of every example, and the table on the page that lists them.

    python scripts/make_notebooks.py           # examples/notebooks/*.ipynb and docs/examples.md
    python scripts/make_notebooks.py --check   # exit code 1 if these files are not what the examples say

An example is a Python file in the percent format of jupytext: a line ``# %%`` begins a cell of code, and
``# %% [markdown]`` one of text, whose lines are comments. The docstring is the first cell. A notebook has no command
line, so it calls ``parse_args([])``, and it ends by showing the picture. It has no outputs: the same file gives the
same bytes.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "examples.md"
MARK = "<!-- table: written by scripts/make_notebooks.py -->\n"

Cell = tuple[str, str]
"""``code`` or ``markdown``, and the text."""


def example_files() -> list[Path]:
    """Return the examples in the order of their numbers."""
    return sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))


def cells_of(path: Path) -> list[Cell]:
    """Return the cells of an example's notebook."""
    source = path.read_text(encoding="utf-8")
    title, text, _ = parts_of(source)
    made = f"This notebook is made from `{path.parent.name}/{path.name}`; change that file."
    cells = [("markdown", f"# {title.removesuffix('.')}\n\n{text}\n\n{made}")]
    for kind, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n)*)", source, re.MULTILINE):
        if "markdown" in kind:
            cells.append(("markdown", re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip()))
        else:
            cells.append(("code", body.strip().replace("parse_args()", "parse_args([])")))
    return [*cells, ("code", "import PIL.Image\n\nPIL.Image.open(picture)")]


def parts_of(source: str) -> tuple[str, str, list[str]]:
    """Return the first line of an example's docstring, its text, and the commands at its end."""
    title, text, commands = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")
    return title, text, commands.replace("    ", "").splitlines()


def notebook(cells: Sequence[Cell]) -> str:
    """Return cells as a notebook of version 4.5, see https://nbformat.readthedocs.io."""
    rows: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells):
        row = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
        rows.append({**row, "execution_count": None, "outputs": []} if kind == "code" else row)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    content = {"cells": rows, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def table() -> str:
    """Return the rows of the page: an example, what it shows, and arguments that it takes."""
    rows = ["| `examples/` | shows how to | arguments, for example |", "|---|---|---|"]
    for path in example_files():
        title, _, commands = parts_of(path.read_text(encoding="utf-8"))
        own = f"python examples/{path.name}"
        arguments = [f"`{command.removeprefix(own).strip()}`" for command in commands if command != own]
        shows = title[0].lower() + title[1:].removesuffix(".")
        rows.append(f"| `{path.name}` | {shows} | {', '.join(arguments)} |")
    return "\n".join(rows) + "\n"


def made_files() -> Iterator[tuple[Path, str]]:
    """Yield every file to write, with its text."""
    for path in example_files():
        yield EXAMPLES / "notebooks" / f"{path.stem}.ipynb", notebook(cells_of(path))
    before, _, after = PAGE.read_text(encoding="utf-8").partition(MARK)
    yield PAGE, before + MARK + "\n" + table() + re.sub(r"^\n(\|.*\n)*", "", after)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file is out of date")
    args = parser.parse_args(argv)
    files = dict(made_files())
    stray = set((EXAMPLES / "notebooks").glob("*")) - files.keys()
    if args.check:
        old = sorted(p.name for p, text in files.items() if not p.is_file() or p.read_text(encoding="utf-8") != text)
        old += sorted(path.name for path in stray)
        if old:
            print(f"not what the examples say: {', '.join(old)}; run python scripts/make_notebooks.py")
        return int(bool(old))
    for path in stray:
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
