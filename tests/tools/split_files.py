"""A small dataset of COCO's files with several splits, of which every object counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HEIGHT, WIDTH, SIDE = 60, 80, 20
NUM_IMAGES, NUM_OBJECTS = 3, 6
NAMES = ("cat", "dog")


def write_splits(folder: Path, splits: Sequence[str] = ("train", "val"), *, crowd: bool = False) -> Path:
    """Write splits of three images with two squares each; with ``crowd`` the first image has a region, too."""
    rng = np.random.default_rng(3)
    (folder / "annotations").mkdir(parents=True)
    for split in splits:
        (folder / split).mkdir()
        images: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        for number in range(1, NUM_IMAGES + 1):
            file = f"{split}{number}.jpg"
            Image.fromarray(rng.integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)).save(folder / split / file)
            images.append({"id": number, "file_name": file, "width": WIDTH, "height": HEIGHT})
            rows += [_square(len(rows) + 1 + label, number, label) for label in range(len(NAMES))]
        if crowd:
            rows.append({**_square(len(rows) + 1, 1, 0, top=30), "iscrowd": 1})
        classes = [{"id": label + 1, "name": name} for label, name in enumerate(NAMES)]
        tables = {"images": images, "annotations": rows, "categories": classes}
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(tables))
    return folder


def _square(number: int, image: int, label: int, top: int = 5) -> dict[str, Any]:
    left, right, bottom = 5 + 30 * label, 5 + 30 * label + SIDE, top + SIDE
    corners = [left, top, right, top, right, bottom, left, bottom]
    row = {"id": number, "image_id": image, "category_id": label + 1, "iscrowd": 0, "area": SIDE * SIDE}
    return {**row, "bbox": [left, top, SIDE, SIDE], "segmentation": [corners]}
