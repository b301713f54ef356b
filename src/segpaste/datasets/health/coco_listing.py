"""Listing of COCO and LVIS files: instances, and panoptic segments without their maps.

Each broken entry is a finding. Masks are decoded again when their image is measured, so memory holds no outlines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import compress
from pathlib import Path

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.entries import CROWD, IGNORED, box_of
from segpaste.datasets.errors import DatasetError, collected
from segpaste.datasets.health.listing import Box, ListedObject, ListedPhoto, Listing
from segpaste.datasets.health.report import Finding
from segpaste.datasets.large_json.columns import Column, id_column, join_columns
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.tables import INSTANCES, SEGMENTS, AnnotationTables, Images
from segpaste.types.sampling import Size


def list_coco(annotations_file: Path, images_dir: Path, panoptic_dir: Path | None = None) -> Listing:
    """List a file of instances, or of panoptic segments if the folder of their maps is given.

    Raises:
        DatasetError: the file is missing, is not JSON, or has no tables.
    """
    file, columns = AnnotationFile(annotations_file), INSTANCES if panoptic_dir is None else SEGMENTS
    listing = Listing(file=file.path)
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
            listing.photos.append(ListedPhoto(name, images_dir / name, size, label_file=file.path))
        if panoptic_dir is None:
            _list_instances(listing, file, tables, images)
        else:
            _list_segments(listing, tables, images, panoptic_dir, problems)
    photo_of = {found.id: found.photo for found in listing.objects} if problems else {}
    listing.findings[:0] = [_finding(problem, listing, photo_of) for problem in problems]
    return listing


def _finding(problem: DatasetError, listing: Listing, photo_of: Mapping[int, int]) -> Finding:
    """Return the finding of a problem, with the image of its annotation."""
    image, photo = problem.image, photo_of.get(-1 if problem.annotation is None else problem.annotation)
    if image is None and photo is not None:
        image = listing.photos[photo].name
    return Finding.at(listing.file, problem.kind or "broken_entry", str(problem), image, problem.annotation)


def _list_instances(listing: Listing, file: AnnotationFile, tables: AnnotationTables, images: Images) -> None:
    photo_of = {int(image_id): photo for photo, image_id in enumerate(images.ids.tolist())}
    ids, image_ids, objects = list[Column](), list[Column](), list[ListedObject]()
    marks = tables.json.marks("annotations")
    has_masks, without = False, list[int]()

    def segmentation(place: int, row_id: int, size: Size) -> object:
        return file.row(int(marks[place]) + 1, int(marks[place + 1]), row_id)["segmentation"]

    for block in tables.annotations():
        ids.append(id_column(row["id"] for row in block.rows))
        image_ids.append(id_column(row["image_id"] for row in block.rows))
        for place, row, label, kind, points in zip(*block, strict=True):
            outline, is_region = row.get("segmentation"), kind in (CROWD, IGNORED)
            has_masks = has_masks or bool(outline and not row.get("iscrowd"))
            if outline == []:
                without.append(len(objects))
            mask = None if outline is None else partial(segmentation, place, row["id"])
            known, photo = label if label >= 0 else None, photo_of.get(row["image_id"], -1)
            has_points = any(points[2::3]) if points else False
            objects.append(ListedObject(row["id"], photo, known, mask, edges_of(row), is_region, has_points))
    for number in () if has_masks else without:  # a file of boxes: empty lists are not masks
        objects[number] = objects[number]._replace(segmentation=None)
    is_placed = tables.place(join_columns(ids), join_columns(image_ids), images) >= 0
    listing.objects = objects if is_placed.all() else [*compress(objects, is_placed.tolist())]


def _list_segments(
    listing: Listing, tables: AnnotationTables, images: Images, panoptic_dir: Path, problems: list[DatasetError]
) -> None:
    image_ids, names, objects = list[int](), list[str](), list[ListedObject]()
    with_problems: list[tuple[int, DatasetError]] = []
    for number, row in enumerate(tables.rows("annotations")):
        image_ids.append(row["image_id"])
        names.append(row["file_name"])
        num_before = len(problems)
        for entry, label, is_crowd in tables.categories.segments(row):
            is_stuff = label >= 0 and not is_crowd and not tables.categories.rows[label]["isthing"]
            known, box = label if label >= 0 else None, edges_of(entry)
            objects.append(ListedObject(entry["id"], number, known, None, box, is_crowd, is_stuff=is_stuff))
        with_problems += [(number, problem) for problem in problems[num_before:]]
    photos = tables.place_maps(id_column(image_ids), images).tolist()
    for photo, name in zip(photos, names, strict=True):
        if photo >= 0:
            listing.photos[photo] = listing.photos[photo]._replace(map_path=panoptic_dir / name)
    listing.objects += [found._replace(photo=photos[found.photo]) for found in objects if photos[found.photo] >= 0]
    for number, problem in with_problems:
        problem.image = listing.photos[photos[number]].name if photos[number] >= 0 else None


def edges_of(row: JsonRow) -> Box | None:
    """Return the box of an entry as (x1, y1, x2, y2); None without a valid box."""
    if (box := box_of(row)) is None:
        return None
    x, y, width, height = box
    return x, y, x + width, y + height
