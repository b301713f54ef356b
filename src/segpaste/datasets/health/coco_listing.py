"""Listing of COCO and LVIS files: instances, and panoptic segments without their maps.

The readers reject a file at its first broken entry. Here each entry is checked, and a broken one is a finding. Entries
are decoded block by block, and masks again when their image is measured, so memory holds no outlines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco_keypoints import checked_points, read_schema
from segpaste.datasets.formats.large_json.file import AnnotationFile
from segpaste.datasets.formats.large_json.tables import JsonTables
from segpaste.datasets.formats.records import box_of, file_name_of, flag_of
from segpaste.datasets.health.listing import Box, ListedObject, ListedPhoto, Listing
from segpaste.types import KeypointSchema
from segpaste.types.sampling import Size

_MAX_SEGMENT_ID = 256**3 - 1


def list_coco(annotations_file: Path, images_dir: Path, panoptic_dir: Path | None = None) -> Listing:
    """List a file of instances, or of panoptic segments if the folder of their maps is given.

    Raises:
        DatasetError: the file is missing, is not JSON, or has no tables.
    """
    return _CocoListing(AnnotationFile(annotations_file), images_dir, panoptic_dir).read()


class _CocoListing:
    """Listing of one file in progress."""

    def __init__(self, file: AnnotationFile, images_dir: Path, panoptic_dir: Path | None) -> None:
        self.file, self.path = file, file.path
        self.images_dir, self.panoptic_dir = images_dir, panoptic_dir
        self.listing = Listing(file=self.path)
        self.schema: KeypointSchema | None = None
        self.category_rows: list[JsonRow] = []

    def read(self) -> Listing:
        names = "images", "annotations", "categories"
        tables = self.file.tables(*names)
        tables.check_lists(*names)
        tables.check_others(dict.fromkeys(names))
        label_of = self._read_categories(tables.rows("categories", {}))
        photo_of = self._read_images(tables.rows("images", {}), label_of)
        if self.panoptic_dir is None:
            self._read_instances(tables, photo_of, label_of)
        else:
            self._read_segments(tables.rows("annotations", {}), photo_of, label_of)
        return self.listing

    def _read_categories(self, rows: Iterable[JsonRow]) -> dict[int, int]:
        """Return the class of each category id."""
        columns = {"id": int, "name": str} | ({} if self.panoptic_dir is None else {"isthing": int})
        good = (row for i, row in enumerate(rows) if self._is_whole(f"categories[{i}]", row, columns))
        self.category_rows = sorted(self._unique("category", good), key=lambda row: int(row["id"]))
        names = [str(row["name"]) for row in self.category_rows]
        self.listing.class_names = names
        self.listing.category_ids = [int(row["id"]) for row in self.category_rows]
        try:
            self.schema = read_schema(self.path, self.category_rows)
        except DatasetError as error:
            self.listing.find("broken_entry", _without_path(error, self.path))
        return {int(row["id"]): label for label, row in enumerate(self.category_rows)}

    def _read_images(self, rows: Iterable[JsonRow], label_of: Mapping[int, int]) -> dict[int, int]:
        """Return the position of the image of each image id."""
        columns = {"id": int, "height": int, "width": int}
        good = (row for i, row in enumerate(rows) if self._is_whole(f"images[{i}]", row, columns))
        positions: dict[int, int] = {}
        names: dict[str, int] = {}
        for row in self._unique("image", good):
            image_id = row["id"]
            try:
                name = file_name_of(self.path, row)
            except DatasetError as error:
                self.listing.find("broken_entry", _without_path(error, self.path))
                continue
            if names.setdefault(name, image_id) != image_id:
                self.listing.find("duplicate_entry", f"images {names[name]} and {image_id} are the same file", name)
            size = row["height"], row["width"]
            if min(size) < 1:
                text = f"image {image_id}: expected a size > 0, got {size[1]} x {size[0]}"
                self.listing.find("broken_entry", text, name)
            self._check_lists(row, name, label_of)
            positions[image_id] = len(self.listing.photos)
            self.listing.photos.append(ListedPhoto(name, self.images_dir / name, size, label_file=self.path))
        return positions

    def _check_lists(self, row: JsonRow, name: str, label_of: Mapping[int, int]) -> None:
        """Check the category lists of an image of LVIS."""
        for key in ("neg_category_ids", "not_exhaustive_category_ids"):
            ids = row.get(key)
            if ids is not None and not isinstance(ids, list):
                text = f"image {row['id']}: expected a list of ids as '{key}', got {ids!r:.40}"
                self.listing.find("broken_entry", text, name)
                continue
            for category in ids or ():
                if not _is_key(category, label_of):
                    text = f"{key} of image {row['id']}: no category {category!r:.40}"
                    self.listing.find("unknown_reference", text, name)

    def _read_instances(self, tables: JsonTables, photo_of: Mapping[int, int], label_of: Mapping[int, int]) -> None:
        columns = {"id": int, "image_id": int, "category_id": int}
        marks = tables.marks("annotations")
        place, has_masks, without = 0, False, list[int]()

        def whole() -> Iterator[JsonRow]:
            nonlocal place, has_masks
            for place, row in enumerate(tables.rows("annotations", {})):
                has_masks = has_masks or bool(row.get("segmentation") and not row.get("iscrowd"))
                if self._is_whole(f"annotations[{place}]", row, columns):
                    yield row

        for row in self._unique("annotation", whole()):
            if not _is_key(row["image_id"], photo_of):
                text = f"annotation {row['id']}: no image {row['image_id']!r:.40}"
                self.listing.find("unknown_reference", text, None, row["id"])
                continue
            photo = photo_of[row["image_id"]]
            if row.get("segmentation") == []:
                without.append(len(self.listing.objects))
            bounds = int(marks[place]) + 1, int(marks[place + 1])
            self._add(photo, row, self._label(row, label_of, "annotation", photo), bounds)
        for number in () if has_masks else without:  # a file of boxes: empty lists are not masks
            self.listing.objects[number] = self.listing.objects[number]._replace(segmentation=None)

    def _add(self, photo: int, row: JsonRow, label: int | None, bounds: tuple[int, int]) -> None:
        """Add an instance or crowd whose entry is at these bytes."""
        what = f"annotation {row['id']}"
        is_crowd, is_ignored = (self._flag(photo, what, row, key) for key in ("iscrowd", "ignore"))
        is_crowd |= is_ignored
        points = None
        if label is not None and not is_crowd and self.category_rows[label].get("keypoints"):
            try:
                points = checked_points(self.path, row, self.schema)
            except DatasetError as error:
                name = self.listing.photos[photo].name
                self.listing.find("broken_keypoints", _without_path(error, self.path), name, row["id"])
        self.listing.objects.append(
            ListedObject(
                row["id"],
                photo,
                label,
                None if row.get("segmentation") is None else self._reader(row["id"], bounds),
                box_function(row),
                is_crowd,
                any(points[2::3]) if points else False,
            )
        )

    def _reader(self, row_id: int, bounds: tuple[int, int]) -> Callable[[Size], object]:
        """Return a function that reads the mask of the entry at these bytes."""
        file = self.file
        return lambda size: file.row(*bounds, row_id)["segmentation"]

    def _read_segments(self, rows: Iterable[JsonRow], photo_of: Mapping[int, int], label_of: Mapping[int, int]) -> None:
        columns = {"image_id": int, "file_name": str, "segments_info": list}
        seen: set[int] = set()
        for i, row in enumerate(rows):
            if not self._is_whole(f"annotations[{i}]", row, columns):
                continue
            if not _is_key(image_id := row["image_id"], photo_of):
                self.listing.find("unknown_reference", f"annotations[{i}]: no image {image_id!r:.40}")
                continue
            photo = photo_of[image_id]
            listed = self.listing.photos[photo]
            if photo in seen:
                self.listing.find("duplicate_id", f"two annotations of image {image_id}", listed.name)
                continue
            seen.add(photo)
            assert self.panoptic_dir is not None
            self.listing.photos[photo] = listed._replace(map_path=self.panoptic_dir / row["file_name"])
            for segment in row["segments_info"]:
                self._add_segment(photo, segment, label_of)

    def _add_segment(self, photo: int, segment: Any, label_of: Mapping[int, int]) -> None:
        name = self.listing.photos[photo].name
        if not isinstance(segment, dict) or not {"id", "category_id"} <= {*segment}:
            self.listing.find(
                "broken_entry", f"expected segments with 'id' and 'category_id', got {segment!r:.60}", name
            )
            return
        if type(segment["id"]) is not int or not 0 < segment["id"] <= _MAX_SEGMENT_ID:
            text = f"expected segment ids in 1..{_MAX_SEGMENT_ID}, got {segment['id']!r:.40}"
            self.listing.find("broken_entry", text, name)
            return
        label = self._label(segment, label_of, "segment", photo)
        is_crowd = self._flag(photo, f"segment {segment['id']}", segment, "iscrowd")
        is_stuff = label is not None and not is_crowd and not self.category_rows[label]["isthing"]
        found = ListedObject(segment["id"], photo, label, None, box_function(segment), is_crowd, is_stuff=is_stuff)
        self.listing.objects.append(found)

    def _flag(self, photo: int, what: str, row: JsonRow, key: str) -> bool:
        try:
            return flag_of(self.path, what, row, key)
        except DatasetError as error:
            self.listing.find("broken_entry", _without_path(error, self.path), self.listing.photos[photo].name)
            return False

    def _label(self, row: JsonRow, label_of: Mapping[int, int], what: str, photo: int) -> int | None:
        if _is_key(row["category_id"], label_of):
            return label_of[row["category_id"]]
        text = f"{what} {row['id']}: no category {row['category_id']!r:.40}"
        self.listing.find("unknown_reference", text, self.listing.photos[photo].name, row["id"])
        return None

    def _is_whole(self, label: str, row: JsonRow, columns: Mapping[str, type]) -> bool:
        """Return whether a row has the keys with their types; if not, add a finding."""
        for key, wanted in columns.items():
            if key not in row:
                self.listing.find("broken_entry", f"{label}: expected the keys {', '.join(columns)}, got no '{key}'")
                return False
            if not isinstance(row[key], wanted) or (wanted is int and isinstance(row[key], bool)):
                text = f"{label}: expected '{key}' of type {wanted.__name__}, got {row[key]!r:.40}"
                self.listing.find("broken_entry", text)
                return False
        return True

    def _unique(self, what: str, rows: Iterable[JsonRow]) -> Iterator[JsonRow]:
        """Yield the first row of each id; each further row is a finding."""
        seen: set[int] = set()
        for row in rows:
            if row["id"] in seen:
                self.listing.find("duplicate_id", f"{what} id {row['id']} occurs twice")
                continue
            seen.add(row["id"])
            yield row


def _is_key(key: object, table: Mapping[int, Any]) -> bool:
    return isinstance(key, int) and key in table


def box_function(row: JsonRow) -> Any:
    """Return the box function of an annotation for `ListedObject`; None without a valid box."""
    if (box := box_of(row)) is None:
        return None
    x, y, width, height = box
    edges: Box = x, y, x + width, y + height
    return lambda size: edges


def _without_path(error: DatasetError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ")
