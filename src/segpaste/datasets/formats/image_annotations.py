"""Base of the readers of annotations, which need no torch, and the packed records that loader workers share."""

from __future__ import annotations

import json
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from segpaste._reprs import counted, described
from segpaste.datasets.annotations import Annotations, ImageFile
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError

if TYPE_CHECKING:
    from segpaste.types import DenseSample

Transforms = Callable[["DenseSample"], "DenseSample"]


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


class PackedRows(Sequence[JsonRow]):
    """Records with ``rows`` whose ``values`` are packed into one array, since JSON of polygons takes long."""

    def __init__(self, records: Iterable[JsonRow]) -> None:
        numbers = array("d")

        def counted() -> Iterator[JsonRow]:
            for record in records:
                start = len(numbers)
                for row in record["rows"]:
                    numbers.extend(row["values"])
                rows = [{**row, "values": len(row["values"])} for row in record["rows"]]
                yield {**record, "rows": rows, "start": start}

        self._records = PackedRecords(counted())
        self._numbers = np.frombuffer(numbers, np.float64) if numbers else np.zeros(0)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        record = self._records[index]
        start = record.pop("start")
        for row in record["rows"]:
            end = start + row["values"]
            row["values"], start = self._numbers[start:end].tolist(), end
        return record


class ImageAnnotations(Annotations):
    """Base of the readers of annotations: images with annotations in one file or in a file per image.

    All annotations are read at construction. Pickles contain paths, not annotations: spawned workers read them again,
    forked workers share them.

    Attributes:
        drawn_upright: True if annotations are drawn on images rotated by their EXIF orientation, unless their size
            shows otherwise.
        around: function that finds the unread files in the folders of the dataset, see
            `segpaste.datasets.formats.sidecar_maps`; None if it is given as a file.
    """

    annotations_file: Path
    drawn_upright: bool = False
    around: Callable[[Any], Mapping[Path, str]] | None = None

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

    def image_id(self, index: int) -> int:
        """Return the id of the image in the annotations."""
        return int(self._records[index]["id"])

    def file_name(self, index: int) -> str:
        """Return the image's file, relative to ``images_dir``."""
        return str(self._records[index]["file_name"])

    def photo_file(self, index: int) -> ImageFile:
        """Return the path of an image, and its (H, W) in the annotations, or None if they do not give it."""
        record = self._records[index]
        size = (record["height"], record["width"]) if "height" in record else None
        return self.images_dir / record["file_name"], size

    def image_path(self, record: JsonRow) -> Path:
        """Return the path of the image of a record; ``stored`` is that of an image that has no file of its own."""
        return self.images_dir / str(record.get("stored", record["file_name"]))

    def label_file(self, index: int) -> Path | None:
        """Return the file with the annotations of an image; None if they are in several files."""
        return self.annotations_file if self.annotations_file.is_file() else None

    def files_of(self, index: int) -> tuple[Path, ...]:
        """Return the files with the annotations and maps of an image."""
        file = self.label_file(index)
        return (*(() if file is None else (file,)), *self.map_files(index))

    def unread_paths(self) -> Mapping[Path, str]:
        """Return the files in the folder of the dataset that belong to no image, with words for their kind."""
        return {} if self.around is None else self.around(self)

    def is_drawn_upright(self, index: int) -> bool:
        """Return ``drawn_upright``."""
        return self.drawn_upright


Images = TypeVar("Images", bound=ImageAnnotations)


def expect_folder(path: str | PathLike[str]) -> Path:
    """Return the path of a folder; raise `DatasetError` if there is none."""
    if not Path(path).is_dir():
        raise DatasetError(f"{path}: expected a folder of images, found none; check the path")
    return Path(path)
