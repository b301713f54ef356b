"""Tools of the project's own environment: pycocotools, and torchvision's ``CocoDetection``."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
from judge import ReadImage, ReadObject
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2

PACKAGES = {"pycocotools": "pycocotools", "torchvision": "torchvision"}


def score(folder: Path) -> float:
    """Return the AP of predictions that equal the annotations."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "instances.json"))
        found = truth.loadRes(perfect_results(folder))
        evaluation = COCOeval(truth, found, "segm" if has_masks(folder) else "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


def has_masks(folder: Path) -> bool:
    """Whether every annotation has a mask."""
    return all(row.get("segmentation") for row in json.loads((folder / "instances.json").read_text())["annotations"])


def perfect_results(folder: Path) -> list[dict[str, object]]:
    """Return the annotations as predictions, without crowds."""
    tables = json.loads((folder / "instances.json").read_text())
    sizes = {row["id"]: (row["height"], row["width"]) for row in tables["images"]}
    results: list[dict[str, object]] = []
    for row in tables["annotations"]:
        if row["iscrowd"]:
            continue
        result = {"image_id": row["image_id"], "category_id": row["category_id"], "score": 0.9}
        if not has_masks(folder):
            results.append({**result, "bbox": row["bbox"]})
            continue
        height, width = sizes[row["image_id"]]
        if isinstance(row["segmentation"], dict) and isinstance(row["segmentation"]["counts"], str):
            results.append({**result, "segmentation": row["segmentation"]})
            continue
        coded = coco_mask.frPyObjects(row["segmentation"], height, width)
        merged = coco_mask.merge(coded) if isinstance(coded, list) else coded
        results.append({**result, "segmentation": {**merged, "counts": merged["counts"].decode()}})
    return results


def read_torchvision(folder: Path) -> list[ReadImage]:
    """Read samples as they are given to a transform."""
    with contextlib.redirect_stdout(io.StringIO()):
        plain = CocoDetection(folder / "images", folder / "instances.json")
    keys = ["image_id", "boxes", "masks", "labels", "iscrowd"]
    dataset = wrap_dataset_for_transforms_v2(plain, target_keys=keys)
    names = {number: row["name"] for number, row in plain.coco.cats.items()}
    images = []
    for image, target in (dataset[i] for i in range(len(dataset))):
        name = plain.coco.loadImgs(target["image_id"])[0]["file_name"]
        fields = [target.get(key, ()) for key in ("labels", "masks", "boxes", "iscrowd")]
        objects = [
            ReadObject(names[int(label)], np.asarray(mask, bool), box.tolist(), bool(is_crowd))
            for label, mask, box, is_crowd in zip(*fields, strict=False)  # masks of objects without one are missing
        ]
        images.append(ReadImage(name, np.asarray(image), objects))
    return images


SCORES = {"pycocotools": {"coco": score}}
READS = {"torchvision": {"coco": read_torchvision}}
