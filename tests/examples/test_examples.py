"""The examples run, their notebooks and their page are those of the files, and they use public names only."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from example_runs import EXAMPLES, IN_SUITES, PRINTS, expect_example_runs
from script_modules import script
from test_stability import imported, is_promised

ROOT = EXAMPLES.parent
FILES = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("make_notebooks")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRINTS.keys() - IN_SUITES.keys()))
def test_runs(name: str, tmp_path: Path) -> None:
    expect_example_runs(name, tmp_path)


def test_every_example_is_run() -> None:
    assert [path.stem for path in FILES] == sorted(PRINTS)
    for name, suite in IN_SUITES.items():
        text = (ROOT / "tests" / "trainers" / f"checks_{suite}.py").read_text(encoding="utf-8")
        assert f'expect_example_runs("{name}", ' in text


def test_numbers_go_up_from_1() -> None:
    assert [int(path.name[:2]) for path in FILES] == list(range(1, len(FILES) + 1))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_docstring_says_how_to_run_it(program: ModuleType, path: Path) -> None:
    title, text, commands = program.parts_of(path.read_text(encoding="utf-8"))
    assert re.fullmatch(r"[A-Z][^.]*(\.[a-z]+[^.]*)?\.", title)
    assert len(text) > 100
    assert commands[0] == f"python examples/{path.name}"
    assert all(command.startswith(commands[0]) for command in commands)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_what_is_promised(path: Path) -> None:
    pairs = imported(path.read_text(encoding="utf-8"))
    assert [pair for pair in sorted(pairs) if not is_promised(*pair)] == []


def test_notebooks_and_page_are_those_of_the_files(program: ModuleType) -> None:
    assert program.main(["--check"]) == 0, "run python scripts/make_notebooks.py"


@pytest.fixture
def copied(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples and of their page, which the program works on."""
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(program.PAGE, tmp_path / "examples.md")
    monkeypatch.setattr(program, "EXAMPLES", folder)
    monkeypatch.setattr(program, "PAGE", tmp_path / "examples.md")
    return folder


@pytest.mark.parametrize("change", ["text", "code", "a new file", "a file less"])
def test_a_change_is_noticed_and_made_good(program: ModuleType, copied: Path, change: str) -> None:
    first = copied / "01_first_paste.py"
    text = first.read_text(encoding="utf-8")
    assert program.main(["--check"]) == 0
    if change == "text":
        first.write_text(text.replace("# ## A batch", "# ## The batch"), encoding="utf-8")
    elif change == "code":
        first.write_text(text.replace("seed=0", "seed=1"), encoding="utf-8")
    elif change == "a new file":
        shutil.copy(first, copied / "99_new.py")
    else:
        first.unlink()
    assert program.main(["--check"]) == 1
    assert program.main([]) == 0
    assert program.main(["--check"]) == 0


def test_cells_are_those_of_the_file(program: ModuleType, copied: Path) -> None:
    file = copied / "50_small.py"
    docstring = '"""Show a thing.\n\nIn some words.\n\n    python examples/50_small.py\n"""\n'
    file.write_text(
        docstring
        + "\n# %%\nargs = parser.parse_args()\n\n# %% [markdown]\n# ## Part\n#\n# Text.\n\n# %%\n\n\nx = 1  # %%\n"
    )
    assert program.cells_of(file)[:-1] == [
        (
            "markdown",
            "# Show a thing\n\nIn some words.\n\nThis notebook is made from `examples/50_small.py`; change that file.",
        ),
        ("code", "args = parser.parse_args([])"),
        ("markdown", "## Part\n\nText."),
        ("code", "x = 1  # %%"),
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_notebooks_are_well_formed(path: Path) -> None:
    """As far as the schema of version 4.5 goes: cells with ids of their own, code without outputs."""
    content = json.loads((EXAMPLES / "notebooks" / f"{path.stem}.ipynb").read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in content["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in ids)
    for cell in content["cells"]:
        wanted = {"cell_type", "id", "metadata", "source"}
        wanted |= {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert cell.keys() == wanted
        assert cell["source"]
        assert not cell.get("outputs")


def test_a_notebook_runs_cell_by_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of the process are not the example's, as in a kernel; the last cell is the picture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kernel", "-f", "connection.json"])
    content = json.loads((EXAMPLES / "notebooks" / "01_first_paste.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    sources = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    for source in sources[:-1]:
        exec(source, names)
    imports, expression = sources[-1].split("\n\n")
    exec(imports, names)
    assert isinstance(eval(expression, names), Image.Image)
    assert (tmp_path / "example_out" / "01_first_paste.png").is_file()
