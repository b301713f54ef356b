"""Reader of Ultralytics' NDJSON, what its platform exports: https://docs.ultralytics.com/datasets.

The first line describes the dataset, each other line is an image with its labels, rows of numbers as in label files,
under ``boxes``, ``segments``, ``obb`` or ``pose`` of ``annotations``; ``ultralytics.data.converter`` reads the same.
Polygons and oriented boxes are outlines, boxes and poses are boxes. Labels are drawn on the image turned upright.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from segpaste._pixels import Size
from segpaste._point_names import KeypointSchema
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each
from segpaste.datasets.formats.folders import files_with
from segpaste.datasets.formats.format import NO_SPLIT, ReadOptions, Task
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.image_places import places_of, stored_image
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_format import Located, OutlinedFormat
from segpaste.datasets.formats.text_files import decoded, head_of
from segpaste.datasets.formats.tool_shapes import ImageFiles, Point, Shape, checked_size
from segpaste.datasets.formats.yolo.labels import (
    BOX_NUMBERS,
    ORIENTED_NUMBERS,
    LabelFormat,
    exact_box,
    keypoint_schema,
    parse_row,
    points_px,
    polygon_px,
    row_key,
)
from segpaste.datasets.formats.yolo.yaml_values import flip_idx, keypoint_names, keypoint_shape

SUFFIX = ".ndjson"
EQUAL_ROWS = "rows that equal another of the same image"
OTHER_ROWS = "rows of an image under another key than that of the task"
_KEYS = {"detect": "boxes", "segment": "segments", "obb": "obb", "pose": "pose"}
"""Key of the rows of each task."""
_FORMS: dict[str, Task] = {"detect": "detect", "segment": "segment", "obb": "segment", "pose": "pose"}
_SPLITS = ("train", "val", "test")
_HEAD = re.compile(rb'"(task|class_names)"\s*:|"type"\s*:\s*"dataset"')
_SPLIT = re.compile(rb'"split"\s*:\s*"(train|val|test)"')
_CLASS = re.compile("[0-9]{1,5}")
_MOST_CLASSES = 10**5
_OF_HEAD = ("type", "task", "class_names", "path", "kpt_shape", "kpt_names", "flip_idx")
_KNOWN = ("type", "file", "width", "height", "split", "annotations")


@dataclass(frozen=True, slots=True)
class _Record:
    """Image: its line in the file, from 1, its values, and its rows under the key of the task."""

    line: int
    values: JsonRow
    rows: list[list[float]]

    @property
    def split(self) -> str:
        return str(self.values.get("split") or NO_SPLIT)

    @property
    def address(self) -> str:
        """Its address on the web; empty without one."""
        url = self.values.get("url")
        return url if isinstance(url, str) else ""


@dataclass(frozen=True, slots=True)
class _Head:
    """First line of a file: its task, its values, the names of classes by number, and what poses are made of."""

    task: str
    values: JsonRow
    names: Mapping[int, str]
    shape: tuple[int, int] | None = None
    points: KeypointSchema | None = None

    @property
    def facts(self) -> JsonRow:
        """Values that are not in the images and classes."""
        return {key: value for key, value in self.values.items() if key not in _OF_HEAD}

    def class_names(self, num: int) -> list[str]:
        """Return the names of at least this many classes; missing ones are numbered as in Ultralytics."""
        missing = "class{}" if self.names else "class_{}"
        return [self.names.get(i, missing.format(i)) for i in range(max(num, *(1 + i for i in self.names), 0))]


class NdjsonFile(OutlinedFormat):
    """File of NDJSON, or a folder with one, and the images."""

    name = "ndjson"
    title = "Ultralytics' NDJSON"
    files = "FILE.ndjson, the only one in a folder with the images or images/SPLIT/, or with the folder of the images"
    gives = "masks of polygons; or boxes only; or keypoints"
    takes = frozenset({"images_dir", "task"})

    def splits(self, path: Path) -> tuple[str, ...] | None:
        """Return the splits that records name; those without one are a dataset without splits."""
        file = _file(path)
        if file is None:
            return None
        found = {name.decode() for name in _SPLIT.findall(file.read_bytes())}
        return tuple(name for name in _SPLITS if name in found) or (NO_SPLIT,)

    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Find the file; without ``options.images_dir`` images are beside it, or in the folder that it names."""
        file = _file(path) or path
        images_dir = file.parent if options.images_dir is None else options.images_dir
        return Located(images_dir, file, partial(read_ndjson, file, images_dir, split))


