"""DETR's image processor of transformers, given COCO's entries of each image, as its documentation shows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
from judge import ReadImage, ReadObject
from PIL import Image
from transformers import DetrImageProcessor

PACKAGES = dict.fromkeys(("transformers-detr", "transformers-detr-masks"), "transformers")


def read(folder: Path, masks: bool) -> list[ReadImage]:
    """Read images with Pillow, as the examples of transformers do, and their entries."""
    tables = json.loads((folder / "instances.json").read_text())
    names = {row["id"]: row["name"] for row in tables["categories"]}
    processor = DetrImageProcessor(do_resize=False, do_rescale=False, do_normalize=False, do_pad=False)
    images = []
    for row in tables["images"]:
        entries = [entry for entry in tables["annotations"] if entry["image_id"] == row["id"]]
        image = Image.open(folder / "images" / row["file_name"]).convert("RGB")
        target = {"image_id": row["id"], "annotations": entries}
        found = processor(image, target, return_segmentation_masks=masks, return_tensors="pt")
        images.append(_read_one(row["file_name"], found["pixel_values"][0], found["labels"][0], names))
    return images


def _read_one(name: str, pixels: object, target: dict[str, object], names: dict[int, str]) -> ReadImage:
    pixels = pixels.numpy().transpose(1, 2, 0).round().astype(np.uint8)
    height, width = pixels.shape[:2]
    boxes = target["boxes"].numpy().astype(float)
    if len(boxes) and boxes.max() <= 1:
        boxes = boxes * [width, height, width, height]
        boxes = np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])
    masks = target["masks"].numpy().astype(bool) if "masks" in target else [None] * len(boxes)
    fields = zip(target["class_labels"].tolist(), masks, boxes.tolist(), strict=True)
    return ReadImage(name, pixels, [ReadObject(names[label], mask, box) for label, mask, box in fields])


READS = {
    "transformers-detr": {"coco": partial(read, masks=False)},
    "transformers-detr-masks": {"coco": partial(read, masks=True)},
}
