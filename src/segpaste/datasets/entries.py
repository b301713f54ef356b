"""Entries of annotation tables in COCO's form: categories, and the checks of entries that refer to them.

Errors go to `segpaste.datasets.errors.refuse`. This module does not import torch.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from segpaste._point_names import KeypointSchema, Pair
from segpaste.datasets.errors import DatasetError, each, refuse

JsonRow = dict[str, Any]
TableColumns = Mapping[str, type]
CocoPoints = Sequence[float]
Box = tuple[float, float, float, float]
"""Edges (x1, y1, x2, y2), pixels."""

INSTANCE, CROWD, IGNORED, UNMASKED, NEITHER = range(5)
"""Kinds of annotations: objects with a mask, regions, objects with a box only, and objects with neither."""
MAX_SEGMENT_ID = 256**3 - 1
_FEW = (0, 2, 4)
"""Numbers of an entry that is no polygon of three points or more. Four numbers are a box."""
_FARTHEST = 1e6  # pixels
_JSON = json.JSONEncoder(allow_nan=False)


class Segment(NamedTuple):
    """Segment of a panoptic map: its entry, its class, -1 if its category is unknown, and whether it is a crowd."""

    row: JsonRow
    label: int
    is_crowd: bool


class Categories:
    """Categories of a file, and the checks of the entries that refer to them.

    Args:
        path: the file.
        rows: entries with ``id`` and ``name``; of equal ids the first one is used, and the others are refused.

    Attributes:
        rows: entries by ascending id. Their position is the class, even if the ids have gaps.
    """

    def __init__(self, path: Path, rows: Iterable[JsonRow]) -> None:
        self.path = path
        found: dict[int, JsonRow] = {}
        for row in rows:
            if found.setdefault(row["id"], row) is not row:
                refuse(repeated(path, "categories", row["id"]))
        self.rows = [found[key] for key in sorted(found)]
        self._label_of = {key: label for label, key in enumerate(sorted(found))}

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids in the file."""
        return tuple(self._label_of)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(row["name"] for row in self.rows)

    @cached_property
    def schema(self) -> KeypointSchema | None:
        """Keypoints of the classes; None without keypoints, or if they are refused."""
        return next(each([self.rows], lambda rows: read_schema(self.path, rows)), None)

    def label(self, row: JsonRow, what: str = "annotation") -> int:
        """Return the class of an entry; refuse an unknown category, and return -1."""
        key = row.get("category_id")
        if isinstance(key, int) and key in self._label_of:
            return self._label_of[key]
        refuse(missing(self.path, f"{what} {row.get('id')}", key, "categories"), annotation=row.get("id"))
        return -1

    def flag(self, row: JsonRow, key: str, what: str = "annotation") -> bool:
        """Return a key that is 0, 1 or missing, which means 0; refuse anything else, such as text."""
        value = row.get(key)
        if value not in (None, 0, 1):
            text = f"{self.path}: expected '{key}' of {what} {row['id']} as 0 or 1, got {value!r:.40}; correct it"
            refuse(DatasetError(text, kind="broken_entry"), annotation=row["id"])
            return False
        return bool(value)

    def kind(self, row: JsonRow) -> int:
        """Return `INSTANCE`, `CROWD`, `IGNORED`, `UNMASKED` or `NEITHER`."""
        is_crowd, is_ignored = self.flag(row, "iscrowd"), self.flag(row, "ignore")
        if is_crowd or is_ignored:
            return IGNORED if is_ignored else CROWD
        if has_segmentation(row):
            return INSTANCE
        return NEITHER if box_of(row) is None else UNMASKED

    def points(self, row: JsonRow, label: int, kind: int = INSTANCE) -> CocoPoints | None:
        """Return the keypoints of an instance; None for a region, or if its class or its entry has none."""
        if label < 0 or kind in (CROWD, IGNORED) or not self.rows[label].get("keypoints"):
            return None
        try:
            return checked_points(self.path, row, self.schema)
        except DatasetError as error:
            refuse(error, annotation=row["id"])
            return None

    def class_list(self, image: JsonRow, key: str, name: str | None = None) -> list[int] | None:
        """Return a list of categories of an image as classes, or None if the image has no such list."""
        ids, what = image.get(key), f"{key} of image {image['id']}"
        if ids is None:
            return None
        if not isinstance(ids, list):
            text = f"{self.path}: expected a list of ids as '{key}' of image {image['id']}, got {ids!r:.40}; correct it"
            refuse(DatasetError(text, kind="broken_entry"), image=name)
            return []
        for category in ids:
            if not isinstance(category, int) or category not in self._label_of:
                refuse(missing(self.path, what, category, "categories"), image=name)
        return [self._label_of[category] for category in ids if category in self._label_of]

    def segments(self, annotation: JsonRow) -> Iterator[Segment]:
        """Yield the segments of a panoptic map."""
        what, seen = f"the annotation of image {annotation['image_id']}", set[int]()
        for row in annotation["segments_info"]:
            problem = None
            if not isinstance(row, dict) or not {"id", "category_id"} <= row.keys():
                problem = f"expected segments with 'id' and 'category_id' in {what}, got {row!r:.60}"
            elif type(row["id"]) is not int or not 0 < row["id"] <= MAX_SEGMENT_ID:
                problem = f"expected segment ids in 1..{MAX_SEGMENT_ID} in {what}, got {row['id']!r:.40}"
            if problem is not None:
                refuse(DatasetError(f"{self.path}: {problem}", kind="broken_entry"))
            elif row["id"] in seen:
                refuse(repeated(self.path, f"segments_info of {what}", row["id"]))
            else:
                seen.add(row["id"])
                yield Segment(row, self.label(row, "segment"), self.flag(row, "iscrowd", "segment"))


