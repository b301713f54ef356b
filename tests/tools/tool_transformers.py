"""Image processors of transformers: DETR's for COCO's entries and panoptic maps, others for maps of classes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
from judge import ReadImage, ReadObject
from map_probes import GROUND
from PIL import Image
from transformers import DetrImageProcessor, Mask2FormerImageProcessor

PACKAGES = dict.fromkeys(
    ("transformers-detr", "transformers-detr-masks", "transformers-detr-panoptic", "transformers-mask2former"),
    "transformers",
)


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


def read_panoptic(folder: Path) -> list[ReadImage]:
    """Read images with Pillow, and their segments and maps."""
    tables = json.loads((folder / "panoptic.json").read_text())
    names = {row["id"]: row["name"] for row in tables["categories"]}
    files = {row["id"]: row["file_name"] for row in tables["images"]}
    processor = DetrImageProcessor(format="coco_panoptic", do_rescale=False, do_normalize=False, do_pad=False)
    images = []
    for row in tables["annotations"]:
        file = files[row["image_id"]]
        image = Image.open(folder / "images" / file).convert("RGB")
        options = {"masks_path": folder / "panoptic", "size": _size_of(image)}
        found = processor(image, row, return_tensors="pt", **options)
        images.append(_without_ground(_read_one(file, found["pixel_values"][0], found["labels"][0], names)))
    return images


def read_maps(folder: Path) -> list[ReadImage]:
    """Read images and maps of classes with Pillow."""
    if (folder / "classes.json").exists():
        names = dict(enumerate(json.loads((folder / "classes.json").read_text())["names"]))
    else:
        names = dict(enumerate((folder / "classes.txt").read_text().split("\n")[:-1]))
    processor = Mask2FormerImageProcessor(do_rescale=False, do_normalize=False, size_divisor=0)
    images = []
    for name in [image["name"] for image in json.loads((folder / "truth.json").read_text())]:
        image = Image.open(folder / "images" / name).convert("RGB")
        values = Image.open(next((folder / "semantic").rglob(f"{Path(name).stem}.png")))
        options = {"segmentation_maps": [np.array(values)], "size": _size_of(image)}
        found = processor([image], return_tensors="pt", **options)
        pixels = found["pixel_values"][0].numpy().transpose(1, 2, 0).round().astype(np.uint8)
        fields = zip(found["class_labels"][0].tolist(), found["mask_labels"][0].numpy() > 0, strict=True)
        painted = [(label, mask) for label, mask in fields if not mask[0, 0]]  # nothing is painted in the corner
        images.append(
            ReadImage(name, pixels, [ReadObject(names.get(label, f"{label}"), mask) for label, mask in painted])
        )
    return images


def _without_ground(image: ReadImage) -> ReadImage:
    return ReadImage(image.name, image.pixels, [found for found in image.objects if found.name != GROUND])


def _size_of(image: Image.Image) -> dict[str, int]:
    """Return the size to which an image is resized, with its map: its own."""
    return {"height": image.height, "width": image.width}


READS = {
    "transformers-detr-panoptic": {"panoptic": read_panoptic},
    "transformers-mask2former": {"maps": read_maps},
    "transformers-detr": {"coco": partial(read, masks=False)},
    "transformers-detr-masks": {"coco": partial(read, masks=True)},
}