def read_ndjson(path: Path, images_dir: Path, split: str) -> ShapeTable:
    """Read the images of a split; classes are in the order of their numbers.

    Raises:
        DatasetError: the file or a row is broken, its task is another, or there is only the address of an image.
    """
    content = path.read_bytes()
    text = decoded(path, content)
    first, *lines = [(i, line) for i, line in enumerate(text.split("\n"), start=1) if line.strip()] or [(1, "")]
    head = _head(path, _document(f"{path}: line {first[0]}", first[1]))
    records = [*each(lines, lambda line: _record(path, line, head))]
    num = 1 + max((_class_of(row) for record in records for row in record.rows), default=-1)
    names = head.class_names(num)
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DatasetError(f"{path}: line 1: expected a name for each class, got {twice[0]!r} twice; rename one")
    if head.task == "pose":
        head = _with_points(path, head, records)
    files, own = ImageFiles(images_dir), [record for record in records if split in (NO_SPLIT, record.split)]
    images = [*each(own, lambda record: _image(path, record, head, names, files))]
    deque(each(records, lambda record: _image_file(path, record, head, files)), 0)  # splits that share files
    points = {} if head.points is None else {"keypoints": [*head.points.names], "skeleton": []}
    return ShapeTable(
        path,
        images,
        [{"name": name, **points} for name in names],
        f"{hashlib.sha256(content).hexdigest()} {split}",
        {"ndjson": facts} if (facts := head.facts) else {},
        drawn_upright=True,
        keypoint_schema=head.points,
    )


def _file(path: Path) -> Path | None:
    """Return the file of a path, if its first line describes a dataset."""
    if path.is_dir():
        found = [file for file in files_with(path, SUFFIX) if _file(file)]
        return found[0] if len(found) == 1 else None
    if not path.is_file() or path.suffix.lower() != SUFFIX:
        return None
    return path if _HEAD.search(head_of(path).partition(b"\n")[0]) else None


def _document(where: str, line: str) -> JsonRow:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{where}: expected JSON, got text that does not parse ({error}); export it again"
        ) from error
    if not isinstance(document, dict):
        raise DatasetError(f"{where}: expected a JSON object, got {document!r:.40}; export it again")
    return document


def _head(path: Path, values: JsonRow) -> _Head:
    task = values.get("task", "detect")
    if not isinstance(task, str) or task not in _KEYS:
        raise DatasetError(f"{path}: line 1: expected the task {', '.join(_KEYS)}, got {task!r:.40}; it has no objects")
    names = values.get("class_names") or {}
    is_valid = isinstance(names, dict) and all(
        _CLASS.fullmatch(key) and isinstance(name, str) for key, name in names.items()
    )
    if not is_valid:
        raise DatasetError(
            f"{path}: line 1: expected 'class_names', a name for each number of a class, got {names!r:.60}; correct it"
        )
    return _Head(task, values, {int(key): name for key, name in names.items()})


def _record(path: Path, numbered: tuple[int, str], head: _Head) -> _Record:
    line, text = numbered
    where = f"{path}: line {line}"
    values = _document(where, text)
    if not isinstance(name := values.get("file"), str) or not name.strip():
        raise DatasetError(f"{where}: expected the name of the image as 'file', got {name!r:.40}; correct it")
    if values.get("split") not in (None, *_SPLITS):
        raise DatasetError(f"{where}: expected the split {', '.join(_SPLITS)}, got {values['split']!r:.40}; correct it")
    labels = values.get("annotations") or {}
    rows = labels.get(_KEYS[head.task]) or [] if isinstance(labels, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) and all(map(_is_number, row)) for row in rows):
        raise DatasetError(
            f"{where}: expected 'annotations' with rows of numbers under '{_KEYS[head.task]}', got {labels!r:.60}; "
            "correct it"
        )
    return _Record(line, values, [row for row in rows if row])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _class_of(row: list[float]) -> int:
    """Return the class of a row; -1 if it is none."""
    return int(row[0]) if 0 <= row[0] < _MOST_CLASSES else -1


