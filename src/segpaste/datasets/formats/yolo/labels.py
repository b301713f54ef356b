"""Rows of YOLO label files, one object per line, in fractions of the sides: https://docs.ultralytics.com/datasets.

    class x y width height                        detect: the box by its centre
    class x1 y1 x2 y2 x3 y3 x4 y4                 an oriented box by its corners, if all rows are of this form
    class x1 y1 x2 y2 x3 y3 ...                   segment: a polygon of at least three points
    class x y width height px1 py1 [v1] px2 ...   pose: a box and P points of D = 2 or 3 numbers

Oriented boxes are read as polygons. Rows with a score or a track are not read.
"""

from __future__ import annotations

import contextlib
import math
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segpaste._point_names import KeypointSchema
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import Task
from segpaste.datasets.formats.text_files import read_text
from segpaste.datasets.formats.yolo.data import YoloData, found_labels, images_of

BOX_NUMBERS = 5
ORIENTED_NUMBERS = 9
RowKey = tuple[int, bytes]
_ZEROS = re.compile(r"\.?0+(?= |$)")
_NOTHING = re.compile(r" (?:-0|nan)(?= |$)")
_TOLERANCE = 0.01
"""Allowed distance of a coordinate outside of 0..1, as in Ultralytics; objects are clipped to the image."""


@dataclass(frozen=True, slots=True)
class LabelFormat:
    """Format of the rows of a dataset.

    Attributes:
        num_classes: number of classes; all labels are below it.
        keypoint_shape: (P, D) of pose rows; None without pose rows.
        task: the task that rows are read for; None infers it from each row.
    """

    num_classes: int
    keypoint_shape: tuple[int, int] | None = None
    task: Task | None = None

    @property
    def pose_numbers(self) -> int | None:
        """Number of values in a pose row, including its class; None without pose rows."""
        return None if self.keypoint_shape is None else BOX_NUMBERS + self.keypoint_shape[0] * self.keypoint_shape[1]

    def expected(self) -> str:
        """Describe the expected rows in words."""
        if self.keypoint_shape is not None and self.task in (None, "pose"):
            num, size = self.keypoint_shape
            return f"a class, a box of 4 numbers and {num} keypoints of {size}, {self.pose_numbers} numbers in total"
        box, polygon = "a class and a box of 4 numbers", "a class and a polygon of at least 3 points, x and y each"
        return polygon if self.task == "segment" else f"{box}, or {polygon}"


def parse_labels(path: Path, text: str, label_format: LabelFormat) -> tuple[list[JsonRow], int]:
    """Parse a label file.

    Args:
        path: path of the file, for errors.
        text: its content.
        label_format: the form of its rows.

    Returns:
        The rows of the objects in file order, without duplicates, and the number of duplicates. Each row has
        ``line``, from 1, ``label``, ``kind``, a `Task`, and ``values``, the numbers after the class. The coordinates
        of boxes and keypoints, and of the boxes of polygons, are at most 1 % outside of 0..1.

    Raises:
        DatasetError: a line is invalid; the message names file and line.
    """
    rows: list[JsonRow] = []
    seen: set[tuple[str, RowKey]] = set()
    num_twice = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not (words := line.split()):
            continue
        row = parse_row(f"{path}: line {number}", words, label_format)
        key = row["kind"], row_key(row["label"], row["values"])
        num_twice += key in seen
        if key not in seen:
            seen.add(key)
            if label_format.task == "detect" and row["kind"] == "segment":
                row |= {"kind": "detect", "values": _box_of_polygon(row["values"])}
            rows.append({"line": number, **row})
    return rows, num_twice


def row_key(label: int, values: Sequence[float]) -> RowKey:
    """Return what equal rows have in common: their class and numbers, rounded to float32 as in Ultralytics."""
    return label, array("f", values).tobytes()


def text_key(text: str) -> RowKey:
    """Return the key of the text of a row that was written, see `row_key`."""
    label, *values = text.split()
    return row_key(int(label), [*map(float, values)])


