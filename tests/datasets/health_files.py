"""The same small dataset in every format, for checks: images 0 to 3 of 64 x 48 pixels, each with a 20 x 20 cup."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from on_disk import noise, rectangle, runs

SIZE = (48, 64)
CUP = rectangle(SIZE, 10, 20, 30, 40)
CORNERS = [[20, 10], [40, 10], [40, 30], [20, 30]]
NUM = 4


def photo(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(SIZE, seed)).save(path, quality=95)


def as_json(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def png(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint8)).save(path)


def coco(root: Path) -> Path:
    images = [{"id": i, "file_name": f"{i}.png", "height": 48, "width": 64} for i in range(NUM)]
    rows = [
        {"id": i + 1, "image_id": i, "category_id": 1, "segmentation": runs(CUP), "bbox": [20, 10, 20, 20]}
        for i in range(NUM)
    ]
    document = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "cup"}]}
    as_json(root / "annotations/instances_train.json", document)
    return root / "train"


def lvis(root: Path) -> Path:
    images_dir = coco(root)
    path = root / "annotations/instances_train.json"
    document = json.loads(path.read_text())
    for row in document["images"]:
        row |= {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    as_json(root / "annotations/lvis_train.json", document)
    path.unlink()
    return images_dir


def panoptic(root: Path) -> Path:
    ids = np.full(SIZE, 3)
    ids[CUP] = 7
    segments = [{"id": 3, "category_id": 2, "bbox": [0, 0, 64, 48]}, {"id": 7, "category_id": 1}]
    rows = [{"image_id": i, "file_name": f"{i}.png", "segments_info": segments} for i in range(NUM)]
    images = [{"id": i, "file_name": f"{i}.png", "height": 48, "width": 64} for i in range(NUM)]
    categories = [{"id": 1, "name": "cup", "isthing": 1}, {"id": 2, "name": "sky", "isthing": 0}]
    document = {"images": images, "annotations": rows, "categories": categories}
    as_json(root / "annotations/panoptic_train.json", document)
    for i in range(NUM):
        png(root / f"annotations/panoptic_train/{i}.png", np.stack([ids, ids * 0, ids * 0], -1))
    return root / "train"


def yolo(root: Path) -> Path:
    outline = " ".join(f"{x / 64} {y / 48}" for x, y in CORNERS)
    for i in range(NUM):
        (root / "labels").mkdir(parents=True, exist_ok=True)
        (root / f"labels/{i}.txt").write_text(f"0 {outline}\n")
    (root / "train.txt").write_text("".join(f"images/{i}.png\n" for i in range(NUM)))
    (root / "data.yaml").write_text("train: train.txt\nnames: [cup]\n")
    return root / "images"


def voc(root: Path) -> Path:
    box = "<bndbox><xmin>21</xmin><ymin>11</ymin><xmax>40</xmax><ymax>30</ymax></bndbox>"
    for i in range(NUM):
        (root / "Annotations").mkdir(parents=True, exist_ok=True)
        (root / f"Annotations/{i}.xml").write_text(
            f"<annotation><filename>{i}.png</filename><size><width>64</width><height>48</height></size>"
            f"<object><name>cup</name>{box}</object></annotation>"
        )
    return root / "JPEGImages"


def voc_masks(root: Path) -> Path:
    for i in range(NUM):
        png(root / f"SegmentationObject/{i}.png", CUP * 1)
        png(root / f"SegmentationClass/{i}.png", CUP * 1)
    (root / "ImageSets/Segmentation").mkdir(parents=True)
    (root / "ImageSets/Segmentation/train.txt").write_text("".join(f"{i}\n" for i in range(NUM)))
    (root / "class_names.txt").write_text("background\ncup\n")
    return root / "JPEGImages"


def cvat(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    points = ";".join(f"{x},{y}" for x, y in CORNERS)
    images = "".join(
        f'<image id="{i}" name="{i}.png" width="64" height="48"><polygon label="cup" points="{points}"/></image>'
        for i in range(NUM)
    )
    (root / "annotations.xml").write_text(f"<annotations><version>1.1</version>{images}</annotations>")
    return root / "images"


def labelme(root: Path) -> Path:
    for i in range(NUM):
        shape = {"label": "cup", "points": CORNERS, "shape_type": "polygon"}
        document = {"shapes": [shape], "imagePath": f"{i}.png", "imageHeight": 48, "imageWidth": 64}
        as_json(root / f"{i}.json", document)
    return root


def label_studio(root: Path) -> Path:
    points = [[x / 0.64, y / 0.48] for x, y in CORNERS]
    result = {"id": "a", "type": "polygonlabels", "value": {"points": points, "polygonlabels": ["cup"]}}
    result |= {"to_name": "image", "from_name": "l", "original_width": 64, "original_height": 48, "image_rotation": 0}
    tasks = [
        {"id": i, "data": {"image": f"/data/upload/{i}.png"}, "annotations": [{"id": i, "result": [result]}]}
        for i in range(NUM)
    ]
    as_json(root / "project.json", tasks)
    return root / "images"


def via(root: Path) -> Path:
    numbers = {"all_points_x": [x for x, _ in CORNERS], "all_points_y": [y for _, y in CORNERS]}
    region = {"shape_attributes": {"name": "polygon", **numbers}, "region_attributes": {"kind": "cup"}}
    entry = {"size": 7, "regions": [region], "file_attributes": {}}
    as_json(root / "via_region_data.json", {f"{i}.png7": {"filename": f"{i}.png", **entry} for i in range(NUM)})
    return root


def ndjson(root: Path) -> Path:
    row = [0, *(value / side for corner in CORNERS for value, side in zip(corner, (64, 48), strict=True))]
    record = {"type": "image", "width": 64, "height": 48, "split": "train", "annotations": {"segments": [row]}}
    lines = [{"type": "dataset", "task": "segment", "class_names": {"0": "cup"}}]
    lines += [{"file": f"{i}.png", **record} for i in range(NUM)]
    root.mkdir(parents=True, exist_ok=True)
    (root / "cups.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root / "images/train"


def label_maps(root: Path) -> Path:
    for i in range(NUM):
        png(root / f"semantic/train/{i}.png", CUP * 1)
        png(root / f"instances/train/{i}.png", CUP * 1)
    (root / "classes.txt").write_text("floor\ncup\n")
    return root / "images/train"


FORMATS: dict[str, Callable[[Path], Path]] = {
    "coco": coco,
    "lvis": lvis,
    "panoptic": panoptic,
    "yolo": yolo,
    "voc": voc,
    "voc masks": voc_masks,
    "cvat": cvat,
    "labelme": labelme,
    "label-studio": label_studio,
    "via": via,
    "ndjson": ndjson,
    "label-maps": label_maps,
}
"""Functions that write the annotations of a format below a folder, and return the folder of its images."""


def write(root: Path, name: str) -> Path:
    """Write a dataset with good images; return the folder of its images."""
    folder = FORMATS[name](root)
    for i in range(NUM):
        photo(folder / f"{i}.png", i)
    return folder
