"""Whole datasets: each claim of a check is what the tool then did, and what is converted for a tool arrives there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from prove_datasets import RESULTS, claims, judged, troubled, unexpected
from prove_tools import TOOLS

KNOWN: dict[str, Any] = json.loads(RESULTS.read_text())
ROWS: list[dict[str, Any]] = [row for of in KNOWN.values() for row in of["rows"]]
WRITTEN_FOR = {"ultralytics", "libreyolo", "lightly-train", "rfdetr", "torchvision", "smp"}

LOSSLESS = {"rfdetr", "torchvision", "smp"}
"""Those that draw masks as pycocotools does, or read maps."""


def test_no_claim_was_wrong_and_no_loss_was_unclaimed() -> None:
    assert unexpected(KNOWN) == []


@pytest.mark.parametrize("tool", sorted(WRITTEN_FOR))
def test_what_is_written_for_a_tool_arrives(tool: str) -> None:
    written = [row for row in ROWS if row["tool"] == tool and f" for {tool}" in row["set"]]
    assert written
    assert all(row["least"] == 1 for row in written if "least" in row)
    if tool in LOSSLESS:
        assert min(_least(written)) == 1
        return
    own = [row for row in ROWS if row["tool"] == tool and f" for {tool}" not in row["set"]]
    assert min(_least(written)) >= min([0.98, *_least(own)])  # what the tool draws of the same outlines


def _least(rows: list[dict[str, Any]]) -> list[float]:
    return [row["least of large"] for row in rows if row.get("least of large") is not None]


@pytest.mark.parametrize(
    ("rows", "told", "wrong"),
    [
        ({"a.png": {"why": "image lost"}}, {}, ["a.png: image lost, not claimed"]),
        ({"a.png": {}}, {"a.png": {"image_lost"}}, ["a.png: image_lost claimed, kept"]),
        ({"a.png": {"why": "image lost"}}, {"a.png": {"image_lost"}}, []),
        ({"": {"why": "stops: KeyError"}}, {"a.png": {"stops"}}, []),
        ({"a.png": {}}, {"a.png": {"stops"}}, ["stops is claimed: None"]),
        ({"": {"why": "stops: KeyError"}}, {}, ["stops is not claimed: {'why': 'stops: KeyError'}"]),
    ],
)
def test_a_wrong_claim_is_reported(rows: dict[str, Any], told: dict[str, set[str]], wrong: list[str]) -> None:
    assert judged(rows, told)["wrong"] == wrong


@pytest.mark.parametrize("format", ["coco", "yolo"])
def test_each_trouble_is_claimed_at_its_images(format: str, tmp_path: Path) -> None:
    given = troubled(format, tmp_path / "set")
    for tool in (tool for tool in TOOLS.values() if format in tool.formats):
        told = claims(format, given.folder, tool)
        for trait in {rule.trait for rule in tool.rules if rule.format == format and rule.effect != "background_lost"}:
            special = {row["name"] for row in json.loads((given.folder / "truth.json").read_text())}
            named = {name for name in special if Path(name).name.startswith(f"{trait}_special")}
            assert named <= told.keys(), (tool.name, trait)
        assert not any(name.startswith("ordinary") for name in told) or any(
            rule.trait in ("any_object", "first_object", "no_points") for rule in tool.rules if rule.format == format
        )
