"""Evaluators beside pycocotools: faster-coco-eval, hotcoco, and torchmetrics from files and from tensors."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faster_coco_eval
import hotcoco
import torch
from hotcoco import panoptic
from panoptic_predictions import save
from predictions import Result, encoded, has_masks, perfect_points
from pycocotools import mask as coco_mask
from torchmetrics.detection import MeanAveragePrecision
from torchvision.ops import box_convert

PACKAGES = {
    "faster-coco-eval": "faster-coco-eval",
    "hotcoco": "hotcoco",
    "hotcoco-panoptic": "hotcoco",
    "torchmetrics": "torchmetrics",
    "torchmetrics-tensors": "torchmetrics",
}


def score_by(read: Any, evaluate: Any) -> Callable[[Path, list[Result]], float]:
    """Return the score function of an evaluator that has the interface of pycocotools.

    It returns the AP of results, or that of keypoints if it is lower.
    """

    def score(folder: Path, results: list[Result]) -> float:
        found = [(results, "segm" if has_masks(folder) else "bbox"), (perfect_points(folder), "keypoints")]
        return min(of(folder, of_kind, kind) for of_kind, kind in found if of_kind)

    def of(folder: Path, results: list[Result], kind: str) -> float:
        found = folder / "results.json"
        found.write_text(json.dumps(results))
        with contextlib.redirect_stdout(io.StringIO()):
            truth = read(str(folder / "instances.json"))
            evaluation = evaluate(truth, truth.loadRes(str(found)), kind)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return float(evaluation.stats[0])

    return score


def score_panoptic(folder: Path, results: list[Result]) -> float:
    """Return the panoptic quality of hotcoco."""
    file, maps = save(folder, results)
    with contextlib.redirect_stdout(io.StringIO()):
        found = panoptic.pq_compute(str(folder / "panoptic.json"), str(file), str(folder / "panoptic"), str(maps))
    return float(found["All"]["pq"])


def score_torchmetrics(folder: Path, results: list[Result]) -> float:
    """Return the mAP of torchmetrics from files, which `coco_to_tm` makes tensors of."""
    found = folder / "results.json"
    found.write_text(json.dumps(results))
    metric = MeanAveragePrecision(box_format="xywh", iou_type="segm" if has_masks(folder) else "bbox")
    metric.update(*metric.coco_to_tm(str(found), str(folder / "instances.json"), iou_type=metric.iou_type))
    return float(metric.compute()["map"])


def score_tensors(folder: Path, results: list[Result]) -> float:
    """Return the mAP of torchmetrics from tensors of all images."""
    tables = json.loads((folder / "instances.json").read_text())
    sizes = {row["id"]: (row["height"], row["width"]) for row in tables["images"]}
    truth = [of_image(tables["annotations"], image_id, size) for image_id, size in sizes.items()]
    found = [of_image(results, image_id, size) for image_id, size in sizes.items()]
    metric = MeanAveragePrecision(iou_type="segm" if has_masks(folder) else "bbox")
    metric.update(found, truth)
    return float(metric.compute()["map"])


def of_image(rows: list[Result], image_id: int, size: tuple[int, int]) -> dict[str, torch.Tensor]:
    """Return the annotations or results of an image as tensors."""
    rows = [row for row in rows if row["image_id"] == image_id]
    coded = [encoded(row["segmentation"], *size) for row in rows if row.get("segmentation")]
    masks = [torch.from_numpy(coco_mask.decode(each).astype(bool)) for each in coded]
    boxes = [row["bbox"] for row in rows if "bbox" in row]
    return {
        "labels": torch.tensor([row["category_id"] for row in rows], dtype=torch.int64),
        "masks": torch.stack(masks) if masks else torch.zeros((0, *size), dtype=torch.bool),
        "boxes": box_convert(torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4), "xywh", "xyxy"),
        "scores": torch.tensor([row.get("score", 1.0) for row in rows]),
        "iscrowd": torch.tensor([bool(row.get("iscrowd") or row.get("ignore")) for row in rows], dtype=torch.int64),
    }


SCORES = {
    "faster-coco-eval": {"coco": score_by(faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster)},
    "hotcoco": {"coco": score_by(hotcoco.COCO, hotcoco.COCOeval)},
    "hotcoco-panoptic": {"panoptic": score_panoptic},
    "torchmetrics": {"coco": score_torchmetrics},
    "torchmetrics-tensors": {"coco": score_tensors},
}
