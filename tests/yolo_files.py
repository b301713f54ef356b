"""Small YOLO and Roboflow datasets on disk, written by hand. Nothing here shares code with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from on_disk import noise, rectangle, runs

SIZE = (20, 40)
"""(H, W) of the photos, so that tenths of a side are whole pixels."""
NAMES = ["car", "cup", "zebra"]

SQUARE = "1 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6"
"""A cup: columns 4 to 11, rows 4 to 11."""
TRIANGLE = "2 0.5 0.1 0.9 0.1 0.5 0.9"
BOX = "1 0.2 0.4 0.2 0.4"
"""The box of the square."""


def photo(path: Path, size: tuple[int, int] = SIZE, seed: int = 0, **options: Any) -> Path:
    """Write a photo of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(size, seed)).save(path, **options)
    return path


def write_split(folder: Path, split: str, labels: dict[str, str | None], start: int = 0) -> None:
    """Write ``images/SPLIT`` and ``labels/SPLIT``: a photo for each name, with a label file unless it is None."""
    for i, (name, text) in enumerate(labels.items(), start):
        photo(folder / "images" / split / f"{name}.png", seed=i)
        if text is not None:
            path = folder / "labels" / split / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def write_yaml(folder: Path, name: str = "data.yaml", **facts: Any) -> Path:
    """Write a data YAML; a fact of None is left out."""
    known = {"train": "images/train", "val": "images/val", "names": NAMES}
    path = folder / name
    path.write_text(yaml.safe_dump({key: value for key, value in {**known, **facts}.items() if value is not None}))
    return path


def write_yolo(folder: Path, labels: dict[str, str | None] | None = None, **facts: Any) -> Path:
    """Write a dataset with the splits train and val, and return its YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    if labels is None:
        labels = {"a": f"{SQUARE}\n{TRIANGLE}\n", "b": f"{SQUARE}\n", "c": None, "d": "", "e": f"{TRIANGLE}\n"}
    write_split(folder, "train", labels)
    write_split(folder, "val", dict(list(labels.items())[:2]), start=50)
    return write_yaml(folder, **facts)


def write_roboflow(folder: Path, splits: tuple[str, ...] = ("train", "valid", "test")) -> Path:
    """Write Roboflow's folders: category 0 is the project's name, which no annotation uses."""
    categories = [{"id": 0, "name": "things", "supercategory": "none"}]
    categories += [{"id": i + 1, "name": name, "supercategory": "things"} for i, name in enumerate(NAMES)]
    for s, split in enumerate(splits):
        images, annotations = [], []
        for i in range(3):
            name = f"p{i}_png.rf.{s}{i}ab.png"
            photo(folder / split / name, seed=10 * s + i)
            images.append({"id": i, "file_name": name, "height": SIZE[0], "width": SIZE[1]})
            for j in range(i):
                mask = rectangle(SIZE, 2 + 3 * j, 3 + 9 * j, 9 + 3 * j, 11 + 9 * j)
                row = {"id": len(annotations), "image_id": i, "category_id": 1 + j, "iscrowd": 0}
                annotations.append({**row, "segmentation": runs(mask), "bbox": [0, 0, 1, 1]})
        tables = {"images": images, "annotations": annotations, "categories": categories}
        (folder / split / "_annotations.coco.json").write_text(json.dumps(tables))
    return folder
