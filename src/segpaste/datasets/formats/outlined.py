"""Annotations of labelling tools. Shapes are converted to COCO's tables in memory and read as such.

Each format has a function that reads its files into `ShapeTable`. Objects are outlines or boxes; keypoints without a
shape are boxes, too. A dataset with both outlines and boxes requires a task: with ``segment`` outlines are instances
and boxes are objects without a mask, which samples have as crowd regions; with ``detect`` all objects are boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segpaste._pixels import Size
from segpaste._point_names import KeypointSchema
from segpaste.datasets.entries import JsonRow, checked_points, read_schema
from segpaste.datasets.formats.image_annotations import ImageAnnotations, PackedRecords, Transforms
from segpaste.datasets.formats.tool_shapes import Shape, Unread, annotation_row, join_parts, unread_of


@dataclass(frozen=True, slots=True)
class AnnotatedImage:
    """Image with its shapes.

    Attributes:
        row: its entry in ``images``: ``file_name``, ``height``, ``width`` and all other values of the file.
        shapes: shapes in file order.
        file: the file with the shapes of this image only; None if one file has those of all images.
        unread: number of what else the file says, by description.
        stored: path of its copy, if it is inside the file.
    """

    row: JsonRow
    shapes: list[Shape]
    file: Path | None = None
    unread: Unread = field(default_factory=dict)
    stored: Path | None = None


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Contents of the files of a dataset.

    Attributes:
        path: the annotation file, or the folder of many, for errors.
        images: images without ids.
        categories: the classes in order, each with at least a ``name``.
        digest: digest of the annotations.
        tables: other values of the files about the dataset.
        left_out: number of shapes that enclose nothing, such as lines, by kind.
        drawn_upright: True if the tool shows images rotated by their EXIF orientation.
        others: files that are not those of the tool, with words for their kind.
        keypoint_schema: schema of the keypoints; None if it follows from the names in the categories.
    """

    path: Path
    images: list[AnnotatedImage]
    categories: list[JsonRow]
    digest: str
    tables: JsonRow = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    drawn_upright: bool = False
    others: Mapping[Path, str] = field(default_factory=dict)
    keypoint_schema: KeypointSchema | None = None


Read = Callable[[], ShapeTable]
"""Function that reads the files of a dataset. It can be pickled, because spawned workers read the files again."""


