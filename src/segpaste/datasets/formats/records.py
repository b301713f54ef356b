"""Base of the readers of images. Annotations are read, checked, and packed so that loader workers share them.

Tables, keys, unique ids and references of a JSON file are checked here. The contents of an annotation are checked when
its sample is read.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from segpaste._reprs import counted, described
from segpaste.datasets.contract import AnnotatedDataset, JsonRow, PhotoFile
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.text_files import not_utf8, read_json
from segpaste.types import DenseSample
from segpaste.types.dense import fill_holes

TableColumns = Mapping[str, type]

IMAGE_COLUMNS: TableColumns = {"id": int, "file_name": str, "height": int, "width": int}
"""Keys of every entry of the ``images`` table, with their types."""


class PackedRecords(Sequence[JsonRow]):
    """Small dictionaries stored as JSON text in one array.

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


class AnnotatedPhotos(AnnotatedDataset):
    """Base of the readers: images with annotations in one file or in a file per image.

    All annotations are read at construction. Pickles contain paths, not annotations: spawned workers read them again,
    forked workers share them.

    Attributes:
        drawn_upright: True if annotations are drawn on images rotated by their EXIF orientation, unless their size
            shows otherwise.
    """

    annotations_file: Path
    drawn_upright: bool = False

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
    def _read_records(self) -> Sequence[JsonRow]:
        """Read the annotations; each record has at least ``id`` and ``file_name``."""

    @abstractmethod
    def _read_sample(self, record: JsonRow) -> DenseSample:
        """Read the sample of one record."""

    @cached_property
    def _records(self) -> Sequence[JsonRow]:
        return self._read_records()

    def __getstate__(self) -> JsonRow:
        return {name: value for name, value in self.__dict__.items() if name not in ("_records", "_document")}

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        """Return counts, fields and the file; images of a copy that has not read its file yet are not counted."""
        return described(
            self,
            lambda: str(self.__dict__["annotations_file"]),
            lambda: counted(len(self.__dict__["_records"]), "image"),
            lambda: counted(len(self.class_names), "class", "classes"),
            lambda: "masks" if self.has_masks else None,
            lambda: "semantic maps" if self.has_semantic_maps else None,
            lambda: "panoptic" if self.schema is not None else None,
            lambda: None if self.keypoint_schema is None else counted(len(self.keypoint_schema.names), "keypoint"),
        )

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample.

        Raises:
            DatasetError: its image or one of its annotations cannot be read.
        """
        return self._finished(index, self._read_sample(self._records[index]))

    def _finished(self, index: int, sample: DenseSample) -> DenseSample:
        """Add the fields of files beside the annotations to a sample, transform it, and fill holes in depth."""
        if self.beside is not None:
            sample = self.beside(sample, self.file_name(index), self.image_row(index))
        sample = self.transforms(sample) if self.transforms else sample
        return fill_holes(sample) if self.depth_fill else sample

    @abstractmethod
    def instance_labels(self, index: int) -> Sequence[int]:
        """Return the class of each object, from the annotations alone; no image is read."""

    @abstractmethod
    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the dataset's id of each instance; instance id i + 1 is at position i, before ``transforms``."""

    def image_id(self, index: int) -> int:
        """Return the id of the image in the annotations."""
        return int(self._records[index]["id"])

    def file_name(self, index: int) -> str:
        """Return the image's file, relative to ``images_dir``."""
        return str(self._records[index]["file_name"])

    def photo_file(self, index: int) -> PhotoFile:
        """Return the path of an image, and its (H, W) in the annotations, or None if they do not give it."""
        record = self._records[index]
        size = (record["height"], record["width"]) if "height" in record else None
        return self.images_dir / record["file_name"], size

    def label_file(self, index: int) -> Path | None:
        """Return the file with the annotations of an image; None if they are in several files."""
        return self.annotations_file if self.annotations_file.is_file() else None

    def is_drawn_upright(self, index: int) -> bool:
        """Return ``drawn_upright``."""
        return self.drawn_upright


def expect_folder(path: str | PathLike[str]) -> Path:
    """Return the path of a folder; raise `DatasetError` if there is none."""
    if not Path(path).is_dir():
        raise DatasetError(f"{path}: expected a folder of images, found none; check the path")
    return Path(path)


def expect_outside(photos: AnnotatedDataset, out: str | PathLike[str]) -> None:
    """Raise `DatasetError` if a dataset would find new files in ``out`` when it is opened again.

    Args:
        photos: a dataset.
        out: a folder that need not exist.
    """
    place = Path(out).resolve()
    for folder in photos.searched_folders():
        if place.is_relative_to(folder.resolve()):
            raise DatasetError(
                f"{out}: expected a folder outside of {folder}, where the dataset's images are searched for, since "
                "it would be read as a part of the dataset; choose another"
            )


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_tables(path: Path, tables: Mapping[str, TableColumns]) -> dict[str, list[JsonRow]]:
    """Read a JSON object of tables, which are lists of objects in file order.

    ``tables`` gives the required tables, and the required keys of their entries with their types.
    Large files are read by `segpaste.datasets.formats.large_json`.

    Raises:
        DatasetError: the file is missing or not JSON, or a table or key is missing or of another type.
    """
    document = _read_json(path)
    if not isinstance(document, dict):
        raise not_an_object(path, tables, document)
    for name, columns in tables.items():
        rows = document.get(name)
        if not isinstance(rows, list):
            raise DatasetError(
                f"{path}: expected a list under the key '{name}', got {'none' if rows is None else type(rows).__name__}"
                f"; the file has the keys {', '.join(sorted(document))}"
            )
        for i, row in enumerate(rows):
            check_row(f"{path}: {name}[{i}]", row, columns)
    return {name: document[name] for name in tables}


