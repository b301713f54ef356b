"""CONTRIBUTING: its drawing shows the imports of the package, and the files that its recipes name exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from script_modules import script
from test_import_arrows import PACKAGE, ROOMS, plant

ROOT = Path(__file__).parents[1]
MADE = {"demo_out/", "dist/", "meta.json"}
"""Paths that programs write; all others are in the repository."""
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def missing_files(text: str) -> list[str]:
    """The paths in backquotes that are neither under the root, nor in the package, nor the end of a file's path."""
    named = sorted(set(re.findall(r"`([\w./-]+(?:/|\.(?:py|md|hpp|cpp|json|toml|txt|yml)))`", text)))
    ends = [f"/{path.relative_to(ROOT)}" for top in ("src", "tests") for path in (ROOT / top).rglob("*.*")]
    found = {name for name in named if (ROOT / name).exists() or (PACKAGE / name).exists()}
    return [n for n in named if n not in found and not any(end.endswith(f"/{n}") for end in ends)]


def test_named_files_exist() -> None:
    assert len(re.findall(r"`[\w./-]+\.py`", TEXT)) > 40
    assert set(missing_files(TEXT)) <= MADE


def test_a_missing_file_is_noticed() -> None:
    assert missing_files("`engine/schema.py`, `records.hpp`, `engine/gone.py`, `utils/`") == [
        "engine/gone.py",
        "utils/",
    ]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("draw_house")


def test_the_drawing_shows_the_imports(program: ModuleType) -> None:
    assert program.main(["--check"]) == 0, "run python scripts/draw_house.py"


def test_a_new_arrow_or_module_is_noticed(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "segpaste"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    monkeypatch.setattr(program, "PACKAGE", copy)
    monkeypatch.setattr(program, "PICTURE", tmp_path / "house.svg")
    assert program.main(["--check"]) == 1
    changes = {"samplers/nxm.py": "from segpaste.types import DenseSample", "bank/new.py": '"""One module more."""'}
    for file, text in changes.items():
        assert program.main([]) == 0
        with (copy / file).open("a", encoding="utf-8") as module:
            module.write(f"\n{text}\n")
        assert program.main(["--check"]) == 1


def test_every_room_is_drawn(program: ModuleType) -> None:
    svg = program.drawing(program.read_house(PACKAGE))
    assert [room for room in sorted(ROOMS) if f">{room}</text>" not in svg] == []


def test_arrows_go_down_and_none_is_drawn_twice(program: ModuleType, tmp_path: Path) -> None:
    files = {
        "seeding.py": '"""Seeds."""',
        "types/__init__.py": '"""Samples."""\nfrom segpaste.seeding import seed',
        "engine/__init__.py": '"""Pastes."""\nfrom segpaste import seeding, types',
        "engine/select.py": "from segpaste.types import dense",
        "viz/__init__.py": '"""Pictures."""\nfrom segpaste.seeding import seed',
        "cli/__init__.py": '"""Commands."""\nfrom segpaste import engine, viz',
        "extras.py": '"""Hints."""',
    }
    house = program.read_house(plant(tmp_path, files))
    assert house.arrows[("engine", "types")] == 2
    assert house.sizes["engine"] == 2
    kept = program.without_detours({pair: n for pair, n in house.arrows.items() if pair[0] != "cli"})
    assert set(kept) == {("engine", "types"), ("types", "seeding"), ("viz", "seeding")}
    rooms = ["engine", "seeding", "types", "viz"]
    layers = program.layered(rooms, kept)
    assert [sorted(layer) for layer in layers] == [["engine"], ["types", "viz"], ["seeding"]]
    assert program.drawing(house) == program.drawing(house)


def test_long_arrows_get_a_lane_of_their_own(program: ModuleType) -> None:
    arrows = {("a", "b"): 1, ("b", "c"): 1, ("d", "c"): 1, ("a", "e"): 1, ("e", "f"): 1, ("f", "c"): 1}
    layers = program.layered([*"abcdef"], arrows)
    assert ("a", "b", 2) in {node for layer in layers for node in layer}


def test_texts_fit_their_box(program: ModuleType) -> None:
    for text in program.read_house(PACKAGE).texts.values():
        lines = program.shortened(text)
        assert 0 < len(lines) <= program.TEXT_LINES
        assert max(map(len, lines)) <= program.TEXT_CHARS
    assert program.shortened(f"Short, {'long ' * 40}.") == ["Short"]


class TestWorkflows:
    """Files of a public CI, which run what anybody can run."""

    def steps(self, name: str) -> list[str]:
        found = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
        (job,) = found["jobs"].values()
        return [step["run"] for step in job["steps"] if "run" in step]

    def test_every_change_runs_the_suite(self) -> None:
        assert self.steps("ci.yml") == [".ci/run"]
        assert os.access(ROOT / ".ci" / "run", os.X_OK)

    def test_the_gpu_script_takes_its_arguments(self) -> None:
        target, command = self.steps("gpu.yml")
        assert target == "make .venv/.dev"
        script, *arguments = shlex.split(command.replace("$PARTS", "right fast why"))
        usage = subprocess.run([ROOT / script, "wrong"], capture_output=True, text=True, check=False)
        assert usage.returncode == 2
        assert {word for word in arguments if word.startswith("--")} <= set(re.findall(r"--\w+", usage.stderr))
        assert {"right", "fast", "why"} <= set(arguments)
