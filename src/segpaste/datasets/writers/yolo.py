"""Format of YOLO: a text file of labels for each image, and a data YAML.

    data.yaml               splits, class names, keypoints
    images/train/NAME.png   the image
    labels/train/NAME.txt   one object per line

A polygon has neither parts nor holes; `segpaste.datasets.formats.yolo.outlines` describes the conversion of masks to
polygons and back. These files cannot hold crowd regions. Readers keep one of several equal rows, so one is written.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.formats.carried import POINT_KEYS
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES
from segpaste.datasets.formats.format import WrittenTask
from segpaste.datasets.formats.kept_shapes import has_points
from segpaste.datasets.formats.yolo.data import SPLIT_KEYS, label_path
from segpaste.datasets.formats.yolo.format import split_keys
from segpaste.datasets.formats.yolo.labels import RowKey, given_text, label_text, text_key
from segpaste.datasets.formats.yolo.outlines import given_corners, is_rectangle, least_rectangle, outline
from segpaste.datasets.writers.format import (
    File,
    LabelledImage,
    Losses,
    View,
    WrittenFormat,
    WrittenSplit,
    count_lost,
    count_split,
)
from segpaste.types import DenseSample, KeypointSchema

_YAML_KEYS = {"path", "train", "val", "validation", "test", "nc", "names", "kpt_shape", "flip_idx", "kpt_names"}
_ESCAPED = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""Characters of names that YAML reads as line ends, and those that UTF-8 does not have."""
_NOT_LABELLED = -0.01
"""Both coordinates of an unlabelled keypoint of two numbers: the largest distance outside that Ultralytics accepts."""
Box = tuple[float, float, float, float]


