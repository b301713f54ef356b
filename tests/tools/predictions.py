"""Predictions that equal the annotations of a probe, for evaluators: their score must be 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from panoptic_predictions import false_maps, perfect_maps
from pycocotools import mask as coco_mask

Result = dict[str, Any]
_POINTS = 3


def perfect_results(folder: Path) -> list[Result]:
    """Return the annotations of a probe as COCO's results, without regions that are to be ignored."""
    if (folder / "panoptic.json").exists():
        return perfect_maps(folder)
    tables = json.loads((folder / "instances.json").read_text())
    sizes = {row["id"]: (row["height"], row["width"]) for row in tables["images"]}
    as_masks = has_masks(folder)
    results: list[Result] = []
    for row in tables["annotations"]:
        if row.get("iscrowd") or row.get("ignore"):
            continue
        result = {"image_id": row["image_id"], "category_id": row["category_id"], "score": 0.9}
        shape = (
            encoded(row.get("segmentation") or [_corners(row)], *sizes[row["image_id"]]) if as_masks else row["bbox"]
        )
        results.append({**result, "segmentation" if as_masks else "bbox": shape})
    return results


def perfect_points(folder: Path) -> list[Result]:
    """Return the keypoints of a probe as COCO's results; empty if no object has them."""
    rows = json.loads((folder / "instances.json").read_text())["annotations"]
    keys = ("image_id", "category_id", "keypoints")
    return [{**{key: row[key] for key in keys}, "score": 0.9} for row in rows if row.get("keypoints")]


def with_false_ones(folder: Path) -> list[Result]:
    """Return perfect results and, before them by score, a wrong one on each image without annotations."""
    if (folder / "panoptic.json").exists():
        return false_maps(folder)
    results = perfect_results(folder)
    tables = json.loads((folder / "instances.json").read_text())
    empty = {row["id"] for row in tables["images"]} - {row["image_id"] for row in tables["annotations"]}
    return [*results, *({**results[0], "image_id": image_id, "score": 0.95} for image_id in sorted(empty))]


def _corners(row: dict[str, Any]) -> list[float]:
    x, y, width, height = row["bbox"]
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def has_masks(folder: Path) -> bool:
    """Whether objects of a probe have masks; then an object without one is found as its filled box."""
    rows = json.loads((folder / "instances.json").read_text())["annotations"]
    return any(row.get("segmentation") and not row.get("iscrowd") for row in rows)


def encoded(segmentation: Any, height: int, width: int) -> Result:
    """Return compressed run lengths; polygons of fewer than three points have no pixels."""
    if isinstance(segmentation, dict) and isinstance(segmentation["counts"], str):
        return segmentation
    if isinstance(segmentation, list):
        outlines = [polygon for polygon in segmentation if len(polygon) >= 2 * _POINTS]
        coded = coco_mask.merge(coco_mask.frPyObjects(outlines, height, width))
    else:
        coded = coco_mask.frPyObjects(segmentation, height, width)
    return {"size": coded["size"], "counts": coded["counts"].decode()}
