"""Small COCO datasets on disk for the tests, and decoders that share no code with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask as coco_mask

from on_disk import Mask, noise, rectangle, runs

CATEGORIES = [{"id": 90, "name": "zebra"}, {"id": 3, "name": "car"}, {"id": 7, "name": "cup"}]
"""Out of order and with gaps: the classes are car, cup, zebra."""


def unroll(counts: list[int], size: tuple[int, int]) -> Mask:
    """The mask of uncompressed run lengths, pixel by pixel."""
    pixels = [bool(i % 2) for i, count in enumerate(counts) for _ in range(count)]
    return np.array(pixels, bool).reshape(size[1], size[0]).T


def image_row(image_id: int, size: tuple[int, int], file_name: str | None = None) -> dict[str, Any]:
    return {"id": image_id, "file_name": file_name or f"{image_id}.png", "height": size[0], "width": size[1]}


def annotation_row(annotation_id: int, image_id: int, segmentation: Any, category_id: int = 3, **more: Any) -> Any:
    return {
        "id": annotation_id,
        "image_id": image_id,
        "category_id": category_id,
        "segmentation": segmentation,
        "iscrowd": 0,
        "bbox": [0, 0, 1, 1],  # wrong on purpose: boxes come from masks
        **more,
    }


def write_coco(
    folder: Path, images: list[Any], annotations: list[Any], categories: list[Any] | None = None, *, photos: bool = True
) -> tuple[Path, Path]:
    """Write photos (noise, one per image row that has no file yet) and the JSON; return both paths."""
    images_dir = folder / "photos"
    images_dir.mkdir(exist_ok=True)
    for row in images:
        path = images_dir / row["file_name"]
        if photos and not path.exists():
            Image.fromarray(noise((row["height"], row["width"]), row["id"])).save(path)
    path = folder / "annotations.json"
    tables = {
        "images": images,
        "annotations": annotations,
        "categories": CATEGORIES if categories is None else categories,
    }
    path.write_text(json.dumps(tables))
    return images_dir, path


def write_many(folder: Path, num: int = 7, size: tuple[int, int] = (19, 23)) -> tuple[Path, Path]:
    """``num`` photos of differing size; photo i has i % 4 rectangles."""
    images, annotations = [], []
    for i in range(num):
        own = size[0] + i, size[1] - i
        images.append(image_row(100 + i, own))
        for j in range(i % 4):
            mask = rectangle(own, 2 + 3 * j, j, 9 + j, 12 - j)
            annotations.append(annotation_row(10 * i + j + 1, 100 + i, runs(mask), (3, 7, 90)[j]))
    return write_coco(folder, images, annotations)


def compressed(mask: Any) -> dict[str, Any]:
    """The mask as COCO's compressed run lengths."""
    encoded = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": list(mask.shape), "counts": encoded["counts"].decode()}
