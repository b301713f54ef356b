"""Base of the readers of photos: annotations are read, checked, and packed so that loader workers share them.

A JSON file is checked here as a whole: tables, keys, unique ids and references. The contents of an annotation are
checked when its sample is read.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from segpaste.datasets.formats.federated import FederatedLabels
from segpaste.types import DenseSample

JsonRow = dict[str, Any]
TableColumns = Mapping[str, type]

IMAGE_COLUMNS: TableColumns = {"id": int, "file_name": str, "height": int, "width": int}
"""Keys of every entry of the ``images`` table, with their types."""


class DatasetError(ValueError):
    """A file of a dataset is missing, unreadable or not what it must be; one line says which and what to do."""


class PackedRecords(Sequence[JsonRow]):
    """Small dictionaries kept as JSON text in one array.

    Forked workers share one array. They would copy millions of Python objects, because reference counts change.
    """

    def __init__(self, records: Iterable[JsonRow]) -> None:
        texts = [json.dumps(record, separators=(",", ":")).encode() for record in records]
        self._text = np.frombuffer(b"".join(texts), np.uint8)
        self._ends = np.cumsum([len(text) for text in texts], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: Any) -> Any:
        position = range(len(self))[index]
        start = self._ends[position - 1] if position else 0
        return json.loads(self._text[start : self._ends[position]].tobytes())


class AnnotatedPhotos(Dataset[DenseSample], ABC):
    """A map-style dataset of photos with annotations, in one file or in one for each photo; the base of the readers.

    All annotations are read at construction. Pickles carry paths, not annotations: a spawned worker reads them again, a
    forked one shares them.
    """

    def __init__(
        self,
        images_dir: str | PathLike[str],
        annotations_file: str | PathLike[str],
        *,
        transforms: Callable[[DenseSample], DenseSample] | None = None,
    ) -> None:
        self.images_dir = expect_folder(images_dir)
        self.annotations_file = Path(annotations_file)
        self.transforms = transforms
        self._records = self._read_records()

    @abstractmethod
    def _read_records(self) -> PackedRecords:
        """Read the annotations; each record has at least ``id`` and ``file_name``."""

    @abstractmethod
    def _read_sample(self, record: JsonRow) -> DenseSample:
        """Make the sample of one record."""

    @cached_property
    def _records(self) -> PackedRecords:
        return self._read_records()

    def __getstate__(self) -> JsonRow:
        return {name: value for name, value in self.__dict__.items() if name != "_records"}

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample.

        Raises:
            DatasetError: its photo or one of its annotations cannot be read.
        """
        sample = self._read_sample(self._records[index])
        return self.transforms(sample) if self.transforms else sample

    def image_id(self, index: int) -> int:
        """Return the id of the photo in the annotations."""
        return int(self._records[index]["id"])

    def file_name(self, index: int) -> str:
        """Return the photo's file, relative to ``images_dir``."""
        return str(self._records[index]["file_name"])

    def photo_file(self, index: int) -> tuple[Path, tuple[int, int] | None]:
        """Return the path of a photo, and its (H, W) in the annotations, or None if they do not give it."""
        record = self._records[index]
        size = (record["height"], record["width"]) if "height" in record else None
        return self.images_dir / record["file_name"], size

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were looked for in the photo, or None if the file does not say, as in COCO."""
        return None

    @abstractmethod
    def crowds(self, index: int) -> list[Crowd]:
        """Return the crowd and ignored regions of a photo, each by itself, before ``transforms``."""


class Crowd(NamedTuple):
    """A region of a photo whose objects are not told apart, or that an evaluation ignores.

    Attributes:
        annotation_id: its id in the file.
        label: its class.
        is_ignored: the file calls it ``ignore``, not ``iscrowd``.
        mask: [H, W] bool.
    """

    annotation_id: int
    label: int
    is_ignored: bool
    mask: NDArray[np.bool_]


def expect_folder(path: str | PathLike[str]) -> Path:
    """Return the path of a folder; raise `DatasetError` if there is none."""
    if not Path(path).is_dir():
        raise DatasetError(f"{path}: expected a folder of images, found none; check the path")
    return Path(path)


def read_tables(path: Path, tables: Mapping[str, TableColumns]) -> dict[str, list[JsonRow]]:
    """Read a JSON object of tables, which are lists of objects in file order.

    ``tables`` gives the required tables, and the required keys of their entries with their types.

    Raises:
        DatasetError: the file is missing or no JSON, or a table or key is missing or of another type.
    """
    document = _read_json(path)
    if not isinstance(document, dict):
        raise DatasetError(
            f"{path}: expected a JSON object with the keys {', '.join(tables)}, got a {type(document).__name__}; "
            "is this the annotation file of a whole dataset?"
        )
    for name, columns in tables.items():
        rows = document.get(name)
        if not isinstance(rows, list):
            raise DatasetError(
                f"{path}: expected a list under the key '{name}', got {'none' if rows is None else type(rows).__name__}"
                f"; the file has the keys {', '.join(sorted(document))}"
            )
        for i, row in enumerate(rows):
            _check_row(f"{path}: {name}[{i}]", row, columns)
    return {name: document[name] for name in tables}


def index_by_id(path: Path, name: str, rows: Iterable[JsonRow]) -> dict[int, JsonRow]:
    """Return the rows of one table by their ``id``; raise `DatasetError` if two rows have the same id."""
    found: dict[int, JsonRow] = {}
    for row in rows:
        if found.setdefault(row["id"], row) is not row:
            raise DatasetError(f"{path}: expected unique ids in '{name}', got {row['id']} twice; give each its own")
    return found


def index_images(path: Path, rows: Iterable[JsonRow]) -> dict[int, JsonRow]:
    """Return the rows of the ``images`` table by id; raise `DatasetError` if ids repeat or a size is not positive."""
    found = index_by_id(path, "images", rows)
    for row in found.values():
        if row["height"] < 1 or row["width"] < 1:
            raise DatasetError(
                f"{path}: expected a size of image {row['id']} > 0, got {row['width']} x {row['height']}; correct it"
            )
    return found


def class_indices(path: Path, categories: Iterable[JsonRow]) -> dict[int, JsonRow]:
    """Return the categories by ascending id: their position is the class, even if the ids have gaps."""
    return dict(sorted(index_by_id(path, "categories", categories).items()))


def lookup(path: Path, what: str, key: object, table: Mapping[Any, Any], name: str) -> Any:
    """Return ``table[key]``, or raise `DatasetError`: ``what`` refers to a key that the table ``name`` lacks."""
    if not isinstance(key, int | str) or key not in table:
        raise DatasetError(
            f"{path}: expected every id that {what} refers to in '{name}', got {key!r}; add it there, or remove {what}"
        )
    return table[key]


def box_of(annotation: JsonRow) -> list[float] | None:
    """Return the box (x, y, width, height) of an annotation, or None if it has no valid box."""
    box = annotation.get("bbox")
    is_one = isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) and abs(v) < 1e9 for v in box)
    return box if is_one else None


def file_name_of(path: Path, row: JsonRow) -> str:
    """Return the photo's file, relative to the folder of the images."""
    if isinstance(name := row.get("file_name"), str):
        return name
    if isinstance(url := row.get("coco_url"), str):
        return "/".join(url.split("/")[-2:])
    raise DatasetError(
        f"{path}: expected a 'file_name' of image {row['id']}, or a 'coco_url' that ends in it, got {name!r}; add it"
    )