def file_name_of(path: Path, row: JsonRow) -> str:
    """Return the image's file, relative to the folder of the images."""
    if isinstance(name := row.get("file_name"), str):
        return name
    if isinstance(url := row.get("coco_url"), str):
        return "/".join(url.split("/")[-2:])
    text = f"expected a 'file_name' of image {row['id']}, or a 'coco_url' that ends in it, got {name!r}; add it"
    raise DatasetError(f"{path}: {text}", kind="broken_entry")


def box_of(annotation: JsonRow) -> list[float] | None:
    """Return the box (x, y, width, height) of an annotation, or None if it has no valid box."""
    box = annotation.get("bbox")
    is_one = isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) and abs(v) < 1e9 for v in box)
    return box if is_one else None


def boxless(path: Path, row_id: object) -> DatasetError:
    """Return the error of an object with neither a segmentation nor a valid box."""
    text = "expected a 'bbox' of four numbers, since it has no segmentation, got none or another value"
    return DatasetError(f"{path}: annotation {row_id}: {text}; add it, or remove the annotation", kind="broken_entry")


def edges_of(box: Sequence[float]) -> Box:
    """Return a box [x, y, width, height] as (x1, y1, x2, y2)."""
    x, y, width, height = box
    return x, y, x + width, y + height


def has_segmentation(row: JsonRow) -> bool:
    """Return whether an entry has run lengths, or a polygon of three points or more.

    Some tools write an empty list, or a list with the four numbers of the box. Neither is a mask. Anything else is
    checked when it is decoded.
    """
    value = row.get("segmentation")
    if not isinstance(value, list):
        return value is not None
    return not all(
        isinstance(polygon, list) and len(polygon) in _FEW and all(isinstance(n, int | float) for n in polygon)
        for polygon in value
    )


def not_json(row: Mapping[str, Any]) -> str | None:
    """Return in words the first key of an entry with NaN or an infinite number; None if all are JSON."""
    try:
        _JSON.encode(row)
    except ValueError:
        for key, value in row.items():
            try:
                _JSON.encode(value)
            except ValueError:
                shown = "NaN" if isinstance(value, float) and value != value else repr(value)[:60]
                return f"expected finite numbers as '{key}', since others are not JSON, got {shown}"
    return None


def finite(value: Any, place: str, lost: Counter[str]) -> Any:
    """Return a value with null for NaN and infinite numbers, which are not JSON; they are counted by ``place``."""
    try:
        _JSON.encode(value)
    except ValueError:
        return _finite(value, f"NaN and infinite numbers in {place}, written as null", lost)
    return value


def finite_tables(tables: JsonRow, lost: Counter[str]) -> JsonRow:
    """Return other tables of a file with null for NaN and infinite numbers, which are counted by table."""
    return {name: finite(table, f"the table '{name}'", lost) for name, table in tables.items()}


def _finite(value: Any, reason: str, lost: Counter[str]) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item, reason, lost) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, reason, lost) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        lost[reason] += 1
        return None
    return value


