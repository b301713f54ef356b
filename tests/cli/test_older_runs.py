"""Unfinished runs of an earlier version resume with their recorded options, or say which option is not there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from on_disk import tree
from segpaste.cli import main

KEPT = Path(__file__).parents[1] / "golden" / "kept"
AUGMENT = ["--num", "10", "--seed", "2", "--gallery", "0", "min_area_px=4", "placement.grouping=instance"]
VERSION = json.loads((KEPT / "augmented.partial" / "run.json").read_bytes())["segpaste"]

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def resume(tmp_path: Path) -> Callable[..., int]:
    """Return a function that resumes the kept run after a change of its fingerprint."""

    def resume(change: Change = lambda values: None, *words: str, folder: str = "out.partial") -> int:
        shutil.copytree(KEPT / "augmented.partial", tmp_path / folder)
        file = tmp_path / folder / "run.json"
        values = json.loads(file.read_bytes())
        change(values)
        file.write_text(json.dumps(values))
        return main(["augment", str(KEPT / "dataset"), "--out", str(tmp_path / "out"), *AUGMENT, *words])

    return resume


def configs(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["config"] for line in (out / "replay.jsonl").read_text().splitlines()]


def test_finished_images_are_kept(resume: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert resume() == 0
    assert "2 made in this run; 8 were there already" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["placement.hflip_probability", "harmonize.feather_px"])
def test_an_option_whose_default_has_changed(resume: Callable[..., int], tmp_path: Path, key: str) -> None:
    group, name = key.split(".")
    value = {"hflip_probability": 0.25, "feather_px": 2}[name]
    assert resume(lambda values: values.update({key: value})) == 0
    assert configs(tmp_path / "out")[-1][group][name] == value


@pytest.mark.parametrize("key", ["harmonize.feather_px", "--preset", "skipped photos"])
def test_an_option_that_did_not_exist(resume: Callable[..., int], tmp_path: Path, key: str) -> None:
    def change(values: dict[str, Any]) -> None:
        values.pop(key)
        values.setdefault("skipped photos", [])

    assert resume(change) == 0
    assert configs(tmp_path / "out")[-1]["harmonize"]["feather_px"] == 0


def test_objects_at_the_border_before_there_was_an_option(resume: Callable[..., int], tmp_path: Path) -> None:
    assert resume(lambda values: values.pop("source.whole_only")) == 0
    assert [config["source"]["whole_only"] for config in configs(tmp_path / "out")] == [True] * 8 + [False] * 2


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_the_format_of_the_images(resume: Callable[..., int], tmp_path: Path, suffix: str) -> None:
    assert resume(lambda values: values.update({"--format": suffix})) == 0
    names = sorted(path.name for path in (tmp_path / "out" / "images").iterdir())
    assert names[-2:] == [f"000009.{suffix}", f"000010.{suffix}"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("placement.mosaic", 0.3), ("mosaic.prob", 0.3), ("--zoom", 2), ("placement.partial", "cut")],
)
def test_an_option_that_is_no_longer_there(
    resume: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any
) -> None:
    assert resume(lambda values: values.update({key: value})) == 2
    error = capsys.readouterr().err
    assert VERSION in error
    assert key in error
    assert f"delete {tmp_path / 'out.partial'}, or choose another --out" in error
    assert len(list((tmp_path / "out.partial" / "files" / "images").iterdir())) == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["placement.layers=2"], "placement.layers 1 there, 2 now"),
        (["--seed", "3"], "--seed 2 there, 3 now"),
        (["--bank", str(KEPT / "bank")], "source.kind"),
    ],
)
def test_an_option_that_the_user_changes(
    resume: Callable[..., int], capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert resume(lambda values: None, *words) == 2
    assert said in capsys.readouterr().err


def test_a_dataset_beside_that_of_the_run(
    resume: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is gone has moved; one that is still there is another one."""
    assert resume(lambda values: values.update(folder=str(tmp_path))) == 2
    assert f'folder "{tmp_path}'[:60] in capsys.readouterr().err


def test_a_note_without_an_entry_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(KEPT / "augmented.partial", tmp_path / "out.partial")
    note = tmp_path / "out.partial" / "parts" / "000000.json"
    note.write_text(
        json.dumps([{k: v for k, v in item.items() if k != "ledger"} for item in json.loads(note.read_text())])
    )
    assert main(["augment", str(KEPT / "dataset"), "--out", str(tmp_path / "out"), *AUGMENT]) == 0
    assert "10 made in this run" in capsys.readouterr().out


def test_shards(resume: Callable[..., int], tmp_path: Path) -> None:
    changed: Change = lambda values: values.update({"harmonize.feather_px": 2})  # noqa: E731
    assert resume(changed, "--shard", "2/2", folder="out.shards/001-of-002") == 0
    assert configs(tmp_path / "out")[-1]["harmonize"]["feather_px"] == 2


def test_a_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["convert", str(KEPT / "dataset"), "--out", str(tmp_path / "out"), "--to"]
    shutil.copytree(KEPT / "converted.partial", tmp_path / "out.partial")
    before = tree(tmp_path)
    assert main([*words, "voc"]) == 2
    assert f'of version {VERSION} with other arguments: to ["yolo", ' in capsys.readouterr().err
    assert tree(tmp_path) == before
    image = tmp_path / "out.partial" / "files" / "images" / "train" / "0.png"
    changed = image.stat().st_mtime_ns
    assert main([*words, "yolo"]) == 0
    assert (tmp_path / "out" / "images" / "train" / "0.png").stat().st_mtime_ns == changed