def parse_row(where: str, words: Sequence[str], label_format: LabelFormat) -> JsonRow:
    """Parse one row: its ``label``, ``kind`` and ``values``, see `parse_labels`.

    Raises:
        DatasetError: it is invalid; the message begins with ``where``.
    """
    try:
        label, *values = map(float, words)
    except ValueError:
        told = ", a row of DOTA; write the class as a number and the corners as fractions of the image's sides"
        raise DatasetError(
            f"{where}: expected numbers, got {' '.join(words)!r:.60}{told if _is_dota(words) else '; correct the line'}"
        ) from None
    if not label.is_integer() or not 0 <= label < label_format.num_classes:
        raise DatasetError(
            f"{where}: expected a class from 0 to {label_format.num_classes - 1}, got {words[0]:.20}; correct it, or "
            "the names"
        )
    kind = _kind(where, len(words), label_format)
    _check_values(where, values, kind, label_format)
    if label_format.task == "detect" and kind == "pose":
        kind, values = "detect", values[:4]
    return {"label": int(label), "kind": kind, "values": values}


def _is_dota(words: Sequence[str]) -> bool:
    """Return whether a line is one of DOTA's text: four corners in pixels, the class and its difficulty."""
    if words[0].startswith(("imagesource:", "gsd:")):
        return True
    with contextlib.suppress(ValueError):
        return len(words) in (9, 10) and math.isfinite(sum(map(float, words[:8])))
    return False


def _kind(where: str, num: int, label_format: LabelFormat) -> Task:
    """Return the kind of a row of ``num`` numbers; raise `DatasetError` if no kind fits."""
    if label_format.task != "segment" and num == label_format.pose_numbers:
        return "pose"
    is_pose = label_format.keypoint_shape is not None and label_format.task in (None, "pose")
    if num == BOX_NUMBERS and not is_pose and label_format.task != "segment":
        return "detect"
    if num >= 7 and num % 2 and not is_pose:
        return "segment"
    raise DatasetError(f"{where}: expected {label_format.expected()}, got {num} numbers; correct the line")


def _check_values(where: str, values: list[float], kind: Task, label_format: LabelFormat) -> None:
    """Check that coordinates are fractions, sizes are not negative, and visibilities are 0, 1 or 2.

    A polygon with points outside also passes if the centre and size of its box are fractions.
    """
    coordinates, visibilities = values, []
    if kind == "segment" and math.isfinite(sum(values)) and not _are_fractions(values):
        coordinates = _box_of_polygon(values)
    elif kind == "pose" and label_format.keypoint_shape is not None and label_format.keypoint_shape[1] == 3:
        coordinates = values[:4] + [value for i, value in enumerate(values[4:]) if i % 3 != 2]
        visibilities = values[6::3]
    if not _are_fractions(coordinates):
        wrong = max(values, key=lambda value: abs(value - 0.5) if math.isfinite(value) else math.inf)
        raise DatasetError(
            f"{where}: expected coordinates from 0 to 1, fractions of the image's width and height, got {wrong:g}; "
            "divide pixels by the image's size"
        )
    if kind != "segment" and (size := min(values[2:4])) < 0:
        raise DatasetError(f"{where}: expected a width and a height of at least 0, got {size:g}; correct it")
    if not {*visibilities} <= {0, 1, 2}:
        wrong = next(v for v in visibilities if v not in (0, 1, 2))
        raise DatasetError(f"{where}: expected a visibility 0, 1 or 2 of each keypoint, got {wrong:g}; correct it")


def _are_fractions(values: list[float]) -> bool:
    return math.isfinite(sum(values)) and min(values) >= -_TOLERANCE and max(values) <= 1 + _TOLERANCE


def _box_of_polygon(values: list[float]) -> list[float]:
    """Return centre, width and height of the box around a polygon."""
    xs, ys = values[0::2], values[1::2]
    x1, x2, y1, y2 = min(xs), max(xs), min(ys), max(ys)
    return [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]