class YoloLabels(WrittenFormat):
    """YOLO labels of one task."""

    name = "yolo"
    title = "YOLO"
    files = "images/SPLIT/NAME, labels/SPLIT/NAME.txt and data.yaml"
    holds = "masks, or boxes, or boxes with keypoints, or oriented boxes, depending on --task"
    suffixes = IMAGE_SUFFIXES
    num_classes = range(1, sys.maxsize)

    def photos_dir(self, split: str) -> str:
        """Return the folder of a split."""
        return f"images/{split}"

    def folders(self, split: str) -> tuple[str, ...]:
        """Return the folders of images and labels."""
        return f"images/{split}", f"labels/{split}"

    def lost_name(self, name: str, names: Sequence[str], trained: str | None = None) -> str:
        """Return what the data YAML does not hold of the name of a split; empty if its key says the same."""
        keys = split_keys(names, trained)
        if (key := keys[name]) is None:
            return "which data.yaml does not name"
        if [*keys.values()].count(key) > 1:
            return f"which data.yaml joins with others as {key}"
        return "" if name == trained or name.lower().startswith(key) else f"which data.yaml calls {key}"

    def label_files(self, image: LabelledImage, view: View, losses: Losses) -> Iterator[File]:
        """Yield the label file."""
        path = label_path(Path(self.photos_dir(view.split), image.file_name)).as_posix()
        if image.unchanged is not None and image.unchanged.text is not None:
            yield path, image.unchanged.text.encode()
            return
        sample, has_boxes = image.labelled, view.task in ("detect", "pose")
        boxed = [(crowd.label, box) for crowd, box, _ in image.boxed] if has_boxes else []
        entries = [{**row, **shape.entry} for row, shape in zip(image.rows, image.kept, strict=True)]
        lines = [shape.line for shape in image.kept]
        text = sample_labels(sample, view.task, view.point_size, entries, boxed, lines)
        if num := sample.num_instances + len(boxed) - text.count("\n"):
            losses["rows equal to another of their label file"] += num
        count_lost(image, view, losses, points=view.task == "pose", boxes=has_boxes, held=POINT_KEYS)
        if num := sum(has_points(row) for *_, row in image.boxed) if has_boxes else 0:
            losses["keypoints of objects without a mask"] += num
        if view.task != "segment" and sample.instance_masks is not None:
            losses[f"masks of objects (the task {view.task} has none)"] += num_unheld_masks(sample, entries, view.task)
        yield path, text.encode()

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield the data YAML."""
        view, copied = splits[0].view, splits[0].copied
        trained = None if copied is None else view.split
        names = [*(split.name for split in splits), *(copied or ())]
        for split in splits:
            count_split(losses, split, ("keypoints",) if view.task == "pose" else ())
            if told := self.lost_name(split.name, names, trained):
                losses[f"images of the split '{split.name}', {told}"] += sum(1 for _ in split.rows())
        schema = view.schema if view.task == "pose" else None
        text = data_yaml(view.names, yaml_splits(names, trained), schema, view.point_size, view.source_yaml)
        yield "data.yaml", text.encode()


def num_unheld_masks(sample: DenseSample, entries: Sequence[Mapping[str, Any]], task: WrittenTask) -> int:
    """Return the number of masks that a task without masks does not hold; oriented boxes hold rectangles."""
    size, masks = sample.canvas_size, sample.instance_masks
    if masks is None or task != "obb":
        return sample.num_instances
    return sum(
        given_corners(row.get("segmentation"), size) is None and not is_rectangle(mask)
        for row, mask in zip(entries, masks.as_subclass(Tensor).numpy(), strict=True)
    )


def yaml_splits(names: Sequence[str], trained: str | None = None) -> dict[str, Any]:
    """Return the split keys of a data YAML, each with one or several folders of images.

    Args:
        names: names of the splits, such as ``train2017``; a name without a key is left out, see `YoloLabels.lost_name`.
        trained: name of the split for ``train``, even if it begins with no key.
    """
    found: dict[str, list[str]] = {}
    for name, key in split_keys(names, trained).items():
        if key is not None:  # others may be held out, so they are not used for training
            found.setdefault(key, []).append(f"images/{name}")
    if "val" not in found:
        warnings.warn("data.yaml: expected a split to validate on, got none; add the key val to it", stacklevel=2)
    return {key: found[key][0] if len(found[key]) == 1 else found[key] for key in SPLIT_KEYS if key in found}


def sample_labels(
    sample: DenseSample,
    task: WrittenTask,
    point_size: int = 3,
    entries: Sequence[Mapping[str, Any]] = (),
    more: Sequence[tuple[int, Box]] = (),
    lines: Sequence[Sequence[float] | None] = (),
) -> str:
    """Return the text of the label file of a sample, without equal rows; empty without objects.

    Args:
        sample: a sample, with instance masks for the tasks ``segment`` and ``obb``, with keypoints for ``pose``.
        task: task of the labels.
        point_size: numbers per keypoint: 2 for x and y, 3 with visibility.
        entries: the COCO entry of each object, whose rectangular polygons give the corners of oriented boxes.
        more: further objects of the tasks ``detect`` and ``pose``, without keypoints: class and box (x1, y1, x2, y2).
        lines: for each object of the sample, the numbers of its row if they are given; none by default.

    Raises:
        ValueError: the sample lacks what the task needs.
    """
    rows = label_rows(sample, task, point_size, entries, more, lines)
    first = dict[RowKey, str]()
    for row in rows:
        first.setdefault(text_key(row), row)
    return "".join(first.values())


def label_rows(
    sample: DenseSample,
    task: WrittenTask,
    point_size: int = 3,
    entries: Sequence[Mapping[str, Any]] = (),
    more: Sequence[tuple[int, Box]] = (),
    lines: Sequence[Sequence[float] | None] = (),
) -> list[str]:
    """Return the row of each object, even if it equals another; the arguments are those of `sample_labels`."""
    if task == "pose":
        rows = list(_poses(sample, point_size))
    else:
        rows = list(_rectangles(sample, entries) if task == "obb" else _ROWS[task](sample))
    boxes = _fractions([box for _, box in more], sample.canvas_size)
    rows += [[*box, *_no_points(sample, point_size)] if task == "pose" else box for box in boxes]
    labels = [*sample.labels.tolist(), *(label for label, _ in more)]
    given = [*lines, *[None] * (len(rows) - len(lines))]
    return [
        label_text(label, row) if own is None else given_text(label, own)
        for label, row, own in zip(labels, rows, given, strict=True)
    ]


def data_yaml(
    class_names: Sequence[str],
    splits: Mapping[str, str | Sequence[str]],
    schema: KeypointSchema | None = None,
    point_size: int = 3,
    others: Mapping[str, Any] | None = None,
) -> str:
    """Return the text of the data YAML of a folder.

    Args:
        class_names: names of the classes.
        splits: ``train``, ``val`` and ``test``, as far as they exist, to one or several folders of their images.
        schema: schema of pose labels.
        point_size: numbers per keypoint.
        others: the keys of the YAML of a converted dataset; without ``flip_idx`` among them, it is not known.
    """
    import yaml

    facts: dict[str, Any] = {**splits, "nc": len(class_names), "names": dict(enumerate(class_names))}
    if schema is not None:
        facts["kpt_shape"] = [schema.num_points, point_size]
        if others is None or "flip_idx" in others:
            facts["flip_idx"] = list(schema.flip_order)
        facts["kpt_names"] = {label: list(schema.names) for label in range(len(class_names))}
    facts |= {key: value for key, value in (others or {}).items() if key not in {*facts, *_YAML_KEYS}}
    options: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": 120}
    text: str = yaml.safe_dump(facts, allow_unicode=True, **options)
    if _ESCAPED.search(text):
        text = yaml.safe_dump(facts, allow_unicode=False, **options)
    return text


def _polygons(sample: DenseSample) -> Iterator[list[float]]:
    for mask in _masks(sample, "segment"):
        yield (outline(mask) / sample.canvas_size[::-1]).ravel().tolist()


def _rectangles(sample: DenseSample, entries: Sequence[Mapping[str, Any]]) -> Iterator[list[float]]:
    for i, mask in enumerate(_masks(sample, "obb")):
        given = given_corners(entries[i].get("segmentation"), mask.shape) if i < len(entries) else None
        corners = least_rectangle(mask) if given is None else given
        yield (corners / sample.canvas_size[::-1]).ravel().tolist()


def _masks(sample: DenseSample, task: WrittenTask) -> NDArray[np.bool_]:
    if sample.instance_masks is None:
        raise ValueError(f"sample_labels: expected instance masks for the task {task}, got none; write boxes instead")
    masks: NDArray[np.bool_] = sample.instance_masks.as_subclass(Tensor).numpy()
    return masks


def _boxes(sample: DenseSample) -> Iterator[list[float]]:
    yield from _fractions(sample.boxes.as_subclass(Tensor).tolist(), sample.canvas_size)


def _fractions(boxes: Sequence[Sequence[float]], size: tuple[int, int]) -> Iterator[list[float]]:
    """Yield centre, width and height of boxes (x1, y1, x2, y2) as fractions of an image of (H, W)."""
    height, width = size
    edges = np.array(boxes, np.float64).reshape(-1, 4) / (width, height, width, height)
    for x1, y1, x2, y2 in edges.clip(0, 1).tolist():
        yield [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]


def _no_points(sample: DenseSample, point_size: int) -> list[float]:
    """Return the numbers of unlabelled keypoints."""
    assert sample.keypoints is not None
    return ([0.0] * 3 if point_size == 3 else [_NOT_LABELLED] * 2) * sample.keypoints.shape[1]


def _poses(sample: DenseSample, point_size: int) -> Iterator[list[float]]:
    if sample.keypoints is None:
        raise ValueError("sample_labels: expected keypoints for the task pose, got none; write boxes instead")
    points: NDArray[np.float64] = sample.keypoints.double().numpy().copy()
    points[..., :2] /= sample.canvas_size[::-1]
    points[points[..., 2] == 0] = 0 if point_size == 3 else _NOT_LABELLED
    for box, own in zip(_boxes(sample), points[..., :point_size], strict=True):
        yield [*box, *own.ravel().tolist()]


_ROWS = {"segment": _polygons, "detect": _boxes}
