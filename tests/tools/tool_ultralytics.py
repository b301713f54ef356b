"""Ultralytics' dataset for its tasks, as it is trained on but for random augmentation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from judge import ReadImage, ReadObject
from ultralytics.cfg import get_cfg
from ultralytics.data.build import build_yolo_dataset
from ultralytics.data.utils import check_det_dataset
from yolo_layouts import data_file, folders_of, name_in

SIZE = 128
TASKS = {
    "ultralytics": "segment",
    "ultralytics-detect": "detect",
    "ultralytics-obb": "obb",
    "ultralytics-pose": "pose",
}
PACKAGES = dict.fromkeys(TASKS, "ultralytics")


def read(folder: Path, task: str) -> list[ReadImage]:
    """Read all samples at the stored size, in a square frame."""
    if task == "pose" and folder.name != "no_points":
        _add_points(folder)
    data = check_det_dataset(str(data_file(folder)))
    options = get_cfg(overrides={"task": task, "imgsz": SIZE, "mask_ratio": 1, "overlap_mask": False})
    dataset = build_yolo_dataset(options, data["train"], 1, data, mode="val")
    return [_read_one(dataset[i], data["names"], folder) for i in range(len(dataset))]


def _read_one(sample: dict[str, object], names: dict[int, str], folder: Path) -> ReadImage:
    (height, width), (top, left) = sample["resized_shape"], _margins(sample)
    pixels = sample["img"].numpy().transpose(1, 2, 0)[top : top + height, left : left + width]
    boxes, masks = _boxes(sample) * SIZE - [left, top, left, top], [None] * len(sample["cls"])
    if "masks" in sample:
        masks = [mask.numpy().astype(bool)[top : top + height, left : left + width] for mask in sample["masks"]]
    points = [None] * len(sample["cls"])
    if "keypoints" in sample:
        points = (sample["keypoints"].numpy() * [SIZE, SIZE, 1] - [left, top, 0]).tolist()
    labels = sample["cls"].reshape(-1).int().tolist()
    fields = zip(labels, masks, boxes.tolist(), points, strict=True)
    objects = [ReadObject(names[label], mask, box, False, of) for label, mask, box, of in fields]
    return ReadImage(name_in(folder, sample["im_file"]), pixels, objects)


def _margins(sample: dict[str, object]) -> tuple[int, int]:
    height, width = sample["resized_shape"]
    return round((SIZE - height) / 2 - 0.1), round((SIZE - width) / 2 - 0.1)


def _boxes(sample: dict[str, object]) -> np.ndarray:
    """Return the boxes as (x1, y1, x2, y2) in fractions; of oriented boxes those around them."""
    boxes = sample["bboxes"].numpy().astype(float)
    centres, sides = boxes[:, :2], boxes[:, 2:4]
    if boxes.shape[1] == 5:
        cos, sin = np.abs(np.cos(boxes[:, 4:])), np.abs(np.sin(boxes[:, 4:]))
        sides = np.hstack([sides[:, :1] * cos + sides[:, 1:] * sin, sides[:, :1] * sin + sides[:, 1:] * cos])
    return np.hstack([centres - sides / 2, centres + sides / 2])


def _add_points(folder: Path) -> None:
    """Make poses of the rows of a probe that has none: their boxes, with two points on the diagonal."""
    data = data_file(folder)
    if not data.exists() or "kpt_shape" in data.read_text():
        return
    data.write_text(data.read_text() + "kpt_shape: [2, 2]\n")
    for file in folders_of(folder)[1].rglob("*.txt"):
        file.write_text("".join(map(_pose_of, file.read_text().splitlines())))


def _pose_of(row: str) -> str:
    label, *words = row.split()
    values = np.array(words, float).reshape(-1, 2)
    if len(values) == 2:
        (centre, sides), corner = values, values[0] - values[1] / 2
    else:
        corner, sides = values.min(0), np.ptp(values, 0)
        centre = corner + sides / 2
    numbers = [*centre, *sides, *(corner + sides / 3), *(corner + sides * 2 / 3)]
    return " ".join([label, *map(str, numbers)]) + "\n"


READS = {tool: {"yolo": partial(read, task=task)} for tool, task in TASKS.items()}
