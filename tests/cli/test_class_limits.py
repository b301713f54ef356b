"""Formats that hold a limited number of classes: every command that writes them says so before the first image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_world import read_json, write_instances

from segpaste.cli import main

LIMITS = [("voc", 255, "254 classes for Pascal VOC", "label-maps"), ("label-maps", 65535, "65,534 classes", "coco")]


def _write(folder: Path, num: int) -> list[str]:
    path, images = write_instances(folder, ((37, 23), (17, 41)))
    tables = read_json(path)
    others = [{"id": 100 + i, "name": f"class {i}"} for i in range(num - len(tables["categories"]))]
    path.write_text(json.dumps({**tables, "categories": [*tables["categories"], *others]}))
    return [str(path), "--images", str(images)]


@pytest.mark.parametrize(("name", "num", "said", "other"), LIMITS)
@pytest.mark.parametrize("command", ["convert", "augment", "augment --dry-run", "augment --shard 1/2", "replay"])
def test_the_limit_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str, num: int, said: str, other: str
) -> None:
    words, out = _write(tmp_path, num), ["--out", str(tmp_path / "out")]
    if command == "convert":
        words = ["convert", *words, "--to", name]
    elif command == "replay":
        assert main(["augment", *words, "--num", "1", "--gallery", "0", "--out", str(tmp_path / "made")]) == 0
        file = tmp_path / "made/annotations.json"
        first, rest = file.read_text().split("\n", 1)
        document = json.loads(first.rstrip(",") + "}")
        document["info"]["segpaste"]["layout"] = {"name": name}
        file.write_text(json.dumps(document)[:-1] + ",\n" + rest)
        words = ["replay", str(tmp_path / "made"), "--dataset", *words]
    else:
        words = [*command.split(), *words, "--num", "4", "--gallery", "0", "--layout", name]
    there = set(tmp_path.iterdir())
    capsys.readouterr()
    assert main([*words, *out]) == 2
    error = capsys.readouterr().err
    assert f"at most {said}" in error
    assert f"got {num:,}; write {other}, or merge classes" in error
    assert set(tmp_path.iterdir()) == there


def test_the_largest_number_is_written(tmp_path: Path) -> None:
    words = [*_write(tmp_path, 254), "--out", str(tmp_path / "out"), "--num", "2", "--gallery", "0", "--layout", "voc"]
    assert main(["augment", *words]) == 0


def test_boxes_alone_have_no_limit_in_voc(tmp_path: Path) -> None:
    words = _write(tmp_path, 300)
    tables = read_json(Path(words[0]))
    for row in tables["annotations"]:
        row |= {"segmentation": [], "bbox": [1, 1, 8, 8], "area": 64, "iscrowd": 0}
    Path(words[0]).write_text(json.dumps(tables))
    assert main(["convert", *words, "--to", "voc", "--out", str(tmp_path / "out")]) == 0


def test_panoptic_maps_are_asked_for_before_the_first_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*_write(tmp_path, 3), "--out", str(tmp_path / "out"), "--num", "2", "--layout", "coco-panoptic"]
    there = set(tmp_path.iterdir())
    assert main(["augment", *words]) == 2
    assert "--layout coco-panoptic: expected panoptic maps" in capsys.readouterr().err
    assert set(tmp_path.iterdir()) == there
