"""A small annotated set of photos on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from on_disk import runs
from segpaste.datasets import CocoDetectionV2

NAMES = ("car", "cup", "zebra")
IDS = (3, 7, 90)
BORDER, SMALL, HOLLOW, CROWD, EMPTY = range(5)
"""Indices of the extra annotations of the first photo."""


def write_photos(folder: Path, num: int = 70, shuffled: bool = False) -> Path:
    """``num`` photos of noise, 13 x 17 pixels and up, each with one to three rectangles; the first has odd ones too.

    Image ids fall while the files' numbers rise; annotation ids of a photo rise or fall.
    """
    folder.mkdir(parents=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []

    def add(image_id: int, annotation_id: int, label: int, mask: Any, crowd: bool = False) -> None:
        row = {"id": annotation_id, "image_id": image_id, "category_id": IDS[label], "iscrowd": int(crowd)}
        annotations.append({**row, "segmentation": runs(mask)})

    for i in range(num):
        height, width = 13 + i % 7, 17 + i % 5
        image_id = 1000 - i
        images.append({"id": image_id, "file_name": f"{i}.png", "height": height, "width": width})
        pixels = np.random.default_rng(i).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
        for j in range(1 + i % 3):
            mask = np.zeros((height, width), bool)
            mask[1 + j : 7 + j, 2 + 3 * j : 8 + 3 * j + i % 3] = True
            add(image_id, 10 * i + (j if i % 2 else 9 - j), j, mask)
    for kind in range(5):
        mask = np.zeros((13, 17), bool)
        if kind in (BORDER, CROWD):
            mask[4:, 5:9] = True
        elif kind == SMALL:
            mask[2, 3] = True
        elif kind == HOLLOW:
            mask[1:12, 1] = mask[1, 1:16] = True
        add(1000, 5000 + kind, 0, mask, kind == CROWD)
    categories = [{"id": i, "name": name} for i, name in zip(IDS, NAMES, strict=True)]
    if shuffled:
        for rows in (images, annotations, categories):
            np.random.default_rng(5).shuffle(rows)  # type: ignore[arg-type]
    tables = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "labels.json").write_text(json.dumps(tables))
    return folder


def open_photos(folder: Path) -> CocoDetectionV2:
    return CocoDetectionV2(folder, folder / "labels.json")
