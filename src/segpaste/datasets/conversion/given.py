"""Losses that only the annotations as given tell: what reaches beyond the image, and keypoints that nothing holds.

Samples end at the border of their image. So a box, an outline or a keypoint beyond it is changed in every format that
is written from samples, and counted here; entries and label files that are copied keep it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from segpaste.datasets.contract import AnnotatedDataset, Crowd
from segpaste.datasets.entries import JsonRow, box_of, edges_of
from segpaste.datasets.formats.carried import REGION_KEYS
from segpaste.datasets.formats.tool_shapes import OTHER_BOXES, is_other_box
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.formats.yolo.labels import polygon_px
from segpaste.datasets.writers.format import POINTS, View, count_keys
from segpaste.datasets.writers.ledger import OF_ENTRIES, extent_of

CUT = "objects and regions beyond the image, which are cut at its border"
POINTS_BEYOND = "keypoints beyond the image"
_HALF_PX = 0.5
"""An outline that reaches less far covers no further pixel; the keypoints of COCO are as far from their edges."""
_DECIMALS = 1e-6
"""Fractions in label files of YOLO are rounded to six decimals."""


class Given(NamedTuple):
    """Annotation as given, in pixel edges.

    Attributes:
        outlines: polygons [x1, y1, x2, ...].
        box: (x1, y1, x2, y2); None without one.
        points: (x, y) of each labelled keypoint.
        slack: by how much the numbers of a box may be rounded.
    """

    outlines: Sequence[Sequence[float]]
    box: tuple[float, float, float, float] | None
    points: Sequence[tuple[float, float]]
    slack: float = 0.0


def given_losses(
    view: View,
    size: tuple[int, int],
    boxes: Sequence[Sequence[float]] | None,
    objects: Sequence[Given],
    crowds: Sequence[tuple[Crowd, Given]],
    told: Counter[str],
) -> Counter[str]:
    """Count what a format does not hold of the annotations of an image.

    Args:
        view: the written format.
        size: (H, W) of the image.
        boxes: box (x1, y1, x2, y2) of the mask of each object; None without masks.
        objects: objects with a mask, or of a dataset of boxes.
        crowds: the crowd and ignored regions, and the objects without a mask.
        told: the losses that the writer named.
    """
    lost, has_masks = Counter[str](), boxes is not None
    is_boxed = view.format == "voc" or (view.format == "yolo" and view.task in ("detect", "pose"))
    boxed = [given for crowd, given in crowds if crowd.box is not None]
    if not (view.format in OF_ENTRIES and has_masks):  # whose outlines are kept
        lost[CUT] = sum(_is_cut(given, size, is_boxed or not has_masks, has_masks) for given in objects)
    if boxes is not None:
        lost[OTHER_BOXES] = _num_other_boxes(view, size, is_boxed, boxes, objects, crowds)
    if is_boxed:
        lost[CUT] += sum(_is_cut(given, size, True, False) for given in boxed)
    if view.format in ("voc", "coco-panoptic"):
        regions = (given for crowd, given in crowds if crowd.box is None and crowd.mask.any())
        lost[CUT] += sum(_is_cut(given, size, False, True) for given in regions)
    if view.format in OF_ENTRIES or (view.format, view.task) == ("yolo", "pose"):
        lost[POINTS_BEYOND] = sum(_num_beyond(given, size) for given in objects)
    elif view.format != "coco-panoptic":  # whose writer counts them
        written = [*objects, *(boxed if view.format == "voc" else ())]
        lost[POINTS] = sum(bool(given.points) for given in written)
    return lost - told


def _num_other_boxes(
    view: View,
    size: tuple[int, int],
    is_boxed: bool,
    boxes: Sequence[Sequence[float]],
    objects: Sequence[Given],
    crowds: Sequence[tuple[Crowd, Given]],
) -> int:
    """Return the number of boxes that are not those of their masks, which are written; without those that are cut."""
    found = [(given, own, is_boxed) for given, own in zip(objects, boxes, strict=True)]
    if view.format in (*OF_ENTRIES, "voc", "coco-panoptic"):  # others hold no regions
        for crowd, given in crowds:
            if crowd.box is None and given.box is not None and crowd.mask.any():
                x, y, width, height = extent_of(crowd.mask)
                found.append((given, (x, y, x + width, y + height), False))
    return sum(
        given.box is not None and is_other_box(given.box, own) and not _is_cut(given, size, has_box, True)
        for given, own, has_box in found
    )


def num_other_boxes(photos: AnnotatedDataset, index: int, boxes: Mapping[int, Sequence[float]]) -> int:
    """Return how many objects and regions of an image have a box that is not that of their mask.

    Args:
        photos: a dataset of masks.
        index: index of the image.
        boxes: box (x1, y1, x2, y2) of the mask of each object, by the id of the annotation.
    """
    regions = [crowd for crowd in photos.crowds(index) if crowd.box is None and crowd.mask.any()]
    tight = {**boxes, **{crowd.annotation_id: edges_of(extent_of(crowd.mask)) for crowd in regions}}
    dataset, index = photos.place_of(index)
    given = {row["id"]: box_of(row) for row in dataset.annotation_rows(index) if row.get("id") in tight}
    return sum(box is not None and is_other_box(edges_of(box), tight[number]) for number, box in given.items())


def panoptic_keys(photos: AnnotatedDataset, index: int, crowds: Sequence[Crowd]) -> Counter[str]:
    """Count the further keys of a panoptic map, and of its segments of stuff, which only panoptic segments hold."""
    lost = Counter[str]()
    count_keys(lost, "panoptic maps", [photos.map_row(index)], ("image_id", "file_name"))
    others = {*photos.annotation_ids(index), *(crowd.annotation_id for crowd in crowds)}
    stuff = [row for row in photos.annotation_rows(index) if row["id"] not in others]
    count_keys(lost, "segments of stuff", stuff, REGION_KEYS)
    return lost


def of_entries(rows: Iterable[JsonRow]) -> list[Given]:
    """Return annotations of entries in COCO's form."""
    return [_of_entry(row) for row in rows]