def polygon_px(values: Iterable[float], size: tuple[int, int]) -> list[float]:
    """Return the polygon of a row in pixels of an image of (H, W), [x1, y1, x2, ...]."""
    (height, width), points = size, list(values)
    points[0::2] = [x * width for x in points[0::2]]
    points[1::2] = [y * height for y in points[1::2]]
    return points


def box_px(values: list[float], size: tuple[int, int]) -> list[float]:
    """Return the box of a row in pixels, (x1, y1, x2, y2), clipped to an image of (H, W)."""
    height, width = size
    x, y, w, h = values[:4]
    edges = (x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height
    return [min(max(edge, 0.0), float(side)) for edge, side in zip(edges, (width, height) * 2, strict=True)]


def exact_box(values: Sequence[float], size: tuple[int, int]) -> list[float]:
    """Return the box [x, y, width, height] of a row in pixels of an image of (H, W), not clipped.

    It is computed with decimals, so that its numbers have no more digits than they need.
    """
    x, y, width, height = (Decimal(repr(value)) for value in values[:4])
    rows, cols = size
    return [float(edge) for edge in ((x - width / 2) * cols, (y - height / 2) * rows, width * cols, height * rows)]


def points_px(values: list[float], shape: tuple[int, int], size: tuple[int, int]) -> NDArray[np.float64]:
    """Return the keypoints of a row, [P, 3]: x and y in pixel edges, v as in COCO; zeros if not labelled.

    A point of two numbers is visible unless one of them is negative. A point outside of the image is not labelled.
    """
    points = np.array(values[4:], np.float64).reshape(shape)
    if shape[1] == 2:
        points = np.concatenate([points, np.where((points < 0).any(1, keepdims=True), 0.0, 2.0)], 1)
    is_inside = ((points[:, :2] >= 0) & (points[:, :2] <= 1)).all(1)
    points[:, :2] *= size[::-1]
    points[~is_inside | (points[:, 2] == 0)] = 0
    return points


def read_labels(path: Path) -> str:
    """Read the text of a label file; empty if the file is missing."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise DatasetError(f"{path}: expected a label file, could not read it ({error}); check the path") from error


def numbered_classes(data: YoloData) -> tuple[str, ...]:
    """Return numbered names for the classes of all splits, for datasets without class names."""
    label_format = LabelFormat(1 << 16, data.keypoint_shape)
    files = {found_labels(image) for of in data.splits.values() for source in of for image in images_of(source)}
    labels = (row["label"] for file in files for row in parse_labels(file, read_labels(file), label_format)[0])
    return tuple(f"class_{i}" for i in range(max(labels, default=0) + 1))


def label_text(label: int, values: Iterable[float]) -> str:
    """Format a row of a label file with six decimals, without trailing zeros: at most 1/100 pixel of 20,000 is lost."""
    numbers = tuple(values)
    text = _ZEROS.sub("", " %.6f" * len(numbers) % numbers)
    return f"{label}{_NOTHING.sub(' 0', text) if '-' in text or 'n' in text else text}\n"


def given_text(label: int, values: Iterable[float]) -> str:
    """Format a row of given numbers, with all their decimals."""
    return " ".join([str(label), *map(_exact, values)]) + "\n"


def keypoint_schema(names: Sequence[str] | None, num: int, flip_idx: Sequence[int] | None) -> KeypointSchema:
    """Return the schema of P points; without names the points are numbered."""
    names = [f"point_{i}" for i in range(num)] if names is None else names
    pairs = [(i, other) for i, other in enumerate(flip_idx or []) if i < other]
    return KeypointSchema(tuple(names), flip_pairs=tuple(pairs))


def _exact(value: float) -> str:
    """Format a value with the fewest decimals that are read as the same float64."""
    return "0" if value == 0 else np.format_float_positional(value, trim="-")
