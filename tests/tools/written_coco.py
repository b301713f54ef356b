"""Plain reader of what a converter wrote as COCO; its image files are opened as the sizes in the file say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from judge import Mask, ReadImage, ReadObject
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask

_POINTS = 3


def _same(name: str) -> str:
    return name


def read_written(
    probe: Path, file: Path, images: Path, name_of: Callable[[str], str] = _same, *, has_masks: bool = True
) -> list[ReadImage]:
    """Read a file of instances and its images; images without a file are left out.

    Args:
        probe: folder of the probe.
        file: the file.
        images: folder of the images.
        name_of: name in the probe of a file name.
        has_masks: False for a converter of boxes. For any other an annotation without a mask has lost it, unless
            objects of its image have none.
    """
    truth = json.loads((probe / "truth.json").read_text())
    all_masked = {image["name"] for image in truth if all(of["has_mask"] for of in image["objects"])}
    tables = json.loads(file.read_text())
    names = {row["id"]: row["name"] for row in tables["categories"]}
    read = []
    for image in tables["images"]:
        size = image["height"], image["width"]
        if not (images / image["file_name"]).exists():
            continue
        name = name_of(image["file_name"])
        rows = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
        lost = np.zeros(size, bool) if has_masks and name in all_masked else None
        masks = [_mask(row.get("segmentation"), size, lost) if has_masks else None for row in rows]
        objects = [_object(row, names[row["category_id"]], mask) for row, mask in zip(rows, masks, strict=True)]
        read.append(ReadImage(name, _pixels(images / image["file_name"], size), objects))
    return read


def _object(row: dict[str, Any], name: str, mask: Mask | None) -> ReadObject:
    x, y, width, height = row["bbox"]
    is_region = bool(row.get("iscrowd") or row.get("ignore"))
    points = np.reshape(row.get("keypoints") or [], (-1, 3)).tolist()
    return ReadObject(name, mask, (x, y, x + width, y + height), is_region, points, bool(row.get("id")))


def _mask(segmentation: Any, size: tuple[int, int], lost: Mask | None) -> Mask | None:
    if isinstance(segmentation, list):
        segmentation = [polygon for polygon in segmentation if len(polygon) >= 2 * _POINTS]
    if not segmentation:
        return lost
    if isinstance(segmentation, dict) and isinstance(segmentation["counts"], str):
        coded = segmentation
    else:
        coded = coco_mask.frPyObjects(segmentation, *size)
    mask: Mask = coco_mask.decode(coco_mask.merge(coded) if isinstance(coded, list) else coded).astype(bool)
    return mask


def _pixels(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the pixels [H, W, 3], turned by the EXIF orientation only if (H, W) in the file is that of the result."""
    with path.open("rb") as file, Image.open(file) as image:  # Pillow scrambles some TIFFs that it opens by their names
        turned = ImageOps.exif_transpose(image)
        stored = image
        if image.format == "TIFF":  # which Pillow turns as it reads it
            turned, stored = image, image.transpose(Image.Transpose.ROTATE_90)
        is_turned = stored.size[::-1] != size and turned.size[::-1] == size
        chosen = turned if is_turned else stored
        if chosen.mode.startswith("I"):
            chosen = Image.fromarray((np.asarray(chosen).astype(int) >> 8).astype(np.uint8))
        pixels: NDArray[np.uint8] = np.asarray(chosen.convert("RGB"))
    return pixels