def class_list(path: Path, row: JsonRow, key: str, label_of: Mapping[int, int]) -> list[int] | None:
    """Return the category list ``key`` of a photo as classes, or None if the photo has no such list."""
    ids = row.get(key)
    if ids is None:
        return None
    if not isinstance(ids, list):
        raise DatasetError(
            f"{path}: expected a list of ids as '{key}' of image {row['id']}, got {ids!r:.40}; correct it"
        )
    return [lookup(path, f"{key} of image {row['id']}", category, label_of, "categories") for category in ids]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an annotation file in JSON, found no such file; check the path") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a readable annotation file, got {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{path}: expected JSON, got text that breaks off or is malformed ({error}); fetch or write it again"
        ) from error


def _check_row(label: str, row: object, columns: TableColumns) -> None:
    if not isinstance(row, dict):
        raise DatasetError(f"{label}: expected an object, got {type(row).__name__}")
    for key, wanted in columns.items():
        if key not in row:
            raise DatasetError(f"{label}: expected the keys {', '.join(columns)}, '{key}' is missing; add it")
        if not isinstance(row[key], wanted) or (wanted is int and isinstance(row[key], bool)):
            raise DatasetError(f"{label}: expected '{key}' of type {wanted.__name__}, got {row[key]!r:.40}; convert it")
