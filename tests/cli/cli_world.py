"""Small datasets on disk and readers of what the command writes that share no code with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from pycocotools import mask as coco_mask

from on_disk import Mask, noise, of_runs, rectangle, runs

SIZES = ((37, 23), (17, 41), (29, 29), (31, 19), (41, 37))
"""(H, W) of the photos, all different, odd and unequal."""

CATEGORIES = [
    {"id": 90, "name": "zebra", "supercategory": "animal"},
    {"id": 3, "name": "car", "supercategory": "vehicle"},
    {"id": 7, "name": "cup", "supercategory": "kitchen"},
]
PANOPTIC_CATEGORIES = [
    {"id": 200, "name": "grass", "isthing": 0},
    {"id": 3, "name": "car", "isthing": 1},
    {"id": 90, "name": "zebra", "isthing": 1},
    {"id": 120, "name": "sky", "isthing": 0},
]
CROWD_ID = 9000


def decode(segmentation: Any, size: tuple[int, int] = (0, 0)) -> Mask:
    """Polygons in an image of (H, W), or compressed run lengths, by the letter of the format.

    Run lengths have 5 bits a character, and differences from the fourth number.
    """
    if isinstance(segmentation, list):
        return np.array(coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects(segmentation, *size))), bool)
    numbers: list[int] = []
    text, place = segmentation["counts"], 0
    while place < len(text):
        value = shift = 0
        while True:
            code = ord(text[place]) - 48
            place += 1
            value |= (code & 31) << shift
            shift += 5
            if not code & 32:
                break
        if code & 16:
            value -= 1 << shift
        numbers.append(value + numbers[-2] if len(numbers) > 2 else value)
    return of_runs({**segmentation, "counts": numbers})


def box_of(mask: Mask) -> list[int]:
    """[x, y, w, h] by looking at every pixel."""
    ys, xs = np.nonzero(mask)
    return [int(xs.min()), int(ys.min()), int(xs.max() - xs.min()) + 1, int(ys.max() - ys.min()) + 1]


def write_instances(folder: Path, sizes: tuple[tuple[int, int], ...] = SIZES) -> tuple[Path, Path]:
    """Photos with up to three rectangles each, one photo without, one crowd region; the JSON and the photos' folder."""
    images_dir = folder / "photos"
    images_dir.mkdir(parents=True)
    images, annotations = [], []
    for i, size in enumerate(sizes):
        image_id = 500 + i
        images.append({"id": image_id, "file_name": f"p{i}.png", "height": size[0], "width": size[1]})
        Image.fromarray(noise(size, i)).save(images_dir / f"p{i}.png")
        for j in range((i + 2) % 4 if len(sizes) > 1 else 2):
            mask = rectangle(size, 2 + 3 * j, 1 + 4 * j, 7 + 3 * j + i, 5 + 5 * j)
            annotations.append(
                {
                    "id": 1000 + 10 * i + j,
                    "image_id": image_id,
                    "category_id": (3, 7, 90)[j],
                    "segmentation": runs(mask),
                    "iscrowd": 0,
                    "bbox": [0, 0, 1, 1],  # wrong on purpose: boxes come from masks
                    "area": 1,
                }
            )
    crowd = runs(rectangle(sizes[0], 0, 0, 9, 9))
    row = {"id": CROWD_ID, "image_id": 500, "category_id": 3, "iscrowd": 1, "segmentation": crowd}
    return write_json(folder, images, [*annotations, row], CATEGORIES), images_dir


def write_json(folder: Path, images: Any, annotations: Any, categories: Any) -> Path:
    path = folder / "labels.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def masks_of(folder: Path) -> dict[int, Mask]:
    """Return the masks that `write_instances` has written, by the id of their annotation."""
    return {row["id"]: of_runs(row["segmentation"]) for row in read_json(folder / "labels.json")["annotations"]}