def repeated(path: Path, name: str, row_id: int, advice: str = "") -> DatasetError:
    """Return the error of two rows of a table with the same id; ``advice`` is added to the remedy."""
    text = f"{path}: expected unique ids in '{name}', got {row_id} twice; give each its own{advice}"
    return DatasetError(text, kind="duplicate_id")


def missing(path: Path, what: str, key: object, name: str) -> DatasetError:
    """Return the error of an entry that refers to an id that the table ``name`` lacks."""
    text = f"expected every id that {what} refers to in '{name}', got {key!r}; add it there, or remove {what}"
    return DatasetError(f"{path}: {text}", kind="unknown_reference")


def check_row(label: str, row: object, columns: TableColumns, advice: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise `DatasetError` if an entry of a table is not an object or lacks a key.

    Args:
        label: the name of the entry, for errors.
        row: the entry.
        columns: its keys and their types; `bool` is a flag, which may also be a number.
        advice: what is added to the remedy of a missing key.
    """
    problem = None
    if not isinstance(row, dict):
        raise DatasetError(f"{label}: expected an object, got {type(row).__name__}", kind="broken_entry")
    for key, wanted in columns.items():
        if key not in row:
            problem = f"expected the keys {', '.join(columns)}, '{key}' is missing; add it{advice.get(key, '')}"
        elif not isinstance(row[key], kind := int if wanted is bool else wanted) or (
            wanted is int and isinstance(row[key], bool)
        ):
            problem = f"expected '{key}' of type {kind.__name__}, got {row[key]!r:.40}; convert it"
        if problem is not None:
            raise DatasetError(f"{label}: {problem}", kind="broken_entry")


def read_schema(path: Path, categories: Iterable[JsonRow]) -> KeypointSchema | None:
    """Return the keypoint schema of a file's categories, with the first skeleton; flips swap left and right.

    Return None if no category has keypoints, or, with a warning, if categories have different keypoints. An invalid
    skeleton is left out with a warning.

    Raises:
        DatasetError: the keypoints of a category are not a list of unique names.
    """
    rows = [row for row in categories if row.get("keypoints")]
    found: list[KeypointSchema] = []
    for row in rows:
        if not isinstance(row["keypoints"], list):
            raise DatasetError(
                f"{path}: category {row['name']!r}: expected a list of names as keypoints, got "
                f"{row['keypoints']!r:.60}; correct it"
            )
        try:
            found.append(KeypointSchema.of_sides(row["keypoints"]))
        except (AttributeError, TypeError, ValueError) as error:
            raise DatasetError(f"{path}: category {row['name']!r}: {error}; correct its keypoints") from error
    if any(schema != found[0] for schema in found):
        warnings.warn(
            f"{path}: expected one list of keypoints for all categories that have some, got different ones of "
            f"{', '.join(repr(row['name']) for row in rows)}; keypoints are not read",
            stacklevel=2,
        )
        return None
    return replace(found[0], skeleton=_skeleton(path, rows, found[0].num_points)) if found else None


def _skeleton(path: Path, categories: Iterable[JsonRow], num_points: int) -> tuple[Pair, ...]:
    """Return the first skeleton, counted from 0; empty, with a warning, if it is invalid."""
    pairs = next((row["skeleton"] for row in categories if row.get("skeleton")), ())
    is_one = isinstance(pairs, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(type(point) is int and 1 <= point <= num_points for point in pair)
        and pair[0] != pair[1]
        for pair in pairs
    )
    if is_one:
        return tuple((one - 1, other - 1) for one, other in pairs)
    warnings.warn(
        f"{path}: expected a skeleton of pairs of points, counted from 1 to {num_points}, got {pairs!r:.60}; it is not "
        "drawn",
        stacklevel=2,
    )
    return ()


def checked_points(path: Path, annotation: JsonRow, schema: KeypointSchema | None) -> CocoPoints | None:
    """Return the keypoints of an annotation, [3 P] numbers; None if it has none.

    Raises:
        DatasetError: the number of values is wrong, or a v is not 0, 1 or 2.
    """
    points: CocoPoints | None = annotation.get("keypoints")
    if schema is None or not points:
        return None
    is_list = isinstance(points, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _FARTHEST for value in points
    )
    if not is_list or len(points) != 3 * schema.num_points or not {*points[2::3]} <= {0, 1, 2}:
        raise DatasetError(
            f"{path}: expected {schema.num_points} keypoints (x, y, v) of annotation {annotation['id']}, each v 0, 1 "
            f"or 2, got {points!r:.80}; correct or remove it",
            kind="broken_keypoints",
        )
    return points
