"""Listings of datasets from their annotation files: COCO and LVIS, YOLO, and the files of labelling tools.

Each broken entry is a finding. Masks are decoded again when their image is measured, so memory holds no outlines. Maps
that a dataset also has are not read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import compress, product
from pathlib import Path
from typing import Any

from segpaste._pixels import Size
from segpaste.datasets.checking.listings.findings import Finding
from segpaste.datasets.checking.listings.listing import COCO_KEYS, ListedImage, ListedObject, Listing
from segpaste.datasets.entries import (
    CROWD,
    IGNORED,
    INSTANCE,
    NEITHER,
    Box,
    JsonRow,
    box_of,
    boxless,
    edges_of,
    has_segmentation,
    not_json,
)
from segpaste.datasets.errors import DatasetError, collected, refuse
from segpaste.datasets.formats.format import Task
from segpaste.datasets.formats.outlined import OutlinedAnnotations
from segpaste.datasets.formats.text_files import read_lines
from segpaste.datasets.formats.tool_shapes import NOT_READ
from segpaste.datasets.formats.yolo.annotations import ONE_KIND
from segpaste.datasets.formats.yolo.data import (
    YoloData,
    expect_labels,
    found_labels,
    images_of,
    listed_images,
    stray_labels,
)
from segpaste.datasets.formats.yolo.labels import LabelFormat, box_px, parse_labels, points_px, polygon_px
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import Column, id_column, join_columns
from segpaste.datasets.repeated_ids import RepeatedIds
from segpaste.datasets.tables import INSTANCES, SEGMENTS, AnnotationTables, Images

_MANY_CLASSES = 1 << 16
_LACKS = {which: tuple(compress(COCO_KEYS, which)) for which in product((False, True), repeat=len(COCO_KEYS))}
"""The keys that an entry lacks, by which those are: one tuple for all entries, since a file has many."""


def list_coco(
    annotations_file: Path,
    images_dir: Path,
    panoptic_dir: Path | None = None,
    repeated_ids: RepeatedIds | None = None,
) -> Listing:
    """List a file of instances, or of panoptic segments if the folder of their maps is given.

    With ``repeated_ids``, annotations without an id of their own are remarks, and listed as they are then read.

    Raises:
        DatasetError: the file is missing, is not JSON, or has no tables.
    """
    file, columns = AnnotationFile(annotations_file, repeated_ids), INSTANCES if panoptic_dir is None else SEGMENTS
    listing = Listing(file=file.path, format="coco" if panoptic_dir is None else "panoptic")
    with collected() as problems:
        tables = AnnotationTables(file, columns)
        listing.class_names, listing.category_ids = [*tables.categories.names], [*tables.categories.ids]
        _ = tables.categories.schema
        tables.json.check_others(columns)
        images = tables.images()
        names: dict[str, int] = {}
        for number, image_id in enumerate(map(int, images.ids.tolist())):
            name, size = images.name(number), (int(images.sizes[number, 0]), int(images.sizes[number, 1]))
            if names.setdefault(name, image_id) != image_id:
                listing.find("duplicate_entry", f"images {names[name]} and {image_id} are the same file", name)
            path = images_dir / name
            image = ListedImage(name, path, size, label_file=file.path, in_subfolder="/" in name, image_id=image_id)
            listing.images.append(image)
        if panoptic_dir is None:
            _list_instances(listing, file, tables, images)
        else:
            _list_segments(listing, tables, images, panoptic_dir, problems)
    position_of = {found.id: found.image for found in listing.objects} if problems else {}
    listing.findings[:0] = [_finding(problem, listing, position_of) for problem in problems]
    return listing


def _finding(problem: DatasetError, listing: Listing, position_of: Mapping[int, int]) -> Finding:
    """Return the finding of a problem, with the image of its annotation."""
    image, number = problem.image, position_of.get(-1 if problem.annotation is None else problem.annotation)
    if image is None and number is not None:
        image = listing.images[number].name
    return Finding.at(listing.file, problem.kind or "broken_entry", str(problem), image, problem.annotation)


def _list_instances(listing: Listing, file: AnnotationFile, tables: AnnotationTables, images: Images) -> None:
    position_of = {int(image_id): position for position, image_id in enumerate(images.ids.tolist())}
    ids, image_ids, objects = list[Column](), list[Column](), list[ListedObject]()
    marks = tables.json.marks("annotations")
    is_strict = _is_strict(file)
    has_masks, without, without_box = False, list[int](), list[int]()

    _list_repaired(listing, tables, position_of)

    def row_at(place: int, row_id: int) -> JsonRow:
        known_by = (row_id, "id") if tables.repair is None else tables.repair.known_by(place, row_id)
        return file.row(int(marks[place]) + 1, int(marks[place + 1]), *known_by)

    for block in tables.annotations():
        ids.append(block.ids)
        image_ids.append(block.image_ids)
        positions = (position_of.get(int(image_id), -1) for image_id in block.image_ids.tolist())
        columns = zip(block.places, block.rows, positions, block.labels, block.kinds, block.points, strict=True)
        for place, row, position, label, kind, points in columns:
            if not is_strict:
                _expect_json(file, row)
            outline, is_region = row.get("segmentation"), kind in (CROWD, IGNORED)
            has_masks |= kind == INSTANCE
            if not has_segmentation(row):
                without.append(len(objects))
            if kind == NEITHER:
                without_box.append(row["id"])
            mask = None if outline is None else _Segmentation(row_at, place, row["id"])
            known, has_points = label if label >= 0 else None, any(points[2::3]) if points else False
            lacks = _LACKS[tuple(row.get(key) is None for key in COCO_KEYS)]
            found = ListedObject(row["id"], position, known, mask, _box_px(row), is_region, has_points, lacks=lacks)
            is_ignored = kind == IGNORED and not row.get("iscrowd")
            num_points = len(points or ()) // 3
            objects.append(found._replace(area=_area(row), is_ignored=is_ignored, num_points=num_points))
    if not has_masks:  # a file of boxes: empty lists are not masks
        for number in without:
            objects[number] = objects[number]._replace(segmentation=None)
        for row_id in without_box:
            refuse(boxless(file.path, row_id), annotation=row_id)
    is_placed = tables.place(join_columns(ids), join_columns(image_ids), images) >= 0
    listing.objects = objects if is_placed.all() else [*compress(objects, is_placed.tolist())]


def _list_repaired(listing: Listing, tables: AnnotationTables, position_of: Mapping[int, int]) -> None:
    """Add a finding for each annotation without an id of its own, if these are not errors."""
    if tables.repair is None:
        return
    for place, image_id in tables.repair.image_ids.items():
        number, position = tables.repair.new_ids[place], position_of.get(image_id)
        becomes = "it is left out" if tables.repair.rule == "drop" else f"it gets the id {number}"
        listing.find(
            "repeated_id",
            f"annotations[{place}] of image {image_id}: expected an id of its own, got none, or that of an annotation "
            f"before it; {becomes}",
            None if position is None else listing.images[position].name,
            None if tables.repair.rule == "drop" else number,
        )


class _Segmentation:
    """Function of (H, W) that reads the segmentation of an entry; a partial function takes three times the memory."""

    __slots__ = ("_id", "_place", "_row_at")

    def __init__(self, row_at: Callable[[int, int], JsonRow], place: int, row_id: int) -> None:
        self._row_at, self._place, self._id = row_at, place, row_id

    def __call__(self, size: Size) -> object:
        return self._row_at(self._place, self._id)["segmentation"]


def _is_strict(file: AnnotationFile) -> bool:
    """Return whether a file certainly has no NaN and no infinite number, which Python reads, but which are not JSON."""
    return not any(map(file.source.is_mentioned, (b"NaN", b"Infinity")))


def _expect_json(file: AnnotationFile | AnnotationTables, row: JsonRow) -> None:
    """Refuse an entry with numbers that are not JSON; those of its mask are found when it is decoded."""
    if (problem := not_json({key: value for key, value in row.items() if key != "segmentation"})) is not None:
        text = f"{file.path}: annotation {row['id']}: {problem}; correct or remove it"
        refuse(DatasetError(text, kind="broken_entry"), annotation=row["id"])


def _list_segments(
    listing: Listing, tables: AnnotationTables, images: Images, panoptic_dir: Path, problems: list[DatasetError]
) -> None:
    image_ids, names, objects = list[int](), list[str](), list[ListedObject]()
    is_strict = _is_strict(AnnotationFile(tables.path))
    with_problems: list[tuple[int, DatasetError]] = []
    for number, (image_id, name, segments) in enumerate(tables.maps()):
        image_ids.append(image_id)
        names.append(name)
        num_before = len(problems)
        for entry, label, is_crowd in segments:
            if not is_strict:
                _expect_json(tables, entry)
            is_stuff = label >= 0 and not is_crowd and not tables.categories.rows[label]["isthing"]
            known, box = label if label >= 0 else None, _box_px(entry)
            lacks = tuple(key for key in COCO_KEYS if entry.get(key) is None)
            found = ListedObject(entry["id"], number, known, None, box, is_crowd, is_stuff=is_stuff)
            objects.append(found._replace(lacks=lacks, area=_area(entry), is_segment=True))
        with_problems += [(number, problem) for problem in problems[num_before:]]
    positions = tables.place_maps(id_column(image_ids), images).tolist()
    for position, name in zip(positions, names, strict=True):
        if position >= 0:
            listing.images[position] = listing.images[position]._replace(map_path=panoptic_dir / name)
    listing.objects += [
        found._replace(image=positions[found.image]) for found in objects if positions[found.image] >= 0
    ]
    for number, problem in with_problems:
        problem.image = listing.images[positions[number]].name if positions[number] >= 0 else None


def _area(row: JsonRow) -> float | None:
    area = row.get("area")
    return float(area) if isinstance(area, int | float) else None


def _box_px(row: JsonRow) -> Box | None:
    """Return the box of an entry as (x1, y1, x2, y2); None without a valid box."""
    box = box_of(row)
    return None if box is None else edges_of(box)


def list_yolo(data: YoloData, split: str, task: Task | None = None) -> Listing:
    """List a split.

    Args:
        data: description of the dataset.
        split: name of the split.
        task: as for `segpaste.datasets.YoloDataset`.

    Raises:
        DatasetError: a folder or list of images is missing.
    """
    listing = Listing(class_names=list(data.class_names or ()), file=data.file, format="yolo", split=split)
    listing.keypoint_shape = data.keypoint_shape
    label_format = LabelFormat(len(data.class_names) if data.class_names else _MANY_CLASSES, data.keypoint_shape, task)
    images = _yolo_images(listing, data.splits[split])
    expect_labels(data.splits[split], images, sum(found_labels(image).is_file() for image in images))
    first_lines: dict[str, tuple[Path, str]] = {}
    for image in images:
        name = Path(os.path.relpath(image, data.root)).as_posix()
        labels = found_labels(image)
        for row in _yolo_rows(listing, name, labels, label_format):
            first_lines.setdefault(row["kind"], (labels, f"{labels}: line {row['line']}"))
            listed = _yolo_object(row, len(listing.images), data)
            listing.objects.append(listed._replace(has_float_class=row["has_float_class"]))
        is_below = image.parent not in data.splits[split] and any(of in image.parents for of in data.splits[split])
        listing.images.append(ListedImage(name, image, None, label_file=labels, entry="line", in_subfolder=is_below))
    if len(first_lines) > 1:
        (file, box), (_, polygon) = first_lines["detect"], first_lines["segment"]
        listing.find("missing_mask", f"{box} has a box, {polygon} a polygon; {ONE_KIND}", file=file)
    listing.has_masks = first_lines.keys() <= {"segment"}
    for path in (path for source in data.splits[split] for path in stray_labels(source, images)):
        listing.find("stray_labels", str(path), file=path)
    if data.class_names is None:
        most = max((found.label for found in listing.objects if found.label is not None), default=0)
        listing.class_names = [f"class_{i}" for i in range(most + 1)]
    return listing


def _yolo_images(listing: Listing, sources: tuple[Path, ...]) -> list[Path]:
    """Return all images of folders and lists, including listed images that do not exist."""
    images: set[Path] = set()
    for source in sources:
        if source.is_dir() or not source.is_file():
            images |= {*images_of(source)}
        else:
            images |= {source.parent / name for _, name in listed_images(source)}
    return sorted(images)


def _yolo_rows(listing: Listing, image: str, path: Path, label_format: LabelFormat) -> list[JsonRow]:
    """Return the valid rows of a label file; each invalid row is a finding."""
    try:
        lines = read_lines(path)
    except FileNotFoundError:
        return []
    except (OSError, DatasetError) as error:
        told = error if isinstance(error, DatasetError) else f"{path}: could not be read ({error})"
        listing.find("broken_entry", str(told), image, file=path)
        return []
    rows: list[JsonRow] = []
    for number, line in enumerate(lines, start=1):
        try:
            of_line = {"line": number, "has_float_class": _has_float_class(line)}
            rows += [{**row, **of_line} for row in parse_labels(path, line, label_format)[0]]
        except DatasetError as error:
            text = str(error).replace(f"{path}: line 1:", f"{path}: line {number}:")
            listing.find("broken_entry", text, image, number, file=path)
    return rows


def _has_float_class(line: str) -> bool:
    words = line.split(maxsplit=1)
    return bool(words) and not words[0].lstrip("+-").isdigit()


def _yolo_object(row: JsonRow, position: int, data: YoloData) -> ListedObject:
    values, kind = row["values"], row["kind"]

    def segmentation(size: Size) -> object:
        return [polygon_px(values, size)]

    def box(size: Size) -> Box:
        x1, y1, x2, y2 = box_px(values, size)
        return x1, y1, x2, y2

    if kind == "segment":
        return ListedObject(row["line"], position, row["label"], segmentation)
    has_points = kind == "pose" and data.keypoint_shape is not None
    if has_points and data.keypoint_shape is not None:
        has_points = bool((points_px(values, data.keypoint_shape, (1, 1))[:, 2] > 0).any())
    return ListedObject(row["line"], position, row["label"], None, box, has_keypoints=has_points)


def list_shapes(dataset: OutlinedAnnotations) -> Listing:
    """List a dataset of shapes; maps that a dataset also has are not read."""
    listing = Listing(class_names=list(dataset.class_names), has_masks=dataset.has_masks, file=dataset.annotations_file)
    for kind, num in dataset.not_objects.items():
        listing.find("left_out", f"{num:,} shapes of the kind '{kind}' enclose nothing, so they are not objects")
    rows, lost = _ShapeRows(dataset), Counter[str]()
    for index in range(len(dataset)):
        path, size = dataset.photo_file(index)
        listing.images.append(
            ListedImage(
                dataset.file_name(index),
                path,
                size,
                label_file=dataset.label_file(index),
                drawn_upright=dataset.drawn_upright,
            )
        )
        lost.update(OutlinedAnnotations.unread(dataset, index))  # a subclass would read maps
        for i, (row, where) in enumerate(zip(rows.of(index), dataset.places(index), strict=True)):
            listing.objects.append(
                ListedObject(
                    row["id"],
                    index,
                    row["category_id"] - 1,
                    rows.segmentation(index, i) if row["segmentation"] else None,
                    _box_px(row),
                    bool(row.get("ignore")),
                    any((row.get("keypoints") or ())[2::3]),
                    where=where,
                )
            )
    for what in NOT_READ:
        if lost[what]:
            listing.find("left_out", f"{lost[what]:,} {what}")
    if listing.images and all(map(_has_own_xml, listing.images)):
        listing.format = "voc"
    return listing


def _has_own_xml(image: ListedImage) -> bool:
    """Whether the annotations of an image are in an XML file of its name, as in Pascal VOC."""
    file = image.label_file
    return file is not None and file.suffix == ".xml" and file.stem == Path(image.name).stem


class _ShapeRows:
    """Entries of a dataset, decoded image by image: memory holds the outlines of one image."""

    def __init__(self, dataset: OutlinedAnnotations) -> None:
        self._dataset, self._last = dataset, (-1, list[JsonRow]())

    def of(self, index: int) -> list[JsonRow]:
        """Return the entries of an image."""
        if self._last[0] != index:
            self._last = index, self._dataset.annotation_rows(index)
        return self._last[1]

    def segmentation(self, index: int, number: int) -> Any:
        """Return a function that reads the mask of an entry."""

        def read(size: Size) -> object:
            return self.of(index)[number]["segmentation"]

        return read
