"""Splits that `segpaste augment` copies fit beside the written one, or are named and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from cli_world import read_json
from PIL import Image

from segpaste.cli import main
from segpaste.datasets import open_dataset
from yolo_files import BOX, SIZE, SQUARE, TRIANGLE, write_roboflow, write_split, write_yaml, write_yolo

OBB = "1 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6"
PENTAGON = "1 0.1 0.2 0.3 0.2 0.3 0.6 0.2 0.7 0.1 0.6"


def augment(dataset: Path, out: Path, *words: str) -> int:
    return main(["augment", str(dataset), "--out", str(out), "--num", "2", "--gallery", "0", *words])


@pytest.mark.parametrize(
    ("train", "val", "task", "given"),
    [
        (PENTAGON, PENTAGON, "detect", "segment"),
        (PENTAGON, PENTAGON, "obb", "segment"),
        (PENTAGON, BOX, None, "detect"),
        (OBB, OBB, "detect", "obb"),
        (OBB, PENTAGON, None, "segment"),
    ],
)
def test_labels_of_another_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], train: str, val: str, task: str | None, given: str
) -> None:
    write_split(tmp_path / "in", "train", {"a": train, "b": train})
    write_split(tmp_path / "in", "val", {"a": val}, start=9)
    words = [] if task is None else ["--task", task, "source.mask_from=boxes"]
    assert augment(write_yaml(tmp_path / "in"), tmp_path / "out", *words) == 0
    error = capsys.readouterr().err
    written = task or ("obb" if train == OBB else "segment")
    assert f"expected labels of the task {written} to copy val, got {given}" in error
    assert not (tmp_path / "out/labels/val").exists()
    assert "val" not in yaml.safe_load((tmp_path / "out/data.yaml").read_text())
    if "segpaste convert" in error:  # the advice
        advice = error.partition("(segpaste convert ")[2].partition(" writes it")[0].split()
        words = [*advice, "--out", str(tmp_path / "val")]
        assert main(["convert", str(tmp_path / "in/data.yaml"), *words]) == 0
        assert len(open_dataset(tmp_path / "val", "val")) == 1


def test_polygons_of_four_corners_fit_beside_others(tmp_path: Path) -> None:
    """A split of such polygons alone could be one of oriented boxes."""
    write_split(tmp_path / "in", "train", {"a": PENTAGON, "b": PENTAGON})
    write_split(tmp_path / "in", "val", {"a": SQUARE}, start=9)
    assert augment(write_yaml(tmp_path / "in"), tmp_path / "out") == 0
    assert (tmp_path / "out/labels/val/a.txt").read_text() == SQUARE


def test_splits_without_objects_have_no_task(tmp_path: Path) -> None:
    write_split(tmp_path / "in", "train", {"a": OBB, "b": OBB})
    write_split(tmp_path / "in", "val", {"a": None, "b": ""}, start=9)
    assert augment(write_yaml(tmp_path / "in"), tmp_path / "out") == 0
    assert len(open_dataset(tmp_path / "out", "val")) == 2


@pytest.mark.parametrize(("train", "val"), [(PENTAGON, TRIANGLE), (TRIANGLE, PENTAGON)])
def test_classes_without_a_yaml(tmp_path: Path, train: str, val: str) -> None:
    """The written data YAML declares the classes of all splits."""
    write_split(tmp_path / "in", "train", {"a": train, "b": train})
    write_split(tmp_path / "in", "val", {"a": val}, start=9)
    assert augment(tmp_path / "in", tmp_path / "out") == 0
    assert len(yaml.safe_load((tmp_path / "out/data.yaml").read_text())["names"]) == 3
    assert open_dataset(tmp_path / "out", "val").instance_labels(0) == (int(val[0]),)


@pytest.mark.parametrize("change", ["none", "order", "name", "missing"])
def test_categories_of_roboflow(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str) -> None:
    path = write_roboflow(tmp_path / "in", ("train", "valid")) / "valid/_annotations.coco.json"
    tables = read_json(path)
    categories: list[dict[str, Any]] = tables["categories"]
    if change == "order":
        categories[1]["id"], categories[2]["id"] = categories[2]["id"], categories[1]["id"]
    elif change == "name":
        categories[3]["name"] = "tree"
    elif change == "missing":
        categories.pop()
    path.write_text(json.dumps(tables))
    assert augment(tmp_path / "in", tmp_path / "out") == 0
    is_copied = change == "none"
    assert ("expected the classes of train to copy valid, got others" in capsys.readouterr().err) == (not is_copied)
    assert (tmp_path / "out/valid").is_dir() == is_copied


def test_a_split_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_split(tmp_path / "in", "train", {"a": SQUARE, "b": SQUARE})
    write_split(tmp_path / "in", "val", {"a": "7 0.1 0.2 0.3 0.2 0.3 0.6"}, start=9)
    assert augment(write_yaml(tmp_path / "in"), tmp_path / "out") == 0
    told = capsys.readouterr()
    assert "expected a readable split to copy val: " in told.err
    assert "split 'val', which is not copied 1" in [" ".join(line.split()) for line in told.out.splitlines()]
    assert not (tmp_path / "out/labels/val").exists()


def test_depth_beside_a_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_yolo(tmp_path / "in", {"a": SQUARE, "b": SQUARE})
    for split in ("train", "val"):
        for folder in ("depth", "depth_valid"):
            (tmp_path / "in" / folder / split).mkdir(parents=True)
        for name in "ab":
            np.save(tmp_path / f"in/depth/{split}/{name}.npy", np.ones(SIZE, np.float32))
            valid = Image.fromarray(np.full(SIZE, 255, np.uint8))
            valid.save(tmp_path / f"in/depth_valid/{split}/{name}.png")
    assert augment(data.parent, tmp_path / "out", "emit_depth=false") == 0
    assert "expected no depth or normals to copy val, got some (segpaste convert --to yolo" in capsys.readouterr().err
    assert not (tmp_path / "out/labels/val").exists()
