"""The list of planted faults names lines and test files that are there, and the program tells what the tests find."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
with mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
    import planted_faults

MOST_MISSING_FRAC = 0.05
"""Fraction of the lines that may have been rewritten since; such a fault is written anew, or removed."""


def test_the_lines_are_there_once() -> None:
    texts = [path.read_text(encoding="utf-8").splitlines() for path in planted_faults.sources(ROOT)]
    lines = [line.strip() for text in texts for line in text]
    faults = planted_faults.read_faults()
    missing = [fault.old for fault in faults if lines.count(fault.old) != 1]
    assert len(missing) <= MOST_MISSING_FRAC * len(faults), missing
    assert len(faults) >= 100
    assert len({fault.old for fault in faults}) == len(faults)


def test_each_fault_changes_its_line_and_names_test_files() -> None:
    for fault in planted_faults.read_faults():
        assert fault.old.strip() == fault.old != fault.new
        assert 1 <= len(fault.tests) <= 5, fault.old
        assert all((ROOT / name).is_file() for name in fault.tests), fault.tests


def test_every_room_has_faults() -> None:
    named = {fault.room for fault in planted_faults.read_faults()}
    other_names = {"datasets": "readers", "experimental": "integrations", "engine": "native"}
    other_names |= {"targets": "integrations"}
    rooms = {path.name for path in (ROOT / "src" / "segpaste").iterdir() if (path / "__init__.py").is_file()}
    assert {other_names.get(room, room) for room in rooms} <= named


SOURCE = "def double(x):\n    y = x\n    return 2 * y\n"
TEST = "import calc\n\ndef test_it():\n    assert calc.double(1) == 2\n    assert {}\n"
FAULTS = """
[[fault]]
room = "calc"
old = "return 2 * y"
new = "return 3 * y"
tests = ["tests/test_calc.py"]
[[fault]]
room = "calc"
old = "y = x"
new = "y = abs(x)"
tests = ["tests/test_calc.py"]
[[fault]]
room = "calc"
old = "return y"
new = "return 0"
tests = ["tests/test_calc.py"]
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "world"
    for name, text in {"src/calc.py": SOURCE, "tests/test_calc.py": TEST.format(True), "faults.toml": FAULTS}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=root, check=True)
    monkeypatch.setattr(planted_faults, "ROOT", root)
    monkeypatch.setattr(planted_faults, "LIST", root / "faults.toml")
    return root


def results_of(file: Path) -> dict[str, str]:
    return {known["old"]: known["result"] for known in json.loads(file.read_text()).values()}


def test_found_not_found_and_not_applied(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.json"
    words = ["--results", str(file)]
    assert planted_faults.main(words) == 1
    assert results_of(file) == {"return 2 * y": "found", "y = x": "not found", "return y": "not applied"}
    assert (world / "src" / "calc.py").read_text() == SOURCE
    capsys.readouterr()
    assert planted_faults.main(words) == 1
    assert capsys.readouterr().out == "3 of 3 run, 2 not found\n"
    (world / "tests" / "test_calc.py").write_text(TEST.format("calc.double(-1) == -2"))
    monkeypatch.setattr(planted_faults, "run", mock.Mock(wraps=planted_faults.run))
    assert planted_faults.main([*words, "--again", "--only", "y = x"]) == 0
    assert planted_faults.run.call_count == 1  # type: ignore[attr-defined]
    assert results_of(file)["y = x"] == "found"


def test_a_test_that_fails_without_a_fault_finds_none(world: Path, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    (world / "tests" / "test_calc.py").write_text(TEST.format(False))
    assert planted_faults.main(["--results", str(file), "--only", "return 2"]) == 0
    assert planted_faults.main(["--results", str(file), "--only", "return 2", "--baseline"]) == 1
    assert results_of(file) == {"return 2 * y": "cannot run"}


def test_a_test_that_hangs_is_stopped(world: Path, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    (world / "tests" / "test_calc.py").write_text("import time\ntime.sleep(60)\n")
    assert planted_faults.main(["--results", str(file), "--only", "y = x", "--limit", "1"]) == 1
    assert results_of(file) == {"y = x": "too slow"}