def _of_entry(row: JsonRow) -> Given:
    polygons = row.get("segmentation")
    outlines = [part for part in polygons if len(part) >= 6] if isinstance(polygons, list) else []
    box = box_of(row)
    edges = None if box is None else (box[0], box[1], box[0] + box[2], box[1] + box[3])
    points = row.get("keypoints")
    points = points if isinstance(points, list) else []
    places = zip(points[::3], points[1::3], points[2::3], strict=False)
    return Given(outlines, edges, [(x + _HALF_PX, y + _HALF_PX) for x, y, v in places if v])


def of_rows(photos: YoloDataset, index: int, size: tuple[int, int]) -> list[Given]:
    """Return annotations of the rows of a label file of YOLO."""
    slack = _DECIMALS * max(size)
    kept = {*photos.annotation_ids(index)}
    return [_of_row(photos, row["values"], size, slack) for row in photos.rows(index) if row["line"] in kept]


def _of_row(photos: YoloDataset, values: Sequence[float], size: tuple[int, int], slack: float) -> Given:
    if photos.task == "segment":
        return Given([polygon_px(values, size)], None, (), slack)
    (x, y, width, height), (rows, cols) = values[:4], size
    box = (x - width / 2) * cols, (y - height / 2) * rows, (x + width / 2) * cols, (y + height / 2) * rows
    shape = photos.data.keypoint_shape
    if photos.task != "pose" or shape is None:
        return Given((), box, (), slack)
    places = [values[start : start + shape[1]] for start in range(4, len(values), shape[1])]
    points = [(p[0] * cols, p[1] * rows) for p in places if (p[2] > 0 if shape[1] == 3 else min(p) >= 0)]
    return Given((), box, points, slack)


def _is_cut(given: Given, size: tuple[int, int], has_box: bool, has_mask: bool) -> bool:
    """Return whether the image's border cuts an object: its outline, or the box that a format would hold."""
    height, width = size
    beyond = [
        max(-min(part[::2]), -min(part[1::2]), max(part[::2]) - width, max(part[1::2]) - height) > _HALF_PX
        for part in given.outlines
    ]
    if any(beyond) and has_mask:
        return True
    if given.box is None or not has_box:
        return False
    slack = _HALF_PX if has_mask else given.slack  # the box of an object with a mask is that of the mask
    x1, y1, x2, y2 = (float(np.float32(edge)) for edge in given.box)
    return min(x1, y1) < -slack or x2 > width + slack or y2 > height + slack


def _num_beyond(given: Given, size: tuple[int, int]) -> int:
    height, width = size
    return sum(not (0 <= x <= width and 0 <= y <= height) for x, y in given.points)
