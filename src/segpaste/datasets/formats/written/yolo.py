"""YOLO datasets: a text file of labels for each image, and a data YAML."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.carried import POINT_KEYS
from segpaste.datasets.formats.format import WrittenTask
from segpaste.datasets.formats.written.format import (
    File,
    LabelForm,
    LabelledPhoto,
    Losses,
    WrittenFormat,
    WrittenSplit,
    count_lost,
    count_split,
)
from segpaste.datasets.formats.yolo.data import IMAGE_SUFFIXES, SPLIT_KEYS, label_path
from segpaste.datasets.formats.yolo.rectangles import given_corners, is_rectangle
from segpaste.datasets.formats.yolo.writer import data_yaml, sample_labels


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

    def label_files(self, photo: LabelledPhoto, form: LabelForm, losses: Losses) -> Iterator[File]:
        """Yield the label file."""
        has_boxes = form.task in ("detect", "pose")
        boxed = [(crowd.label, box) for crowd, box, _ in photo.boxed] if has_boxes else []
        text = sample_labels(photo.sample, form.task, form.point_size, photo.rows, boxed, photo.lines)
        if num := photo.sample.num_instances + len(boxed) - text.count("\n"):
            losses["rows equal to another of their label file"] += num
        count_lost(photo, losses, points=form.task == "pose", boxes=has_boxes, held=POINT_KEYS)
        if num := sum(_has_points(row) for *_, row in photo.boxed) if has_boxes else 0:
            losses["keypoints of objects without a mask"] += num
        if form.task != "segment" and photo.sample.instance_masks is not None:
            losses[f"masks of objects (the task {form.task} has none)"] += num_unheld_masks(photo, form.task)
        path = Path(self.photos_dir(photo.split), photo.file_name)
        yield label_path(path).as_posix(), text.encode()

    def closing_files(self, splits: Sequence[WrittenSplit], form: LabelForm, losses: Losses) -> Iterator[File]:
        """Yield the data YAML."""
        keys = split_keys([split.name for split in splits])
        for split in splits:
            count_split(losses, split, ("keypoints",) if form.task == "pose" else ())
            if keys[split.name] is None:
                losses[f"images that data.yaml does not name, of the split '{split.name}'"] += sum(
                    1 for _ in split.rows()
                )
        folders = yaml_splits([split.name for split in splits])
        schema = form.schema if form.task == "pose" else None
        yield "data.yaml", data_yaml(form.class_names, folders, schema, form.point_size, form.source_yaml).encode()


def num_unheld_masks(photo: LabelledPhoto, task: WrittenTask) -> int:
    """Return the number of masks that a task without masks does not hold; oriented boxes hold rectangles."""
    size, masks = photo.sample.canvas_size, photo.sample.instance_masks
    if masks is None or task != "obb":
        return photo.sample.num_instances
    return sum(
        given_corners(row.get("segmentation"), size) is None and not is_rectangle(mask)
        for row, mask in zip(photo.rows, masks.as_subclass(Tensor).numpy(), strict=True)
    )


def _has_points(row: JsonRow) -> bool:
    points = row.get("keypoints")
    return isinstance(points, list) and any(points[2::3])


def yaml_splits(names: Sequence[str], trained: str | None = None) -> dict[str, Any]:
    """Return the split keys of a data YAML, each with one or several folders of images.

    Args:
        names: names of the splits, such as ``train2017``; a name without a key is left out with a warning.
        trained: name of the split for ``train``, even if it begins with no key.
    """
    found: dict[str, list[str]] = {}
    for name, key in split_keys(names, trained).items():
        if key is None:  # it may be held out, so it is not used for training
            warnings.warn(f"data.yaml: '{name}' was copied, but is not in {', '.join(SPLIT_KEYS)}", stacklevel=2)
        else:
            found.setdefault(key, []).append(f"images/{name}")
    if "val" not in found:
        warnings.warn("data.yaml: expected a split to validate on, got none; add the key val to it", stacklevel=2)
    return {key: found[key][0] if len(found[key]) == 1 else found[key] for key in SPLIT_KEYS if key in found}


def split_keys(names: Sequence[str], trained: str | None = None) -> dict[str, str | None]:
    """Return the key of each split in a data YAML, by name: the one that the name begins with, else None.

    ``train`` is the key of the split ``trained``, and if no name begins with a key, of all: a YAML without a split
    cannot be opened.
    """
    keys = {name: next((key for key in SPLIT_KEYS if name.startswith(key)), None) for name in names}
    if trained in keys:
        keys[trained] = keys[trained] or "train"
    return keys if any(keys.values()) else dict.fromkeys(names, "train")
