"""`segpaste split`: what it prints, its exit codes, and bad parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_world import one_error, write_instances, write_panoptic

from segpaste.cli import main
from segpaste.datasets import open_dataset

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_table_of_classes_by_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, images = write_instances(tmp_path)
    words = ["split", str(file), "train=0.8,val=0.2", "--images", str(images), "--out", f"{tmp_path}/parts"]
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"dataset  {tmp_path}/parts, coco, seed 0"
    assert said[1].split() == ["train", "4", "images", "80.0%,", "wanted", "80.0%"]
    assert said[2].split() == ["val", "1", "images", "20.0%,", "wanted", "20.0%"]
    assert said[4].split() == ["images", "train", "val"]
    table = {line.split()[0]: [int(num) for num in line.split()[1:]] for line in said[5:8]}
    for part, nums in zip(("train", "val"), zip(*table.values(), strict=True), strict=True):
        photos = open_dataset(tmp_path / "parts", split=part)
        shown = [
            photos.class_names[label] for index in range(len(photos)) for label in {*photos.instance_labels(index)}
        ]
        assert dict(zip(table, nums, strict=True)) == {name: shown.count(name) for name in table}
    assert "verified 5 images" in said


def test_json_and_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, images, maps = write_panoptic(tmp_path)
    parts = ["train=0.34", "val=0.33", "test=0.33"]
    given = [str(file), *parts, "--images", str(images), "--panoptic-dir", str(maps)]
    assert main(["split", *given, "--out", f"{tmp_path}/parts", "--json", "--group-by", r"(\d+)"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["num_images"]) == ("coco-panoptic", {"train": 1, "val": 1, "test": 1})
    assert {name: row["num_images"] for name, row in found["classes"].items()}["sky"] == [1, 1, 1]
    document = json.loads(file.read_text())
    stuff = next(row["id"] for row in document["categories"] if row["name"] == "sky")
    other = {**next(row for row in document["categories"] if row["id"] == stuff), "id": 999, "name": "sea"}
    document["categories"].append(other)
    for segment in document["annotations"][0]["segments_info"]:
        segment["category_id"] = 999 if segment["category_id"] == stuff else segment["category_id"]
    file.write_text(json.dumps(document))
    assert main(["split", *given, "--out", f"{tmp_path}/strict", "--strict"]) == 1
    assert "note     class sea: not in " in capsys.readouterr().out


@pytest.mark.parametrize("parts", ["train", "train=", "=0.8", "train=a", "train=0.5,train=0.5"])
def test_bad_parts_are_one_line(parts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, images = write_instances(tmp_path)
    assert main(["split", str(file), parts, "--images", str(images), "--out", f"{tmp_path}/parts"]) == 2
    assert "split: expected parts such as train=0.8,val=0.2, each name once, got " in one_error(capsys)