class OutlinedAnnotations(ImageAnnotations):
    """Annotations of images with outlined objects, or with boxes only, read as the equivalent COCO file.

    Args:
        images_dir: the folder to which file names of images are relative.
        annotations_file: the annotation file, or the folder of many.
        read: function that reads the files.
        drawn: contents of the files.
        has_masks: False to read all objects as boxes.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Attributes:
        not_objects: number of shapes that enclose nothing, such as lines, by kind.
        category_ids: the id of each class, from 1.
        has_crowds: True if there are ignored regions, crowds, or objects without a mask among others.
        reads_maps: True if masks are in maps, or images are no files, so that checks read the samples.
    """

    category_ids: tuple[int, ...]
    has_crowds: bool
    reads_maps: bool = False

    def __init__(
        self,
        images_dir: Path,
        annotations_file: Path,
        read: Read,
        drawn: ShapeTable,
        *,
        has_masks: bool = True,
        transforms: Transforms | None = None,
    ) -> None:
        self.has_masks = has_masks
        self._read, self._drawn, self.not_objects = read, [drawn], dict(drawn.left_out)
        super().__init__(images_dir, annotations_file, transforms=transforms)

    def __getstate__(self) -> JsonRow:
        return {**super().__getstate__(), "_drawn": []}

    @property
    def categories(self) -> list[JsonRow]:
        """Classes in COCO's form, with ids from 1."""
        return [dict(row) for row in self._categories]

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of an image, with all values of the files."""
        row: JsonRow = self._entry(index)["image"]
        return row

    def image_id(self, index: int) -> int:
        """Return the number of the image, from 1."""
        return int(self._entry(index)["image"]["id"])

    def file_name(self, index: int) -> str:
        """Return the image's file, relative to ``images_dir``."""
        return str(self._entry(index)["image"]["file_name"])

    def photo_file(self, index: int) -> tuple[Path, Size | None]:
        """Return the path of an image, and its (H, W) in the annotations."""
        image = self._entry(index)["image"]
        return self.path_of(index), (image["height"], image["width"])

    def path_of(self, index: int) -> Path:
        """Return the path of an image, that of its copy if it is inside its annotations."""
        return self.image_path(self._entry(index) | {"file_name": self.file_name(index)})

    def unread_paths(self) -> Mapping[Path, str]:
        """Return the files that belong to no image, with those that are not the tool's."""
        return {**super().unread_paths(), **self._others}

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the objects and ignored regions of an image in COCO's form, with all values of the files."""
        rows: list[JsonRow] = self._records[index]["rows"]
        return rows

    def drawn_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of the files that stand beside maps; without maps, `annotation_rows`."""
        return self.annotation_rows(index)

    def tables(self) -> JsonRow:
        """Return the values of the files about the dataset."""
        return dict(self._tables)

    def label_file(self, index: int) -> Path | None:
        """Return the file with the annotations of an image."""
        file = self._entry(index).get("file")
        return super().label_file(index) if file is None else Path(file)

    def unread(self, index: int) -> dict[str, int]:
        """Count what the shapes are without, such as boxes of outlined objects that are not those of their outlines."""
        return dict(self._entry(index)["unread"])

    def places(self, index: int) -> list[str]:
        """Return the file and entry of each row of `annotation_rows`, for errors."""
        places: list[str] = self._entry(index)["places"]
        return places

    def _entry(self, index: int) -> JsonRow:
        entries = self._records
        assert isinstance(entries, _Entries)
        return entries.entry(index)

    def _read_records(self) -> PackedRecords:
        drawn = self._drawn.pop() if self._drawn else self._read()
        self.digest, self._tables = drawn.digest, drawn.tables
        self.drawn_upright, self._others = drawn.drawn_upright, drawn.others
        self._categories = [{"id": number, **row} for number, row in enumerate(drawn.categories, start=1)]
        self.category_ids = tuple(row["id"] for row in self._categories)
        self.class_names = tuple(row["name"] for row in self._categories)
        self.keypoint_schema = drawn.keypoint_schema or read_schema(drawn.path, self._categories)
        self.has_crowds = False
        return _Entries(self._entries(drawn), self._record)

    def _entries(self, drawn: ShapeTable) -> Iterator[JsonRow]:
        """Yield the entry of each image and those of its annotations, in COCO's form."""
        by_name = {row["name"]: row for row in reversed(self._categories)}  # the first of equal names
        num_rows = 0
        for number, found in enumerate(drawn.images, start=1):
            image = {"id": number, **found.row}
            rows, places, unread = [], [], Counter(found.unread)
            for parts in join_parts(found.shapes):
                num_rows += 1
                category = by_name[parts[0].label]
                row = annotation_row(parts, (image["height"], image["width"]), category.get("keypoints", ()))
                is_object = not self.has_masks or bool(row["segmentation"])
                self.has_crowds |= "ignore" in row or bool(row["iscrowd"]) or not is_object
                known_as = num_rows if parts[0].id is None else parts[0].id
                rows.append({"id": known_as, "image_id": image["id"], "category_id": category["id"], **row})
                places.append(parts[0].where)
                unread += unread_of(parts, row)
            file = None if found.file is None else str(found.file)
            stored = {} if found.stored is None else {"stored": str(found.stored)}
            yield {"image": image, "rows": rows, "places": places, "file": file, "unread": dict(+unread), **stored}

    def _record(self, entry: JsonRow) -> JsonRow:
        """Return the record of an image, see `segpaste.datasets.formats.instances`, from its entries."""
        image, rows = entry["image"], entry["rows"]
        objects, crowds = [], []
        for row in rows:
            region = {"id": row["id"], "label": row["category_id"] - 1, "segmentation": row["segmentation"]}
            region["box"] = row["bbox"]
            is_region = bool(row.get("ignore") or row.get("iscrowd"))
            if is_region or (self.has_masks and not row["segmentation"]):
                crowds.append({**region, "ignored": bool(row.get("ignore")), "unmasked": not is_region})
            else:
                points = checked_points(self.annotations_file, row, self.keypoint_schema)
                objects.append({**region, "keypoints": points})
        return {
            **{key: image[key] for key in ("id", "file_name", "height", "width")},
            "annotations": objects,
            "crowds": crowds,
            "negative": None,
            "not_exhaustive": [],
            **entry,
        }


class _Entries(PackedRecords):
    """Packed entries that are converted to records when read.

    Args:
        entries: entries of images and their annotations.
        record: function that converts the entries of an image to its record.
    """

    def __init__(self, entries: Iterable[JsonRow], record: Callable[[JsonRow], JsonRow]) -> None:
        super().__init__(entries)
        self._record = record

    def entry(self, index: int) -> JsonRow:
        """Return the entries of one image."""
        found: JsonRow = super().__getitem__(index)
        return found

    def __getitem__(self, index: Any) -> Any:
        return self._record(self.entry(index))
