"""Run the tools of one environment on whole datasets, and compare each image with what segpaste read of it.

``compare.py NAME FOLDER RESULT``: below ``FOLDER/TOOL`` each folder is laid out as a probe. Its ``truth.json`` names
the images and their objects, with the file of their masks and pixels. No painted colour is needed, so photos are
compared, too: there each object must be found, and how each tool draws outlines of real things is a number, no fault.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from judge import Mask, ReadImage, ReadObject, _grown, _inside, _is_near
from observe import FORMAT, PERFECT, _told

LARGE_PX = 10_000
_SAME_IOU, _FOUND_IOU, _SAME_PIXELS = 0.98, 0.5, 12.0
Row = dict[str, Any]


def compared(folder: Path, run: Callable[[Path], Sequence[ReadImage]], work: Path) -> dict[str, Row]:
    """Return for each image of a dataset what a tool did with it; for ``""`` the error at which it stopped."""
    truth = json.loads((folder / "truth.json").read_text())
    try:
        by_name = {image.name: image for image in run(folder)}
    except (Exception, SystemExit) as error:
        return {"": {"why": f"stops: {_told(error, work)}"}}
    return {image["name"]: of_image(image, by_name.get(image["name"])) for image in truth}


def scored(folder: Path, run: Callable[[Path, Any], float], work: Path) -> dict[str, Row]:
    """Return for each image of a dataset what an evaluator makes of it, given perfect predictions of it alone."""
    from predictions import perfect_results  # only environments of evaluators have pycocotools

    tables, rows = json.loads((folder / "instances.json").read_text()), dict[str, Row]()
    alone = folder / "alone"
    alone.mkdir()
    for image in tables["images"]:
        found = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
        part = {**tables, "images": [image], "annotations": found}
        (alone / "instances.json").write_text(json.dumps(part))
        if not any(not (row.get("iscrowd") or row.get("ignore")) for row in found):
            continue  # nothing to find, so that there is no score
        try:
            score = run(alone, perfect_results(alone))
        except (Exception, SystemExit) as error:
            return {"": {"why": f"stops: {_told(error, work)}"}}
        rows[image["file_name"]] = {} if score > PERFECT else {"why": f"score {score:.3f}"}
    return rows


def of_image(truth: Row, image: ReadImage | None) -> Row:
    """Return what is wrong with an image, if anything, and the overlaps of its masks."""
    if image is None:
        return {"why": "image lost"} if any(not of["is_crowd"] for of in truth["objects"]) else {}
    with np.load(truth["file"]) as stored:
        pixels = stored["pixels"]
        masks = np.unpackbits(stored["masks"], axis=-1, count=pixels.shape[1]).astype(bool)
    if not truth["objects"]:
        return {"why": f"{image.objects[0].name} too many"} if image.objects else {}
    image = _unpadded(image, *pixels.shape[:2])
    if image.pixels.shape != pixels.shape:
        return {"why": "pixels of another size"}
    if np.abs(image.pixels.astype(int) - pixels).mean() > _SAME_PIXELS:
        return {"why": "other pixels"}
    left = list(image.objects)
    row: Row = {"iou": [], "px": [], "off": 0}
    objects = [(of, mask) for of, mask in zip(truth["objects"], masks, strict=True) if not of["is_crowd"]]
    for of, mask in objects:
        best = max(left, key=lambda other, of=of, mask=mask: _overlap(other, of, mask), default=None)
        if best is None or _overlap(best, of, mask) == 0:
            return {"why": f"{of['class']} lost"}
        left.remove(best)
        if (why := _why(best, of, mask, row)) is not None:
            return {**row, "why": f"{of['class']}: {why}"}
    strays = [other for other in left if not other.is_crowd]
    return {**row, "why": f"{strays[0].name} too many"} if strays else row


def _unpadded(image: ReadImage, height: int, width: int) -> ReadImage:
    """Return the middle (height, width) of an image that a tool has padded to a square; any other as it is."""
    rows, columns = image.pixels.shape[:2]
    if rows != columns or (height, width) == (rows, columns) or max(height, width) != rows:
        return image
    top, left = round((rows - height) / 2 - 0.1), round((columns - width) / 2 - 0.1)
    middle = slice(top, top + height), slice(left, left + width)
    objects = [
        replace(
            of,
            mask=None if of.mask is None else of.mask[middle],
            box=None if of.box is None else [edge - (left, top)[i % 2] for i, edge in enumerate(of.box)],
        )
        for of in image.objects
    ]
    return ReadImage(image.name, image.pixels[middle], objects)


def _why(best: ReadObject, of: Row, mask: Mask, row: Row) -> str | None:
    """Return what is wrong with the label of an object, if anything; add the overlap of its mask."""
    if best.is_crowd:
        return "is a crowd"
    if not best.has_id:
        return "has no id"
    if best.mask is not None:
        if not of["has_mask"]:
            return "has a mask"
        iou, off = _iou(best.mask, mask), int((best.mask & ~_near(mask)).sum() + (mask & ~_near(best.mask)).sum())
        row["iou"].append(round(iou, 4))
        row["px"].append(int(mask.sum()))
        row["off"] = max(row["off"], off)
        if off and iou < (_SAME_IOU if of["is_painted"] else _FOUND_IOU):
            return f"mask of IoU {iou:.2f}"
    boxes = [_inside(box, mask.shape) for box in of["boxes"]]
    if best.box is not None and boxes and not any(_is_near(_inside(best.box, mask.shape), box) for box in boxes):
        return "another box"
    return None


def _near(mask: Mask) -> Mask:
    """Return the pixels within two of a mask: tools draw an outline at whole pixels, and with its border or without."""
    return _grown(_grown(mask))


def _overlap(other: ReadObject, of: Row, mask: Mask) -> float:
    """Return how well a label of the class of an object lies on it; 0 for another class or place."""
    if other.name != of["class"]:
        return 0.0
    if other.mask is not None and other.mask.shape == mask.shape and other.mask.any() and mask.any() and of["has_mask"]:
        return _iou(other.mask, mask)
    if other.box is None or not of["boxes"]:
        return 0.0
    iou = max(_iou_of_boxes(_inside(other.box, mask.shape), _inside(box, mask.shape)) for box in of["boxes"])
    return iou if iou >= _FOUND_IOU or other.mask is None else 0.0


def _iou_of_boxes(one: Sequence[float], other: Sequence[float]) -> float:
    edges = np.array([one, other])
    sides = np.maximum(edges[:, 2:] - edges[:, :2], 0.5)
    common = np.maximum((edges[:, :2] + sides).min(0) - edges[:, :2].max(0), 0).prod()
    return float(common / (sides.prod(1).sum() - common))


def _iou(one: Mask, other: NDArray[np.bool_]) -> float:
    return float((one & other).sum() / max(1, (one | other).sum()))


def main(name: str, folder: Path, result: Path) -> None:
    """Compare all datasets of all tools of a program."""
    module, found = importlib.import_module(f"tool_{name}"), dict[str, dict[str, dict[str, Row]]]()
    for tool in module.PACKAGES:
        reads, scores = getattr(module, "READS", {}).get(tool, {}), getattr(module, "SCORES", {}).get(tool, {})
        for place in sorted((folder / tool).glob("*")):
            format, side = (place / FORMAT).read_text().split()
            if hasattr(module, "SIZE") and name != "smp":
                module.SIZE = int(side)
            if format in reads:
                found.setdefault(tool, {})[place.name] = compared(place, reads[format], folder)
            elif format in scores:
                found.setdefault(tool, {})[place.name] = scored(place, scores[format], folder)
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]))
