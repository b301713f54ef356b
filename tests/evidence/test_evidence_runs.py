"""Runs are files: what exists is not run again, and a gathered folder holds the same runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from evidence.runs import RunFolder, digest, run_missing

WANTED = [{"arm": "a", "seed": seed} for seed in range(3)]


def touch(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Note that it ran, in a file."""
    with Path(settings["log"]).open("a") as log:
        log.write(f"{settings['seed']}\n")
    return {"twice": 2 * settings["seed"]}


def test_digest_depends_on_values_alone() -> None:
    assert digest({"a": 1, "b": 2.5}) == digest({"b": 2.5, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


class TestRunFolder:
    def test_done_runs_are_not_missing(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path / "runs")
        assert folder.missing(WANTED) == WANTED
        folder.write(WANTED[1], {"iou": 0.5})
        assert folder.missing(WANTED) == [WANTED[0], WANTED[2]]
        run = folder.find(WANTED[1])
        assert run is not None
        assert run.found == {"iou": 0.5}
        assert folder.find(WANTED[0]) is None

    def test_equal_settings_are_one_run(self, tmp_path: Path) -> None:
        assert RunFolder(tmp_path).missing([WANTED[0], dict(WANTED[0])]) == [WANTED[0]]

    def test_gathered(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path)
        for settings in WANTED[:2]:
            folder.write(settings, {"iou": settings["seed"]})
        before = list(folder)
        folder.gather()
        assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]
        assert list(folder) == before
        folder.write(WANTED[2], {"iou": 2})  # resumed after it was gathered
        assert folder.missing(WANTED) == []
        assert len(folder.gather().read_text().splitlines()) == 3
        assert not list(tmp_path.glob("*.json"))

    def test_broken_file_names_itself(self, tmp_path: Path) -> None:
        (tmp_path / "0123456789abcdef.json").write_text("{")
        with pytest.raises(json.JSONDecodeError):
            list(RunFolder(tmp_path))


def test_run_missing_runs_each_once(tmp_path: Path) -> None:
    folder, log = RunFolder(tmp_path / "runs"), tmp_path / "log"
    wanted = [{**settings, "log": str(log)} for settings in WANTED]
    folder.write(wanted[0], {"twice": 0})
    for _ in range(2):
        run_missing(folder, wanted, f"{__name__}:touch", processes=1)
    assert sorted(log.read_text().split()) == ["1", "2"]
    assert sorted(run.found["twice"] for run in folder) == [0, 2, 4]
