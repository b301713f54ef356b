"""Datasets without any object: they have nothing to paste, and a bank's objects are pasted into them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_world import check_instances, read_json, write_instances
from PIL import Image

from on_disk import noise
from segpaste.cli import main

NUM = 2


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bank")
    words = [str(folder / "labels.json"), "--images", str(write_instances(folder)[1]), "--out", str(folder / "bank")]
    assert main(["bank", "build", *words, "--crop-size", "16", "--min-area", "1"]) == 0
    return str(folder / "bank")


@pytest.fixture
def depth_only(tmp_path: Path) -> str:
    """Photos with depth in millimetres, without classes."""
    for name in ("photos", "depth"):
        (tmp_path / "in" / name).mkdir(parents=True)
    for i in range(NUM):
        Image.fromarray(noise((41, 37), i)).save(tmp_path / "in" / "photos" / f"{i}.png")
        Image.fromarray(np.full((41, 37), 1500 + i, np.uint16)).save(tmp_path / "in" / "depth" / f"{i}.png")
    lines = "photos: 'photos/{name}.png'\ndepth: {files: 'depth/{name}.png', unit: mm}\n"
    (tmp_path / "in" / "segpaste.yaml").write_text(lines)
    return str(tmp_path / "in")


@pytest.fixture
def empty_yolo(tmp_path: Path) -> str:
    """Photos with empty label files, of two classes."""
    for name in ("images", "labels"):
        (tmp_path / "yolo" / name / "train").mkdir(parents=True)
    for i in range(NUM):
        Image.fromarray(noise((41, 37), i)).save(tmp_path / "yolo" / "images" / "train" / f"{i}.png")
        (tmp_path / "yolo" / "labels" / "train" / f"{i}.txt").write_text("")
    (tmp_path / "yolo" / "data.yaml").write_text("path: .\ntrain: images/train\nnames: [zebra, car, cup]\n")
    return str(tmp_path / "yolo")


def test_backgrounds_beside_depth(depth_only: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their depth is valid nowhere; where they cannot be targets, one line says why."""
    folder = Path(depth_only)
    (folder / "masks").mkdir()
    for i in range(NUM):
        pixels = np.zeros((41, 37), np.uint8)
        pixels[9:21, 8:19] = 1
        Image.fromarray(pixels).save(folder / "masks" / f"{i}.png")
    declared = (folder / "segpaste.yaml").read_text() + (
        "classes: [room, cup]\ninstances: {files: 'masks/{name}.png', encoding: number, class: cup}\n"
    )
    (folder / "segpaste.yaml").write_text(declared)
    (tmp_path / "rooms").mkdir()
    Image.fromarray(noise((33, 47), 9)).save(tmp_path / "rooms" / "a.png")
    out = str(tmp_path / "out")
    words = [depth_only, "--backgrounds", str(tmp_path / "rooms")]
    assert main(["augment", *words, "--out", out, "--num", "6", "--gallery", "1"]) == 0
    tables = read_json(tmp_path / "out" / "annotations.json")
    rooms = [row for row in tables["images"] if row["segpaste"]["source_file_name"].endswith("a.png")]
    assert {row["image_id"] for row in check_instances(tmp_path / "out")} >= {row["id"] for row in rooms} != set()
    for row in rooms:
        stem = Path(row["file_name"]).stem
        assert not np.asarray(Image.open(tmp_path / "out" / "depth_valid" / f"{stem}.png")).any()
    assert main(["replay", out, "--dataset", *words, "--check", out]) == 0
    for line, why in (
        ("camera: {fx: 30, fy: 30, cx: 18, cy: 20}\n", "expected a dataset without cameras, got in with metric depth"),
    ):
        (folder / "segpaste.yaml").write_text(declared + line)
        assert main(["augment", *words, "--out", f"{out}2", "--num", "6"]) == 2
        assert f"--backgrounds: {why}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["depth_only", "empty_yolo"])
def test_a_bank_is_pasted(
    kind: str, bank: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it there is nothing to paste; with it the records are replayed."""
    folder: str = request.getfixturevalue(kind)
    words = ["augment", folder, "--out", str(tmp_path / "out"), "--num", "3", "--gallery", "0", "--layout", "coco"]
    assert main(words) == 1
    assert "nothing to paste: expected objects, got a dataset without any (give --bank" in capsys.readouterr().err
    assert main([*words, "--bank", bank]) == 0
    assert check_instances(tmp_path / "out")
    names = {row["name"] for row in read_json(tmp_path / "out" / "annotations.json")["categories"]}
    assert names == {"zebra", "car", "cup"}
    assert (tmp_path / "out" / "depth").is_dir() == (kind == "depth_only")
    assert main(["replay", str(tmp_path / "out"), "--dataset", folder, "--bank", bank, "--check", words[3]]) == 0


def test_messages_name_what_is_wrong(depth_only: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of a declaration, and a region where there are no semantic maps."""
    path = Path(depth_only) / "segpaste.yaml"
    declared = path.read_text() + "classes: [room, cup]\n"
    masks = "instances: {files: 'depth/{name}.png', encoding: number, class: cup}\n"
    words = ["augment", depth_only, "--out", str(tmp_path / "out"), "--num", "1", "placement.region={cup: [room]}"]
    path.write_text(f"{declared}things: [cup]\n{masks}")
    assert main(words) == 2
    assert f"{path}: expected maps with the class of every pixel" in capsys.readouterr().err
    path.write_text(declared + masks)
    assert main(words) == 2
    assert "error: placement.region: expected semantic maps in in, whose classes" in capsys.readouterr().err


def test_label_maps_without_objects(depth_only: str, tmp_path: Path) -> None:
    assert main(["convert", depth_only, "--to", "label-maps", "--out", str(tmp_path / "maps")]) == 0
    for name in ("semantic", "instances"):
        paths = sorted((tmp_path / "maps" / name).rglob("*.png"))
        assert len(paths) == NUM
        assert not np.asarray(Image.open(paths[0])).any()
