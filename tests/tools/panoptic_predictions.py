"""Panoptic predictions that equal the annotations of a probe, for evaluators: their score must be 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Result = dict[str, Any]
FOUND = "found"
"""Folder of the predicted maps, and name of their table."""


def perfect_maps(folder: Path) -> list[Result]:
    """Write a map of each image in RGB, and return its entries. Objects of crowd regions are found, too."""
    tables = json.loads((folder / "panoptic.json").read_text())
    (folder / FOUND).mkdir(exist_ok=True)
    results = []
    for row in tables["annotations"]:
        with Image.open(folder / "panoptic" / row["file_name"]) as image:
            ids = np.asarray(image).astype(int) if image.mode == "L" else np.asarray(image.convert("RGB")).astype(int)
        ids = ids if ids.ndim == 2 else ids @ [1, 256, 65536]
        path = folder / FOUND / row["file_name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.stack([ids % 256, ids // 256 % 256, ids // 65536], 2).astype(np.uint8)).save(path)
        segments = [{"id": of["id"], "category_id": of["category_id"]} for of in row["segments_info"]]
        results.append({"image_id": row["image_id"], "file_name": row["file_name"], "segments_info": segments})
    return results


def false_maps(folder: Path) -> list[Result]:
    """Return perfect entries in which what is around the objects is an object, on images without objects."""
    thing = json.loads((folder / "panoptic.json").read_text())["categories"][0]["id"]
    results = perfect_maps(folder)
    for row in results:
        if not row["segments_info"]:
            row["segments_info"] = [{"id": 1, "category_id": thing}]
            path = folder / FOUND / row["file_name"]
            with Image.open(path) as image:
                size = image.size
            Image.new("RGB", size, (1, 0, 0)).save(path)
        elif len(row["segments_info"]) == 1:
            row["segments_info"][0]["category_id"] = thing
    return results


def save(folder: Path, results: list[Result]) -> tuple[Path, Path]:
    """Write predictions, and return their table and the folder of their maps."""
    file = folder / f"{FOUND}.json"
    file.write_text(json.dumps({"annotations": results}))
    return file, folder / FOUND
