"""Tools of the project's own environment: pycocotools, and torchvision's ``CocoDetection``."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
from judge import ReadImage, ReadObject
from predictions import Result, has_masks, perfect_points
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2

PACKAGES = {"pycocotools": "pycocotools", "torchvision": "torchvision"}


def score(folder: Path, results: list[Result]) -> float:
    """Return the AP of results, or that of keypoints if it is lower."""
    found = [(results, "segm" if has_masks(folder) else "bbox"), (perfect_points(folder), "keypoints")]
    return min(_score(folder, of_kind, kind) for of_kind, kind in found if of_kind)


def _score(folder: Path, results: list[Result], kind: str) -> float:
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "instances.json"))
        evaluation = COCOeval(truth, truth.loadRes(results), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


def read_torchvision(folder: Path) -> list[ReadImage]:
    """Read samples as they are given to a transform."""
    with contextlib.redirect_stdout(io.StringIO()):
        plain = CocoDetection(folder / "images", folder / "instances.json")
    keys = ["image_id", "boxes", *(["masks"] if has_masks(folder) else []), "labels", "iscrowd"]
    dataset = wrap_dataset_for_transforms_v2(plain, target_keys=keys)
    names = {number: row["name"] for number, row in plain.coco.cats.items()}
    images = []
    for image, target in (dataset[i] for i in range(len(dataset))):
        name = plain.coco.loadImgs(target["image_id"])[0]["file_name"]
        fields = [target.get(key, ()) for key in ("labels", "boxes", "iscrowd")]
        masks = [np.asarray(mask, bool) for mask in target.get("masks", ())]
        fields.append(masks if "masks" in keys else [None] * len(fields[0]))
        objects = [
            ReadObject(names[int(label)], mask, box.tolist(), bool(is_crowd))
            for label, box, is_crowd, mask in zip(*fields, strict=False)  # masks of objects without one are missing
        ]
        images.append(ReadImage(name, np.asarray(image), objects))
    return images


SCORES = {"pycocotools": {"coco": score}}
READS = {"torchvision": {"coco": read_torchvision}}
