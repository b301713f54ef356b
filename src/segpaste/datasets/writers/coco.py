"""Formats of COCO's entries: instances with keypoints and crowds, and Roboflow's folders.

Forms of https://cocodataset.org/#format-data. Entries are written unchanged with all their keys, or made from samples,
with masks as compressed run lengths or given polygons. Rows are streamed, so a dataset need not fit into memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import REGION_KEYS
from segpaste.datasets.formats.coco.folders import COCO_FILE, ROBOFLOW_FILE
from segpaste.datasets.formats.instances import keypoint_rows
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.writers.format import (
    File,
    LabelledImage,
    Losses,
    SampleRows,
    View,
    WrittenFormat,
    WrittenSplit,
    made_of,
)
from segpaste.types import DenseSample

Crowds = Sequence[tuple[Crowd, JsonRow]]


class CocoInstances(WrittenFormat):
    """COCO instances, with keypoints and crowds."""

    name = "coco"
    title = "COCO"
    files = "SPLIT/NAME and annotations/instances_SPLIT.json; without splits images/NAME and annotations.json"
    holds = "masks, boxes, keypoints, crowds, all keys of entries"
    of_entries = True
    one_class_list = False
    by_stem = False
    keeps_extra_keys = True

    def split_name(self, split: str) -> str:
        """Return the name unchanged."""
        return split

    def photos_dir(self, split: str) -> str:
        """Return COCO's folder, or ``images`` without splits."""
        return split or "images"

    def tables(self, split: str) -> str:
        """Return the file of a split."""
        return f"annotations/instances_{split}.json" if split else COCO_FILE

    def labels(self, image: LabelledImage, view: View, losses: Losses) -> tuple[SampleRows, Sequence[File]]:
        """Return the entries of the annotations."""
        same = image.unchanged
        return SampleRows(image.entry, made_entries(image, view.categories) if same is None else [*same.rows]), ()

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield a file of all entries for each split."""
        for split in splits:
            annotations = (annotation for row in split.rows() for annotation in row.annotations)
            yield self.tables(split.name), table_lines(split, annotations)


class RoboflowCoco(CocoInstances):
    """Roboflow's export of COCO."""

    name = "roboflow"
    title = "Roboflow's COCO exports"
    files = f"SPLIT/NAME and SPLIT/{ROBOFLOW_FILE}"

    def split_name(self, split: str) -> str:
        """Return the name, ``train`` without splits."""
        return split or "train"

    def tables(self, split: str) -> str:
        """Return the file of a split, beside its images."""
        return f"{split}/{ROBOFLOW_FILE}"


def made_entries(image: LabelledImage, categories: Sequence[JsonRow]) -> list[JsonRow]:
    """Return entries made from a sample, each with the further keys of its original; still without ``id``.

    Boxes, [x, y, w, h], and areas are exactly those of the masks, where they are not given.

    Args:
        image: the image.
        categories: the category of each class, in the order of the classes.
    """
    sample, image_id = image.labelled, image.entry["id"]
    points: Sequence[JsonRow] = [{}] * sample.num_instances
    if sample.keypoints is not None:
        points = keypoint_rows(sample.keypoints)
    rows, regions = [], _regions(sample)
    facts = zip(sample.labels.tolist(), regions, points, image.rows, image.kept, strict=True)
    for label, region, own, origin, shape in facts:
        of_image = {"image_id": image_id, "category_id": categories[label]["id"]}
        row = {**of_image, **region, "iscrowd": 0, **without_region(origin), **made_of(origin)}
        rows.append({**row, **(own if categories[label].get("keypoints") else {}), **shape.entry})
    return rows + crowd_rows(image_id, categories, image.crowds)


def crowd_rows(image_id: int, categories: Sequence[JsonRow], crowds: Crowds) -> list[JsonRow]:
    """Return the annotations of crowds, ignored regions and objects without a mask, without ``id``; see `made_entries`.

    pycocotools and trainers read ``iscrowd``, not ``ignore``, so an ignored region has both.
    """
    rows = []
    for crowd, origin in crowds:
        row: JsonRow = {"image_id": image_id, "category_id": categories[crowd.label]["id"]}
        if crowd.xywh is None:
            row |= {**_region(crowd.mask), "iscrowd": 1, **({"ignore": 1} if crowd.is_ignored else {})}
        else:
            area = crowd.xywh[2] * crowd.xywh[3]
            row |= {"segmentation": [], "area": area, "bbox": [*crowd.xywh], "iscrowd": 0}
        if names := categories[crowd.label].get("keypoints"):
            row |= {"keypoints": [0] * (3 * len(names)), "num_keypoints": 0}
        rows.append({**row, **without_region(origin), **made_of(origin)})
    return rows


def camera_keys(sample: DenseSample) -> JsonRow:
    """Return the key of an image's entry for its camera; none without one."""
    if (camera := sample.camera_intrinsics) is None:
        return {}
    return {"camera_intrinsics": {"fx": camera.fx, "fy": camera.fy, "cx": camera.cx, "cy": camera.cy}}


def without_region(row: JsonRow) -> JsonRow:
    """Return the further keys of an entry, which are written as they are."""
    return {key: value for key, value in row.items() if key not in REGION_KEYS}


def _regions(sample: DenseSample) -> Iterator[JsonRow]:
    """Yield the annotation fields of each mask of a sample, or of each box if it has no masks."""
    if sample.instance_masks is not None:
        yield from map(_region, _array(sample.instance_masks))
        return
    yield from map(_boxed, sample.boxes.as_subclass(Tensor).double().tolist())


def _boxed(box: Sequence[float]) -> JsonRow:
    """Return the annotation fields of a box (x1, y1, x2, y2): area and box."""
    x1, y1, x2, y2 = box
    width, height = x2 - x1, y2 - y1
    return {"area": width * height, "bbox": [x1, y1, width, height]}


def _region(mask: NDArray[np.bool_]) -> JsonRow:
    """Return the annotation fields of a mask [H, W]: segmentation, area and box."""
    return {"segmentation": encode_mask(mask), "area": int(np.count_nonzero(mask)), "bbox": tight_xywh(mask)}


def tight_xywh(mask: NDArray[np.bool_]) -> list[int]:
    """Return the box of a mask [H, W] as [x, y, width, height] in pixels, zeros if it is empty."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return [0, 0, 0, 0]
    return [int(cols[0]), int(rows[0]), int(cols[-1] - cols[0]) + 1, int(rows[-1] - rows[0]) + 1]


def table_lines(split: WrittenSplit, annotations: Iterable[JsonRow]) -> Iterator[bytes]:
    """Yield the text of the tables of a split, with these annotations."""
    images = (row.image for row in split.rows())
    tables: dict[str, Any] = {**split.tables, "categories": split.categories, "images": images}
    return json_lines({**tables, "annotations": annotations})


def json_lines(tables: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the text of a JSON object, one row of a table per line; iterators are consumed lazily."""
    opening = "{"
    for name, value in tables.items():
        yield f"{opening}{json.dumps(name)}: ".encode()
        opening = ",\n"
        if value is None or isinstance(value, Mapping | str | int | float):
            yield json.dumps(value, allow_nan=False).encode()
            continue
        separator = "[\n"
        for row in value:
            yield (separator + json.dumps(row, separators=(",", ":"), allow_nan=False)).encode()
            separator = ",\n"
        yield b"[]" if separator == "[\n" else b"\n]"
    yield b"{}\n" if opening == "{" else b"}\n"


def _array(tensor: Tensor) -> NDArray[Any]:
    values: NDArray[Any] = tensor.as_subclass(Tensor).numpy()
    return values
