"""`segpaste check`: what it prints, its exit codes, its JSON, and the page that describes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_world import one_error, write_instances, write_panoptic
from test_cli_yolo import write_yolo

from on_disk import tree
from segpaste.cli import main
from segpaste.datasets.checking.report import KINDS, HealthReport

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "checking.md"


def test_a_healthy_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photos = write_instances(tmp_path)
    before = tree(tmp_path)
    assert main(["check", str(path), "--images", str(photos), "--decode", "--show", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert f"{path}: 5 images, 8 objects of 3 classes" in captured.out
    assert "errors: none" in captured.out
    assert re.search(
        r"box_disagrees +8  box that is far .*\n +\S+labels.json: annotation 1000 of .*\n +and 7 more\n", captured.out
    )
    assert "others     1 crowds" in captured.out
    assert captured.out.endswith("healthy: 0 errors, 9 remarks\n")
    assert tree(tmp_path) == before


def test_a_broken_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that cannot be opened."""
    path, photos = write_instances(tmp_path)
    tables = json.loads(path.read_text())
    tables["annotations"][0]["category_id"] = 1
    path.write_text(json.dumps(tables))
    (photos / "p2.png").unlink()
    assert main(["check", str(path), "--images", str(photos)]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert re.search(r"errors\n  missing_file +1 .*\n +\S+p2.png: .*\n  unknown_reference +1 ", captured.out)
    assert "not healthy: 2 errors, " in captured.out
    assert main(["check", str(path), "--images", str(photos), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["dataset"], found["healthy"]) == (str(path), False)
    assert found["errors"] == {"missing_file": 1, "unknown_reference": 1}
    tables["annotations"][0]["category_id"] = tables["annotations"][1]["category_id"]
    path.write_text(json.dumps(tables))
    assert main(["check", str(path), "--images", str(photos)]) == 1
    assert "not healthy: 1 error, " in capsys.readouterr().out


def test_names_are_printed_safely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photos = write_instances(tmp_path)
    path.write_text(path.read_text().replace("p2.png", "\\u001b[2Jp2"))
    assert main(["check", str(path), "--images", str(photos)]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_panoptic_and_yolo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photos, maps = write_panoptic(tmp_path)
    assert main(["check", str(path), "--images", str(photos), "--panoptic-dir", str(maps), "--decode"]) == 0
    assert "3 images, 6 objects of 4 classes" in capsys.readouterr().out
    (maps / "q0.png").unlink()
    assert main(["check", str(path), "--images", str(photos), "--panoptic-dir", str(maps)]) == 1
    assert "q0.png: expected a panoptic map, found no such file" in capsys.readouterr().out
    assert main(["check", str(write_yolo(tmp_path / "yolo"))]) == 0


@pytest.mark.parametrize("words", [["scenes"], ["nowhere"], ["nowhere.json", "--images", "."], ["x.json"]])
def test_no_dataset(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    one_error(capsys)


def test_the_page_lists_kinds_and_keys() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (error|remark) \|", text, re.MULTILINE))
    assert listed == {kind: severity for kind, (severity, _) in KINDS.items()}
    keys = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", text, re.MULTILINE)
    assert {*keys} == {"dataset", *HealthReport().to_dict()}
