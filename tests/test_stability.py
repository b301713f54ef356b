"""The page about stability names every module that users may import, and the pages import from no other."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import segpaste
from test_docs import PAGES, snippets

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "stability.md"
PROMISES = dict(re.findall(r"^\| `(segpaste[\w.]*)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
PUBLIC = sorted(name for name, promise in PROMISES.items() if promise != "private")


def imported(source: str) -> set[tuple[str, str]]:
    """Return the (module, name) pairs of segpaste that Python code imports; the name of a whole module is "*"."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "segpaste":
            found |= {(str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "*") for alias in node.names if alias.name.partition(".")[0] == "segpaste"}
    return found


def is_promised(module: str, name: str) -> bool:
    """Tell whether the table has the module and the module has the name, or the name is such a module."""
    if f"{module}.{name}" in PUBLIC or (module in PUBLIC and name == "*"):
        return True
    return module in PUBLIC and name in importlib.import_module(module).__all__


def test_every_module_without_underscore_is_in_the_table() -> None:
    found = {f"segpaste.{module.name}" for module in pkgutil.iter_modules(segpaste.__path__)}
    assert {name for name in found if not name.startswith("segpaste._")} <= set(PROMISES)


def test_the_table_uses_three_words() -> None:
    assert set(PROMISES.values()) == {"stable", "experimental", "private"}


@pytest.mark.parametrize("name", PUBLIC)
def test_modules_list_their_names(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    assert not [n for n in module.__all__ if not hasattr(module, n)]


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_import_what_is_promised(page: Path) -> None:
    pairs = {pair for body in snippets(page) for pair in imported(body)}
    private = {"segpaste.cli"}  # the command line, called as a command is
    assert not {pair for pair in pairs if pair[0] not in private and not is_promised(*pair)}


def test_the_reference_names_what_is_promised() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    names = [name for name in re.findall(r"^::: ([\w.]+)", text, re.MULTILINE) if name not in PUBLIC]
    assert names
    assert not [name for name in names if not is_promised(*name.rsplit(".", 1))]


def test_a_private_name_is_seen() -> None:
    pairs = imported(
        "from segpaste.augmentation.sources.strategies import draw_placement\nimport segpaste.engine.triton._tiles"
    )
    assert pairs == {
        ("segpaste.augmentation.sources.strategies", "draw_placement"),
        ("segpaste.engine.triton._tiles", "*"),
    }
    assert not any(is_promised(*pair) for pair in pairs)
    assert is_promised("segpaste", "experimental")
    assert is_promised("segpaste.experimental", "draw_placement")
