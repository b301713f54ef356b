"""Long commands that are killed at random moments; ``scripts/kill_runs.py`` kills each of them 200 times."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
with mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
    import kill_runs


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the size of parts back, which the program changes."""
    monkeypatch.setattr(kill_runs.parts, "PHOTOS_PER_PART", kill_runs.parts.PHOTOS_PER_PART)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["augment", "bank-memmap", "train"])
def test_nothing_but_the_whole_result_is_left(command: str, tmp_path: Path) -> None:
    runs, faults = kill_runs.kill_often(command, 3, seed=0, folder=tmp_path / "kills")
    assert runs > 0
    assert faults == []
