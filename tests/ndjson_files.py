"""Small datasets of Ultralytics' NDJSON on disk, written by hand. Nothing here shares code with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from yolo_files import BOX, NAMES, SIZE, SQUARE, TRIANGLE, photo

SEGMENTS = {"a": f"{SQUARE}\n{TRIANGLE}", "b": SQUARE, "c": "", "d": f"{TRIANGLE}\n{TRIANGLE}"}
BOXES = {"a": f"{BOX}\n2 0.75 0.5 0.3 0.6", "b": BOX, "c": "", "d": BOX}
TURNED = "1 0.3 0.2 0.5 0.4 0.4 0.6 0.2 0.4"
CORNERS = {"a": f"{TURNED}\n2 0.6 0.1 0.9 0.1 0.9 0.3 0.6 0.3", "b": TURNED, "c": "", "d": TURNED}
POSE = "1 0.2 0.4 0.2 0.4 0.15 0.3 2 0.25 0.5 1 0 0 0"
POSES = {"a": f"{POSE}\n{POSE.replace('1 0.2', '2 0.7', 1)}", "b": POSE, "c": "", "d": POSE}
OF_POSES = {"kpt_shape": [3, 3], "flip_idx": [1, 0, 2]}
TASKS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "segment": ("segments", SEGMENTS, {}),
    "detect": ("boxes", BOXES, {}),
    "obb": ("obb", CORNERS, {}),
    "pose": ("pose", POSES, OF_POSES),
}
"""Key of the rows, text of the label file of each image, and further values of the first line, by task."""
SPLITS = {"a": "train", "b": "val", "c": "train", "d": "train"}


def numbers_of(text: str) -> list[list[float]]:
    """The rows of a label file as numbers, whole ones without a point."""
    rows = [[float(word) for word in line.split()] for line in text.splitlines()]
    return [[int(value) if value.is_integer() else value for value in row] for row in rows]


def records_of(task: str, **head: Any) -> list[dict[str, Any]]:
    """The lines of a file of a task."""
    key, labels, facts = TASKS[task]
    names = {str(i): name for i, name in enumerate(NAMES)}
    first = {"type": "dataset", "task": task, "name": "five", "class_names": names, **facts, **head}
    records = [{key: value for key, value in first.items() if value is not None}]
    for name, text in labels.items():
        record = {"type": "image", "file": f"{name}.png", "width": SIZE[1], "height": SIZE[0], "split": SPLITS[name]}
        records.append({**record, **({"annotations": {key: numbers_of(text)}} if text else {})})
    return records


def write_records(file: Path, records: list[Any]) -> Path:
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def write_ndjson(folder: Path, task: str = "segment", **head: Any) -> Path:
    """Write a file and its photos in ``images/SPLIT`` beside it, and return the file."""
    for i, (name, split) in enumerate(SPLITS.items()):
        photo(folder / "images" / split / f"{name}.png", seed=i)
    return write_records(folder / "five.ndjson", records_of(task, **head))
