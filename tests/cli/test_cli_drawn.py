"""Formats of labelling tools through the commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_world import check_instances, read_json

from segpaste.bank import open_bank
from segpaste.cli import main

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
from drawn_files import BAR_BOX, WRITERS, labelme_shape, write_labelme


@pytest.mark.parametrize("name", WRITERS)
def test_every_format(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    folder = str(WRITERS[name](tmp_path / "in"))
    out, bank = str(tmp_path / "out"), str(tmp_path / "bank")
    assert (
        main(["augment", folder, "--out", out, "--num", "3", "--gallery", "0", "placement.scale_range=[0.5,1.0]"]) == 0
    )
    assert len(read_json(tmp_path / "out" / "annotations.json")["images"]) == 3
    check_instances(tmp_path / "out", "JPEGImages" if name == "voc" else "images")
    capsys.readouterr()
    assert main(["stats", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["objects"] for row in found["classes"] if row["objects"]} == {"cup": 2, "zebra": 1}
    assert main(["bank", "build", folder, "--out", bank, "--crop-size", "16"]) == 0
    with open_bank(bank) as crops:
        assert len(crops) == 3


def test_boxes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are pasted as masks on request, and written as labels of boxes."""
    boxes = [labelme_shape("zebra", [BAR_BOX[:2], BAR_BOX[2:]], "rectangle")]
    folder = str(write_labelme(tmp_path / "in", {"a": boxes, "b": boxes}))
    words = [
        "augment",
        folder,
        "--out",
        str(tmp_path / "out"),
        "--num",
        "2",
        "--gallery",
        "0",
        "source.mask_from=boxes",
    ]
    assert main(words[:-1]) == 2
    assert "in: expected masks, got boxes only, so nothing can be pasted" in capsys.readouterr().err
    assert main([*words, "--layout", "yolo"]) == 0
    lines = (tmp_path / "out" / "labels" / "train" / "000001.txt").read_text().splitlines()
    assert lines
    assert all(len(line.split()) == 5 for line in lines)
    capsys.readouterr()
    assert main(["stats", folder, "--json"]) == 0
    assert [row["objects"] for row in json.loads(capsys.readouterr().out)["classes"]] == [2]
