"""Objects that no paste touches keep the numbers that the dataset has for them, in every format that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cli_world import read_json
from folder_runs import augment, check

from on_disk import tree
from segpaste.cli import main
from yolo_files import BOX, SIZE, SQUARE, TRIANGLE, photo, write_yolo

LONG = "0.12345678901234567"
QUAD = f"1 {LONG} 0.1 0.42 0.2 0.33 0.6 0.05 0.5"
"""Corners as annotators of aerial images draw them, not quite a rectangle, with more decimals than are needed."""
TURNED = "2 0.31234 0.212345 0.51234 0.412345 0.41234 0.612345 0.21234 0.412345"
FIVE = f"0 0.5123456789 0.1 0.9 0.1123 0.95 0.5 0.7 {LONG} 0.5 0.9"
POSE = f"{BOX} {LONG} 0.3 2 0.25 0.5 1"
LABELS = {
    "obb": ({"a": f"{QUAD}\n{TURNED}\n", "b": f"{SQUARE}\n"}, {}),
    "segment": ({"a": f"{FIVE}\n{SQUARE}\n", "b": f"{TRIANGLE}\n"}, {}),
    "detect": ({"a": f"1 {LONG} 0.4 0.2 0.4\n0 0.7 0.51 {LONG} 0.2\n", "b": f"{BOX}\n"}, {}),
    "pose": ({"a": f"{POSE}\n", "b": f"{POSE.replace('1 0.2', '1 0.3', 1)}\n"}, {"kpt_shape": [2, 3]}),
}
POLYGON = [1.13, 2.01, 9.77, 2.5, 9.1, 11.123456789]
BOXES = {"bbox": [20.1, 3.3, 7.7, 9.9], "area": 76.23}
POINTS = {"keypoints": [5.123456789, 4, 2, 0, 0, 0], "num_keypoints": 1}


def numbers(folder: Path) -> list[list[list[float]]]:
    files = sorted((folder / "labels/train").iterdir())
    return [[[*map(float, line.split())] for line in path.read_text().splitlines()] for path in files]


@pytest.mark.parametrize("task", [*LABELS])
def test_rows_of_yolo(task: str, tmp_path: Path) -> None:
    """A row that no paste touches is written with its own numbers, and a replay writes it, too."""
    labels, facts = LABELS[task]
    data = write_yolo(tmp_path / "in", dict(labels), flip_idx=[1, 0] if facts else None, **facts)
    words = ["source.mask_from=boxes"] if task in ("detect", "pose") else []
    assert augment(data, tmp_path / "none", "placement.paste_prob=0", *words) in (0, 1)
    given = {str(row) for rows in numbers(tmp_path / "in") for row in rows}
    assert {str(row) for rows in numbers(tmp_path / "none") for row in rows} == given
    assert augment(data, tmp_path / "out", "placement.scale_range=[0.5,0.7]", *words, num=9) == 0
    tables = read_json(tmp_path / "out/annotations.json")
    pasted = [[row["segpaste"]["pasted"] for row in rows] for rows in of_images(tables)]
    own = [str(row) in given for rows in numbers(tmp_path / "out") for row in rows]
    flat = [is_pasted for rows in pasted for is_pasted in rows]
    assert sum(own) > 4
    assert sum(flat) > 4
    assert not any(is_own and is_pasted for is_own, is_pasted in zip(own, flat, strict=True))
    assert check(data, tmp_path / "out") == 0
    assert main(["replay", str(tmp_path / "out"), "--dataset", str(data), "--out", str(tmp_path / "again")]) == 0
    assert tree(tmp_path / "again/labels/train") == tree(tmp_path / "out/labels/train")


def of_images(tables: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [[row for row in tables["annotations"] if row["image_id"] == image["id"]] for image in tables["images"]]


def write_coco(folder: Path, shape: dict[str, Any]) -> list[str]:
    """Write two images with one object each, and return the words that name them."""
    for name in "ab":
        photo(folder / f"{name}.png")
    images = [{"id": i, "file_name": f"{n}.png", "height": SIZE[0], "width": SIZE[1]} for i, n in enumerate("ab", 1)]
    category = {"id": 1, "name": "cup"} | ({"keypoints": ["left_x", "right_x"]} if "keypoints" in shape else {})
    rows = [{"id": i, "image_id": i, "category_id": 1, "iscrowd": 0, **shape} for i in (1, 2)]
    (folder / "in.json").write_text(json.dumps({"images": images, "categories": [category], "annotations": rows}))
    return [str(folder / "in.json"), "--images", str(folder)]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"segmentation": [POLYGON, [30.5, 3, 35.25, 3, 35, 9]], "bbox": [0, 0, 1, 1], "area": 1}, []),
        ({"segmentation": [POLYGON], "bbox": [0, 0, 1, 1], "area": 1, **POINTS}, []),
        (BOXES, ["source.mask_from=boxes"]),
        ({**BOXES, **POINTS}, ["source.mask_from=boxes"]),
    ],
    ids=["polygons", "keypoints", "boxes", "boxes with keypoints"],
)
def test_entries_of_coco(shape: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    """Boxes and areas of masks are those of the masks, as everywhere; all else is as it was read."""
    dataset = write_coco(tmp_path, shape)
    options = ["--num", "6", "--seed", "1", "min_area_px=4", "placement.scale_range=[0.5,0.7]", *words]
    assert main(["augment", *dataset, "--out", str(tmp_path / "out"), *options]) == 0
    rows = read_json(tmp_path / "out/annotations.json")["annotations"]
    kept = {key: value for key, value in shape.items() if "segmentation" not in shape or key not in ("bbox", "area")}
    is_kept = [all(row.get(key) == value for key, value in kept.items()) for row in rows]
    assert sum(is_kept) > 2
    assert not any(same and row["segpaste"]["pasted"] for same, row in zip(is_kept, rows, strict=True))
    replay = ["replay", str(tmp_path / "out"), "--dataset", dataset[0], *dataset[1:]]
    assert main([*replay, "--check", str(tmp_path / "out")]) == 0


def test_boxes_of_voc(tmp_path: Path) -> None:
    """XML has decimals; its pixels count from 1."""
    dataset = write_coco(tmp_path, BOXES)
    options = [
        "--num",
        "6",
        "--seed",
        "1",
        "--layout",
        "voc",
        "source.mask_from=boxes",
        "placement.scale_range=[0.5,0.7]",
    ]
    assert main(["augment", *dataset, "--out", str(tmp_path / "out"), *options]) == 0
    x, y, width, height = BOXES["bbox"]  # type: ignore[misc]
    expected, found = [x + 1, y + 1, x + width, y + height], list[list[float]]()
    for file in sorted((tmp_path / "out/Annotations").iterdir()):
        boxes = ElementTree.parse(file).getroot().iter("bndbox")
        found += [[float(box.findtext(edge) or "") for edge in ("xmin", "ymin", "xmax", "ymax")] for box in boxes]
    assert sum(box == expected for box in found) > 2
