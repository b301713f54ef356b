"""Parts of datasets of COCO, LVIS, COCO panoptic and Roboflow: their JSON is divided row by row, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.large_json.file import AnnotationFile, JsonTables
from segpaste.datasets.splitting.part_files import Copied, Made, PartFiles, Parts

_STARTS = {"coco": "instances_", "lvis": "lvis_", "coco-panoptic": "panoptic_"}


class CocoParts(PartFiles):
    """Images in ``PART``, annotations in ``annotations/KIND_PART.json``, and maps of segments in a folder beside it."""

    has_rows = True

    def __init__(self, found: FoundDataset, split: str, photos: AnnotatedImages) -> None:
        super().__init__(found, split, photos)
        if self.format == "coco-file":
            is_lvis = photos.schema is None and len(photos) > 0 and photos.federated(0) is not None
            self.format = "lvis" if is_lvis else "coco" if photos.schema is None else "coco-panoptic"

    def _own_files(self, index: int, part: str) -> Iterator[Copied]:
        yield PurePosixPath(part, self._name(index)), self.photos.path_of(index)
        if name := self.photos.map_row(index).get("file_name"):
            file = self.photos.annotations_file.with_suffix("")
            folder = getattr(self.photos, "panoptic_dir", file)
            yield PurePosixPath(self._listing(part)).with_suffix("") / name, folder / name

    def _listing(self, part: str) -> str:
        """Return the path of the annotation file of a part."""
        return f"annotations/{_STARTS[self.format]}{part}.json"

    def closing(self, parts: Parts) -> Iterator[Made]:
        """Yield the annotation file of each part."""
        for part, indices in parts.items():
            ids = {self.photos.image_id(index) for index in indices}
            yield self._listing(part), divided_json(AnnotationFile(self.photos.annotations_file), ids)


class RoboflowParts(CocoParts):
    """Images and ``_annotations.coco.json`` in a folder for each part."""

    def _listing(self, part: str) -> str:
        return f"{part}/_annotations.coco.json"


def divided_json(file: AnnotationFile, image_ids: set[int]) -> Iterator[bytes]:
    """Yield the text of an annotation file with the rows of some images only; all other text is that of the file.

    The rows are those of ``images``, and of every other list of objects which all have an ``image_id``.
    """
    tables = file.tables("images", "annotations")
    for number, (name, value) in enumerate(tables.values.items()):
        yield (b",\n" if number else b"{") + json.dumps(name).encode() + b":"
        key = "id" if name == "images" else "image_id" if _names_images(tables, name) else None
        if key is None:
            yield file.source.read(value.start, value.stop).strip()
        else:
            yield from _rows(file, tables, name, key, image_ids)
    yield b"}\n"


def _names_images(tables: JsonTables, name: str) -> bool:
    """Return whether a table is a list of objects which all have the id of an image."""
    if name == "annotations" or tables.values[name].marks is None:
        return name == "annotations"
    rows = (row for _, rows in tables.blocks(name) for row in rows)
    return all(isinstance(row, dict) and type(row.get("image_id")) is int for row in rows)


def _rows(file: AnnotationFile, tables: JsonTables, name: str, key: str, image_ids: set[int]) -> Iterator[bytes]:
    """Yield the text of a list with the rows whose ``key`` is the id of one of some images."""
    marks, start = tables.marks(name).tolist(), b"[\n"
    for first, rows in tables.blocks(name):
        for number, row in enumerate(rows, start=first):
            if row[key] in image_ids:
                yield start + file.source.read(marks[number] + 1, marks[number + 1]).strip()
                start = b",\n"
    yield b"[]" if start == b"[\n" else b"]"