def write_panoptic(folder: Path, sizes: tuple[tuple[int, int], ...] = SIZES[:3]) -> tuple[Path, Path, Path]:
    """Photos half sky, half grass, with two things, an unlabelled strip, and a crowd in the first."""
    images_dir, maps_dir = folder / "photos", folder / "maps"
    images_dir.mkdir(parents=True)
    maps_dir.mkdir()
    images, annotations = [], []
    for i, size in enumerate(sizes):
        ids = np.full(size, 70_001)
        ids[size[0] // 2 :] = 300
        ids[-2:] = 0
        ids[3:9, 2:7] = 9_000_000 + i
        ids[8:13, 5:12] = 260
        rows = [(70_001, 120, 0), (300, 200, 0), (9_000_000 + i, 3, 0), (260, 90, 0)]
        if i == 0:
            ids[0:2, 0:2] = 77
            rows.append((77, 3, 1))
        segments = [{"id": s, "category_id": c, "iscrowd": crowd, "bbox": [0, 0, 1, 1]} for s, c, crowd in rows]
        images.append({"id": 40 + i, "file_name": f"q{i}.png", "height": size[0], "width": size[1]})
        annotations.append({"image_id": 40 + i, "file_name": f"q{i}.png", "segments_info": segments})
        Image.fromarray(noise(size, 100 + i)).save(images_dir / f"q{i}.png")
        rgb = np.stack([ids % 256, ids // 256 % 256, ids // 65536], -1).astype(np.uint8)
        Image.fromarray(rgb).save(maps_dir / f"q{i}.png")
    return write_json(folder, images, annotations, PANOPTIC_CATEGORIES), images_dir, maps_dir


def occupy(folder: Path) -> None:
    """Another file lies where the output shall go."""
    (folder / "out").mkdir()
    (folder / "out" / "mine.txt").write_text("mine")


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return all that a command has printed that refuses its input: one line."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("segpaste: error: ")
    assert err.count("\n") == 1
    return err


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def read_pixels(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.array(picture)


def check_instances(out: Path, photos: str = "images") -> list[dict[str, Any]]:
    """Every mask of a written dataset has exactly the stated box and area; returns the annotations but for crowds.

    Polygons, which objects keep that no paste touches, are returned as run lengths.
    """
    tables = read_json(out / "annotations.json")
    images = {row["id"]: row for row in tables["images"]}
    categories = {row["id"] for row in tables["categories"]}
    for row in images.values():
        assert read_pixels(out / photos / row["file_name"]).shape == (row["height"], row["width"], 3)
    for row in tables["annotations"]:
        image = images[row["image_id"]]
        size = image["height"], image["width"]
        if isinstance(row["segmentation"], list):
            assert not row.get("segpaste", {}).get("pasted")
            found = coco_mask.merge(coco_mask.frPyObjects(row["segmentation"], *size))
            row["segmentation"] = {**found, "counts": found["counts"].decode()}
        assert row["segmentation"]["size"] == [*size]
        mask = decode(row["segmentation"])
        assert row["area"] == mask.sum() > 0
        assert row["bbox"] == box_of(mask)
        assert row["iscrowd"] in (0, 1)
        assert row["category_id"] in categories
    assert [row["id"] for row in tables["annotations"]] == list(range(1, len(tables["annotations"]) + 1))
    return [row for row in tables["annotations"] if not row["iscrowd"]]


def pasted_of(out: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each image's origin with that of a paste into it."""
    tables = read_json(out / "annotations.json")
    images = {row["id"]: row["segpaste"] for row in tables["images"]}
    rows = [row for row in tables["annotations"] if row["segpaste"]["pasted"]]
    return [(images[row["image_id"]], row["segpaste"]) for row in rows]


def check_panoptic(out: Path) -> list[dict[str, Any]]:
    """Every segment of a written dataset has exactly the stated box and area; returns the annotations."""
    tables = read_json(out / "panoptic.json")
    images = {row["id"]: row for row in tables["images"]}
    categories = {row["id"]: row for row in tables["categories"]}
    for annotation in tables["annotations"]:
        rgb = read_pixels(out / "panoptic" / annotation["file_name"]).astype(np.int64)
        image = images[annotation["image_id"]]
        assert rgb.shape == (image["height"], image["width"], 3)
        ids = rgb[..., 0] + 256 * rgb[..., 1] + 65536 * rgb[..., 2]
        stated = {segment["id"]: segment for segment in annotation["segments_info"]}
        assert set(stated) == set(np.unique(ids).tolist()) - {0}
        for segment_id, segment in stated.items():
            mask = ids == segment_id
            assert segment["area"] == mask.sum()
            assert segment["bbox"] == box_of(mask)
            assert segment["iscrowd"] in (0, 1)
            assert ("segpaste" in segment) == bool(categories[segment["category_id"]]["isthing"])
    return list(tables["annotations"])
