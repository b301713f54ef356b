"""The example of the page on tuning, for real: its dataset, its trainer, and its command with short runs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "tuning.md").read_text(encoding="utf-8")


def fence(kind: str) -> str:
    """Return the only code block of a kind."""
    (body,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(body)


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(sys.modules["segpaste"].__file__ or "").parents[1]))
    exec(fence("python"), {})
    Path("train.py").write_text(fence("py"))
    lines = PAGE.replace("\\\n", " ").splitlines()
    (line,) = (line for line in lines if line.startswith("segpaste tune scenes.json"))
    words = shlex.split(line)[1:]
    where = words.index("--trainer") + 1
    words[where] = words[where].replace("python ", f"{sys.executable} ", 1) + " --steps 10"
    assert main([*words, "--runs", "12"]) == 0
    assert "mean" in capsys.readouterr().out
    found = json.loads(Path("tuning/tune.json").read_text())
    assert len(found["runs"]) == 12
    assert set(found["classes"]) == {"plain ball", "striped cube", "checkered tower", "marbled slab"}
    assert BatchCopyPasteConfig.load("tuning/tuned.yaml").source.kind == "bank"
    scores = [run["scores"] for run in found["runs"] if run["seed"] == 1]
    assert scores[0] != scores[1]
