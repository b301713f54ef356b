"""Datasets with semantic maps: what maps alone are told, ClassMix of them, and regions by the names of classes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_world import read_json, read_pixels
from PIL import Image

from on_disk import noise, tree
from segpaste.cli import main

NUM = 3


@pytest.fixture(scope="module")
def semantic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Label maps without maps of objects."""
    folder = tmp_path_factory.mktemp("semantic")
    for name in ("images/train", "semantic/train"):
        (folder / name).mkdir(parents=True)
    for i in range(NUM):
        Image.fromarray(noise((19, 29), i)).save(folder / f"images/train/{i}.png")
        values = np.zeros((19, 29), np.uint8)
        values[9:] = 1
        values[2:7, 3 + i : 14] = 2
        Image.fromarray(values).save(folder / f"semantic/train/{i}.png")
    (folder / "classes.txt").write_text("sky\nroad\ncar\n")
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bank", "build"], "expected masks, got semantic maps only, from which no object can be cut"),
        (["augment", "--num", "1"], "expected objects with masks, got semantic maps only; give emit_classmix=true"),
    ],
)
def test_maps_alone_have_no_objects(
    semantic: Path, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, str(semantic), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_stats_of_maps_alone(semantic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They count pixels."""
    maps = [read_pixels(path) for path in sorted((semantic / "semantic/train").iterdir())]
    pixels = [sum(int((values == label).sum()) for values in maps) for label in range(3)]
    assert main(["stats", str(semantic), "--json"]) == 0
    classes = json.loads(capsys.readouterr().out)["classes"]
    assert [(row["name"], row["photos"], row["pixels"]) for row in classes] == [
        (name, NUM, num) for name, num in zip(("sky", "road", "car"), pixels, strict=True)
    ]
    assert main(["stats", str(semantic)]) == 0
    assert re.search(rf"car +{NUM} +{pixels[2] / sum(pixels):.2%}\n", capsys.readouterr().out)


def test_a_bank_does_not_go_into_maps_alone(semantic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = tmp_path / "bank"
    assert main(["bank", "build", "scenes", "--num", "2", "--crop-size", "8", "--out", str(bank)]) == 0
    words = ["augment", str(semantic), "--bank", str(bank), "--out", str(tmp_path / "out"), "--num", "1"]
    assert main(words) == 2
    assert "leave --bank out and give emit_classmix=true" in capsys.readouterr().err
    assert main([*words, "emit_classmix=true"]) == 2
    assert capsys.readouterr().err.startswith("segpaste: error: source.kind='bank': expected emit_classmix=False")
    assert not (tmp_path / "out").exists()


def test_mixed_classes_are_told(semantic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pixels that differ from the photo's are those that are told, although no object is pasted."""
    words = ["augment", str(semantic), "--out", str(tmp_path / "out"), "--num", str(NUM), "emit_classmix=true"]
    assert main([*words, "--dry-run"]) == 0
    assert f"mixed    classes without objects into about {NUM} images" in capsys.readouterr().out
    assert main([*words, "--gallery", "1"]) == 0
    printed = capsys.readouterr().out
    fracs = []
    for row in read_json(tmp_path / "out/annotations.json")["images"]:
        before = read_pixels(semantic / row["segpaste"]["source_file_name"])
        after = read_pixels(tmp_path / "out/images/train" / Path(row["file_name"]).name)
        fracs.append((before != after).any(-1).mean())
    assert f"mixed    classes without objects into {NUM} of {NUM} images, {np.mean(fracs):.0%} of their" in printed
    assert "pasted   " not in printed
    written = [read_pixels(path) for path in sorted((tmp_path / "out/semantic/train").iterdir())]
    shares = [np.mean([values == label for values in written]) for label in range(3)]
    assert "classes, of all pixels       before    after\n" in printed
    for name, share in zip(("sky", "road", "car"), shares, strict=True):
        assert re.search(rf"  {name} +\d+\.\d\d% +{share:.2%}\n", printed)


def test_regions_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names stand for labels, and a dataset of label maps has regions like any other."""
    maps = tmp_path / "maps"
    assert (
        main(
            [
                "augment",
                "scenes",
                "--num",
                "4",
                "--size",
                "64",
                "--layout",
                "label-maps",
                "--gallery",
                "0",
                "--out",
                str(maps),
            ]
        )
        == 0
    )
    names = (maps / "classes.txt").read_text().splitlines()
    floor, things = names.index("floor"), [name for name in names if "ball" in name or "cube" in name]
    by_name = ", ".join(f"{name}: [floor]" for name in things)
    by_label = ", ".join(f"{names.index(name)}: [{floor}]" for name in things)
    words = ["augment", str(maps), "--num", "3", "--gallery", "0", "placement.grouping=instance", "placement.layers=3"]
    for out, region in (("named", by_name), ("numbered", by_label)):
        capsys.readouterr()
        assert main([*words, "--out", str(tmp_path / out), f"placement.region={{{region}}}"]) == 0
        assert "outside region" in capsys.readouterr().out
    named, numbered = tree(tmp_path / "named/images"), tree(tmp_path / "numbered/images")
    assert named == numbered
    assert main([*words, "--out", str(tmp_path / "x"), "placement.region={ball: [flor]}"]) == 2
    assert "placement.region: expected names or labels of classes (" in capsys.readouterr().err
