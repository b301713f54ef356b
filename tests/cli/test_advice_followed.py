"""What an error of `segpaste augment` says to give or to leave out works: for every preset, on every kind of data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import noise
from PIL import Image

from segpaste.cli import main
from segpaste.presets import list_presets

SIZE = (72, 96)
NUM = 4


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The words for datasets of masks, of boxes, of semantic maps and of depth, and for a bank."""
    root = tmp_path_factory.mktemp("world")
    images, rows = [], []
    for i in range(1, NUM + 1):
        images.append({"id": i, "file_name": f"{i}.png", "height": SIZE[0], "width": SIZE[1]})
        for name in ("photos", "maps/JPEGImages", "depths/images"):
            (root / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise(SIZE, i)).save(root / name / f"{i}.png")
        classes = np.zeros(SIZE, np.uint8)
        for j in (0, 1):
            x, y = 8 + 40 * j + i, 10 + 5 * j
            classes[y : y + 24, x : x + 20] = 1 + j
            corners = [x, y, x + 20, y, x + 20, y + 24, x, y + 24]
            row = {"id": len(rows) + 1, "image_id": i, "category_id": 1 + j, "bbox": [x, y, 20, 24], "area": 480}
            rows.append({**row, "iscrowd": 0, "segmentation": [corners]})
        (root / "maps/SegmentationClass").mkdir(exist_ok=True)
        Image.fromarray(classes).save(root / f"maps/SegmentationClass/{i}.png")
        (root / "depths/depth").mkdir(exist_ok=True)
        Image.fromarray(np.full(SIZE, 1000 + i, np.uint16)).save(root / f"depths/depth/{i}.png")
    depth = "depth: {files: 'depth/{name}.png', unit: 0.001}"
    (root / "depths/segpaste.yaml").write_text(f"photos: images/{{name}}.png\n{depth}\n")
    (root / "maps/class_names.txt").write_text("_background_\na\nb\n")
    tables: dict[str, Any] = {"images": images, "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}
    (root / "masks.json").write_text(json.dumps({**tables, "annotations": rows}))
    boxes = [{**row, "segmentation": []} for row in rows]
    (root / "boxes.json").write_text(json.dumps({**tables, "annotations": boxes}))
    found = {name: [str(root / f"{name}.json"), "--images", str(root / "photos")] for name in ("masks", "boxes")}
    assert main(["bank", "build", *found["masks"], "--out", str(root / "bank")]) == 0
    maps = {"semantic maps": [str(root / "maps")], "depth": [str(root / "depths")]}
    return {**found, **maps, "bank": ["--bank", str(root / "bank")]}


def run(words: list[str], out: Path, capsys: Any) -> tuple[int, str]:
    options = ["--out", str(out), "--num", "2", "--size", "96x80", "--gallery", "0", "--dry-run"]
    code = main(["augment", *words, *options])
    return code, capsys.readouterr().err


def followed(words: list[str], text: str, bank: list[str]) -> list[str] | None:
    """Return the words after the advice of an error; None for one that asks for another dataset."""
    advice = text.rpartition("; " if "; " in text else "(")[2]
    without_preset = [word for i, word in enumerate(words) if "--preset" not in words[max(i - 1, 0) : i + 1]]
    without_bank = [word for i, word in enumerate(words) if "--bank" not in words[max(i - 1, 0) : i + 1]]
    if "mix classes without a bank" in advice:
        return without_bank
    if "leave it out" in advice:
        return without_preset
    if "leave --bank out and" in advice:
        words = without_bank
    if "--preset classmix instead" in advice:
        return [*followed(words, "; leave it out", bank), "--preset", "classmix"]  # type: ignore[misc]
    if keys := re.findall(r"[a-z_.]+=[a-z0-9]+", advice.partition(" or ")[0]):
        return [*words, *keys]
    if "the bank to paste from" in text or "--bank, or another" in advice:
        return [*words, *bank]
    if "leave one of them out" in advice:
        return without_bank
    return [*without_preset, *bank] if "without the preset" in advice else None


@pytest.mark.parametrize("has_bank", [False, True])
@pytest.mark.parametrize("kind", ["masks", "boxes", "semantic maps", "depth"])
@pytest.mark.parametrize("preset", list_presets())
def test_advice_works(
    preset: str, kind: str, has_bank: bool, world: dict[str, list[str]], tmp_path: Path, capsys: Any
) -> None:
    """Each piece of advice leads to a run, or to more advice about what the dataset lacks."""
    words = [*world[kind], "--preset", preset, *(world["bank"] if has_bank else [])]
    seen = list[str]()
    while True:
        code, text = run(words, tmp_path / "out", capsys)
        if code == 0:
            return
        assert text not in seen
        seen.append(text)
        assert len(seen) <= 3, seen
        after = followed(words, text, world["bank"])
        assert after is not None, text
        words = after