def index_by_id(path: Path, name: str, rows: Iterable[JsonRow]) -> dict[int, JsonRow]:
    """Return the rows of one table by their ``id``; raise `DatasetError` if two rows have the same id."""
    found: dict[int, JsonRow] = {}
    for row in rows:
        if found.setdefault(row["id"], row) is not row:
            raise repeated(path, name, row["id"])
    return found


def repeated(path: Path, name: str, row_id: int) -> DatasetError:
    """Return the error of two rows of a table with the same id."""
    return DatasetError(f"{path}: expected unique ids in '{name}', got {row_id} twice; give each its own")


def index_images(path: Path, rows: Iterable[JsonRow]) -> dict[int, JsonRow]:
    """Return the rows of the ``images`` table by id; raise `DatasetError` if ids repeat or a size is not positive."""
    found = index_by_id(path, "images", rows)
    for row in found.values():
        if row["height"] < 1 or row["width"] < 1:
            raise no_size(path, row)
    return found


def no_size(path: Path, row: JsonRow) -> DatasetError:
    """Return the error of an image whose size is not positive."""
    return DatasetError(
        f"{path}: expected a size of image {row['id']} > 0, got {row['width']} x {row['height']}; correct it"
    )


def class_indices(path: Path, categories: Iterable[JsonRow]) -> dict[int, JsonRow]:
    """Return the categories by ascending id; their position is the class, even if the ids have gaps."""
    return dict(sorted(index_by_id(path, "categories", categories).items()))


def lookup(path: Path, what: str, key: object, table: Mapping[Any, Any], name: str) -> Any:
    """Return ``table[key]``; raise `DatasetError` if ``what`` refers to a key that the table ``name`` lacks."""
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


def flag_of(path: Path, what: str, row: JsonRow, key: str) -> bool:
    """Return a key that is 0, 1 or missing, which means 0; raise `DatasetError` for anything else, such as text."""
    value = row.get(key)
    if value not in (None, 0, 1):
        raise DatasetError(f"{path}: expected '{key}' of {what} as 0 or 1, got {value!r:.40}; correct it")
    return bool(value)


def file_name_of(path: Path, row: JsonRow) -> str:
    """Return the image's file, relative to the folder of the images."""
    if isinstance(name := row.get("file_name"), str):
        return name
    if isinstance(url := row.get("coco_url"), str):
        return "/".join(url.split("/")[-2:])
    raise DatasetError(
        f"{path}: expected a 'file_name' of image {row['id']}, or a 'coco_url' that ends in it, got {name!r}; add it"
    )


def class_list(path: Path, row: JsonRow, key: str, label_of: Mapping[int, int]) -> list[int] | None:
    """Return the category list ``key`` of an image as classes, or None if the image has no such list."""
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
        return read_json(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an annotation file in JSON, found no such file; check the path") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a readable annotation file, got {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise malformed(path, error) from error


def malformed(path: Path, error: object, where: str = "") -> DatasetError:
    """Return the error of a file that is not JSON, at a place if it is known."""
    if isinstance(error, DatasetError):
        return error
    if isinstance(error, UnicodeDecodeError):
        return not_utf8(path, error, f"at {where.rstrip(': ')}" if where else "")
    return DatasetError(
        f"{path}: expected JSON, got truncated or malformed text ({where}{error}); download or write it again"
    )


def not_an_object(path: Path, tables: Iterable[str], document: object) -> DatasetError:
    """Return the error of a JSON file that is not an object of tables."""
    return DatasetError(
        f"{path}: expected a JSON object with the keys {', '.join(tables)}, got a {type(document).__name__}; "
        "is this the annotation file of a whole dataset?"
    )


def check_row(label: str, row: object, columns: TableColumns) -> None:
    """Raise `DatasetError` if an entry of a table is not an object or lacks a key; ``label`` names the entry."""
    if not isinstance(row, dict):
        raise DatasetError(f"{label}: expected an object, got {type(row).__name__}")
    for key, wanted in columns.items():
        if key not in row:
            raise DatasetError(f"{label}: expected the keys {', '.join(columns)}, '{key}' is missing; add it")
        if not isinstance(row[key], wanted) or (wanted is int and isinstance(row[key], bool)):
            raise DatasetError(f"{label}: expected '{key}' of type {wanted.__name__}, got {row[key]!r:.40}; convert it")