def _with_points(path: Path, head: _Head, records: list[_Record]) -> _Head:
    """Return the head with the keypoints of poses: those that it names, or else what fits all rows.

    Raises:
        DatasetError: nothing fits.
    """
    given = keypoint_shape(path, head.values.get("kpt_shape"))
    rows = [row[BOX_NUMBERS:] for record in records for row in record.rows]
    shape = given or _fitting_shape(rows)
    if shape is None:
        raise DatasetError(
            f"{path}: line 1: expected the key 'kpt_shape' of a pose dataset, [P, 2] or [P, 3], got none, and the rows "
            "leave it open; add it"
        )
    names = keypoint_names(path, head.values.get("kpt_names"), shape[0])
    schema = keypoint_schema(names, shape[0], flip_idx(path, head.values.get("flip_idx"), shape[0]))
    return _Head(head.task, head.values, head.names, shape, schema)


def _fitting_shape(rows: list[list[float]]) -> tuple[int, int] | None:
    """Return (P, D) if all rows have numbers for as many points: three, the last of them 0, 1 or 2, or else two."""
    nums = {len(row) for row in rows}
    num = nums.pop() if len(nums) == 1 else 0
    if num and num % 3 == 0 and all(v in (0, 1, 2) for row in rows for v in row[2::3]):
        return num // 3, 3
    return (num // 2, 2) if num % 3 and num % 2 == 0 else None


def _image(path: Path, record: _Record, head: _Head, names: list[str], files: ImageFiles) -> AnnotatedImage:
    """Return an image with its shapes."""
    where, values = f"{path}: line {record.line}", record.values
    name = _image_file(path, record, head, files)
    stored = stored_image(where, record.address or values["file"], files.images_dir / name)
    height, width = values.get("height"), values.get("width")
    size = upright_size(stored) if height is None or width is None else checked_size(where, height, width)
    row: JsonRow = {"file_name": name, "height": size[0], "width": size[1]}
    if facts := {key: value for key, value in values.items() if key not in _KNOWN}:
        row["attributes"] = facts
    seen, shapes = set(), []
    label_format = LabelFormat(max(1, len(names)), head.shape, _FORMS[head.task])
    for number, numbers in enumerate(record.rows, start=1):
        at = f"{where}: row {number}"
        parsed = _parsed(at, numbers, head, label_format)
        if (key := row_key(parsed["label"], parsed["values"])) not in seen:
            seen.add(key)
            shapes.append(_shape(at, parsed, head, names, size))
    others = (rows for key, rows in (values.get("annotations") or {}).items() if key != _KEYS[head.task])
    num_others = sum(len(rows) if isinstance(rows, list) else 1 for rows in others)
    return AnnotatedImage(row, shapes, unread={EQUAL_ROWS: len(record.rows) - len(shapes), OTHER_ROWS: num_others})


def _image_file(path: Path, record: _Record, head: _Head, files: ImageFiles) -> str:
    places = _places(record.values["file"], record.address, record.split, head.values)
    return files.find(f"{path}: line {record.line}", f"line {record.line}", places)


def _places(name: str, address: str, split: str, head: JsonRow) -> list[str]:
    """Return where an image may be: in the folder that the file names, by the end of its address, by its name."""
    folder = head.get("path")
    own = [str(PurePosixPath(folder, "images", split, name))] if isinstance(folder, str) and folder else []
    ends = [place for one in filter(None, (address, name)) for place in places_of(one, split)]
    inside = [f"images/{split}/{place}" for place in ends if "/" not in place] if split else []
    return [*own, *inside, *ends]


def _parsed(where: str, numbers: list[float], head: _Head, label_format: LabelFormat) -> JsonRow:
    parsed = parse_row(where, [repr(number) for number in numbers], label_format)
    if head.task == "obb" and len(numbers) != ORIENTED_NUMBERS:
        raise DatasetError(
            f"{where}: expected a class and the 4 corners of a box, got {len(numbers)} numbers; correct it"
        )
    if head.task == "detect" and parsed["kind"] != "detect":
        raise DatasetError(f"{where}: expected a class and a box of 4 numbers, got {len(numbers)} numbers; correct it")
    return parsed


def _shape(where: str, parsed: JsonRow, head: _Head, names: list[str], size: Size) -> Shape:
    label, values = names[parsed["label"]], parsed["values"]
    if parsed["kind"] == "segment":
        return Shape(label, [polygon_px(values, size)], where=where)
    x, y, width, height = exact_box(values, size)
    points: dict[str, Point] | None = None
    if head.shape is not None and head.points is not None:
        found: Any = points_px(values, head.shape, size).tolist()
        points = {name: (x, y, int(v)) for name, (x, y, v) in zip(head.points.names, found, strict=True)}
    return Shape(label, box=(x, y, x + width, y + height), points=points, where=where)
