"""Tools of the project's own environment: pycocotools, and torchvision's ``CocoDetection``."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
from judge import ReadImage, ReadObject
from predictions import Result, has_masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2

PACKAGES = {"pycocotools": "pycocotools", "torchvision": "torchvision"}


def score(folder: Path, results: list[Result]) -> float:
    """Return the AP of results."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "instances.json"))
        evaluation = COCOeval(truth, truth.loadRes(results), "segm" if has_masks(folder) else "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


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
