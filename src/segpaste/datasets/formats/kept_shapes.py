"""Numbers of objects as the dataset has them: polygons, oriented boxes, boxes, keypoints.

A sample holds masks and float32 boxes. Written from these, an object that no paste touches would have another outline
of the same mask, corners of another rectangle, or other last bits. So its numbers are written again as they were read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, ids_of_instances
from segpaste.datasets.entries import JsonRow, box_of
from segpaste.datasets.formats.carried import POINT_KEYS
from segpaste.datasets.formats.format import WrittenTask
from segpaste.datasets.formats.geometry_keys import without_geometry
from segpaste.datasets.formats.instances import clipped_box, keypoints_of
from segpaste.types import DenseSample

POINTS_OF_ENTRIES = "keypoints that samples do not hold, of objects that are pasted, moved or touched"
"""Description of keypoints of regions, of objects without a mask, and of classes without one list of names."""
_LEAST_NUMBERS = 6
"""Numbers of the smallest polygon."""


@dataclass(frozen=True, slots=True)
class KeptShape:
    """Numbers of one object.

    Attributes:
        entry: keys of its entry of COCO that are written as they were read.
        line: numbers after the class in its row of a YOLO label file, which are written as they were read; None if the
            row is made from the sample.
        is_own: True for an object of the image that no paste touches.
    """

    entry: JsonRow = field(default_factory=dict)
    line: list[float] | None = None
    is_own: bool = False


def kept_shapes(
    dataset: AnnotatedDataset,
    index: int,
    ids: Sequence[int],
    before: DenseSample,
    after: DenseSample,
    task: WrittenTask,
) -> list[KeptShape]:
    """Return the numbers of each object of an augmented image; none of an object that is pasted or touched.

    Args:
        dataset: the dataset.
        index: index of the image in it.
        ids: id of the annotation of each object of ``before``.
        before: the image as it was read, in its own size.
        after: the augmented image.
        task: task of the written label files.
    """
    dataset, index = dataset.place_of(index)
    rows, lines = dataset.shape_rows(index, before.canvas_size), dataset.label_numbers(index, task)
    found = []
    for slot, place in enumerate(_places(before, after)):
        if place is None:
            found.append(KeptShape())
            continue
        number = ids[place]
        row = rows.get(number, {})
        has_points = after.keypoints is None or _is_same(before, place, after, slot, "keypoints")
        entry = _shape_keys(row, after, slot) | (_point_keys(row, after, slot) if has_points else {})
        found.append(KeptShape(entry, lines.get(number) if has_points or task != "pose" else None, is_own=True))
    return found


def _places(before: DenseSample, after: DenseSample) -> Iterator[int | None]:
    """Yield for each object of the augmented image the untouched object of the original that it is, or None.

    With masks, ids tell objects apart. Boxes alone stay in their order.
    """
    field_name = "boxes" if after.instance_masks is None else "instance_masks"
    ids = None if field_name == "boxes" or before.instance_ids is None else before.instance_ids.tolist()
    slot_of = {number: slot for slot, number in enumerate(ids or ())}
    labels, start = before.labels.tolist(), 0
    for slot, label in enumerate(after.labels.tolist()):
        if ids is not None and after.instance_ids is not None:
            places = [slot_of.get(int(after.instance_ids[slot]), len(ids))]
        else:
            places = list(range(start, len(labels)))
        is_own = (
            i for i in places if i < len(labels) and labels[i] == label and _is_same(before, i, after, slot, field_name)
        )
        if (place := next(is_own, None)) is not None:
            start = place + 1
        yield place


def _is_same(before: DenseSample, place: int, after: DenseSample, slot: int, name: str) -> bool:
    """Return whether a field of an object has the same values before and after."""
    one, other = getattr(before, name), getattr(after, name)
    if one is None or other is None:
        return one is other
    values = (field.as_subclass(Tensor)[number].numpy() for field, number in ((one, place), (other, slot)))
    return np.array_equal(*values)  # for bools in a tenth of the time that torch takes


def _shape_keys(row: JsonRow, sample: DenseSample, slot: int) -> JsonRow:
    """Return the polygons of an entry, or without masks the box that the object has."""
    if sample.instance_masks is not None:
        polygons = row.get("segmentation")
        is_whole = isinstance(polygons, list) and all(
            isinstance(part, list) and len(part) >= _LEAST_NUMBERS for part in polygons
        )
        return {"segmentation": polygons} if polygons and is_whole else {}
    return _box_keys(row, sample, slot)


def given_shapes(photos: AnnotatedDataset, index: int, sample: DenseSample) -> list[KeptShape]:
    """Return the box of each instance in all its digits, cut to the image; none for an instance with another box.

    Args:
        photos: the dataset.
        index: index of the image.
        sample: its sample; its boxes are float32.
    """
    rows = photos.shape_rows(index, sample.canvas_size)
    return [
        KeptShape(_box_keys({"bbox": rows.get(number, {}).get("bbox")}, sample, slot))
        for slot, number in enumerate(ids_of_instances(photos, index, sample))
    ]


def _box_keys(row: JsonRow, sample: DenseSample, slot: int) -> JsonRow:
    """Return the box of an entry, cut to the image, and its area; none if the object has another box."""
    box, area = box_of(row), row.get("area")
    if box is None or (inside := clipped_box(box, sample.canvas_size)) is None:
        return {}
    if not np.allclose(np.array(inside), sample.boxes.as_subclass(Tensor)[slot].numpy(), rtol=1e-6, atol=0):
        return {}
    if inside != (box[0], box[1], box[0] + box[2], box[1] + box[3]):
        box, area = [*inside[:2], inside[2] - inside[0], inside[3] - inside[1]], None
    return {"area": area if isinstance(area, int | float) else box[2] * box[3], "bbox": box}


def given_points(row: JsonRow) -> JsonRow:
    """Return the keys of the keypoints of an entry as they are; empty if they are no finite numbers, three a point."""
    points, num = row.get("keypoints"), row.get("num_keypoints")
    if not isinstance(points, list) or not points or len(points) % 3 or not all(map(_is_finite, points)):
        return {}
    return {"keypoints": points, **({"num_keypoints": num} if type(num) is int else {})}


def has_points(row: JsonRow) -> bool:
    """Return whether an entry has a labelled keypoint."""
    points = row.get("keypoints")
    return isinstance(points, list) and any(points[2::3])


def num_with_points(sample: DenseSample, rows: Sequence[JsonRow]) -> int:
    """Return the number of objects with a labelled keypoint, in the sample or in their entries."""
    own = [False] * len(rows) if sample.keypoints is None else (sample.keypoints[..., 2] > 0).any(1).tolist()
    return sum(is_own or has_points(row) for is_own, row in zip(own, rows, strict=True))


def entry_points_px(row: JsonRow) -> list[float] | None:
    """Return the keypoints of an entry in pixel edges, as float32: x, y, v of each; None without any.

    Coordinates of COCO are pixels, whose centres are at i + 0.5.
    """
    if not (points := given_points(row).get("keypoints")):
        return None
    return [
        float(np.float32(value + 0.5)) if i % 3 < 2 and points[i - i % 3 + 2] else value
        for i, value in enumerate(points)
    ]


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _point_keys(row: JsonRow, sample: DenseSample, slot: int) -> JsonRow:
    """Return the keypoints of an entry if the object has all of them."""
    points: Any = row.get("keypoints")
    if sample.keypoints is None or sample.keypoint_schema is None or not points:
        return {}
    size = 3 * sample.keypoint_schema.num_points
    if len(points) != size or sum(v > 0 for v in points[2::3]) != int((sample.keypoints[slot, :, 2] > 0).sum()):
        return {}
    own = keypoints_of([points], sample.keypoint_schema, sample.canvas_size)[0]
    keys = ("keypoints", "num_keypoints")
    return {key: row[key] for key in keys if key in row} if torch.equal(own, sample.keypoints[slot]) else {}


def placed_rows(
    photos: AnnotatedDataset,
    after: DenseSample,
    rows: Sequence[JsonRow],
    shapes: Sequence[KeptShape],
    lost: Counter[str],
) -> list[JsonRow]:
    """Return the further keys of the objects of an augmented image that hold where they are now; see `placed_keys`.

    Args:
        photos: the dataset.
        after: the augmented image.
        rows: further keys of each object, with the keypoints of its original.
        shapes: the given numbers of each object; empty if none is where it was.
        lost: the counts.
    """
    categories = sorted(photos.categories, key=lambda row: int(row["id"]))
    named = {label for label, row in enumerate(categories) if after.keypoints is not None and row.get("keypoints")}
    facts = zip(rows, shapes or [KeptShape()] * len(rows), after.labels.tolist(), strict=True)
    return [placed_keys(row, lost, is_own=shape.is_own, in_sample=label in named) for row, shape, label in facts]


def placed_keys(row: JsonRow, lost: Counter[str], *, is_own: bool, in_sample: bool) -> JsonRow:
    """Return the further keys of an object or a region that hold where it is now; others are counted.

    Args:
        row: its further keys, with the keypoints of its original.
        lost: the counts.
        is_own: True if it is where it was, and no paste touches it.
        in_sample: True if the sample has its keypoints.
    """
    points = given_points(row)
    row = {key: value for key, value in row.items() if key not in POINT_KEYS}
    if is_own:
        return row if in_sample else {**row, **points}
    if not in_sample and has_points(points):
        lost[POINTS_OF_ENTRIES] += 1
    return without_geometry(row, "objects", lost)
