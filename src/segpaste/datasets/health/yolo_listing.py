"""Listing of a split of a YOLO dataset: each image, and each line of its label file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import Task
from segpaste.datasets.formats.name_lists import image_name_of
from segpaste.datasets.formats.text_files import read_lines
from segpaste.datasets.formats.yolo.data import YoloData, expect_labels, found_labels, photos_of, stray_labels
from segpaste.datasets.formats.yolo.labels import RowForm, box_px, parse_labels, points_px, polygon_px
from segpaste.datasets.health.listing import ListedObject, ListedPhoto, Listing
from segpaste.types.sampling import Size

_MANY_CLASSES = 1 << 16


def list_yolo(data: YoloData, split: str, task: Task | None = None) -> Listing:
    """List a split.

    Args:
        data: description of the dataset.
        split: name of the split.
        task: as for `segpaste.datasets.YoloDataset`.

    Raises:
        DatasetError: a folder or list of images is missing.
    """
    listing = Listing(class_names=list(data.class_names or ()), file=data.file)
    form = RowForm(len(data.class_names) if data.class_names else _MANY_CLASSES, data.keypoint_shape, task)
    photos = _photos(listing, data.splits[split])
    expect_labels(data.splits[split], photos, sum(found_labels(photo).is_file() for photo in photos))
    first_lines: dict[str, tuple[Path, str]] = {}
    for photo in photos:
        name = Path(os.path.relpath(photo, data.root)).as_posix()
        labels = found_labels(photo)
        for row in _rows(listing, name, labels, form):
            first_lines.setdefault(row["kind"], (labels, f"{labels}: line {row['line']}"))
            listing.objects.append(_listed(row, len(listing.photos), data))
        listing.photos.append(ListedPhoto(name, photo, None, label_file=labels, entry="line"))
    if len(first_lines) > 1:
        (file, box), (_, polygon) = first_lines["detect"], first_lines["segment"]
        listing.find("missing_mask", f"{box} has a box, {polygon} a polygon", file=file)
    listing.has_masks = "segment" in first_lines or not first_lines
    for path in (path for source in data.splits[split] for path in stray_labels(source, photos)):
        listing.find("stray_labels", str(path), file=path)
    if data.class_names is None:
        most = max((found.label for found in listing.objects if found.label is not None), default=0)
        listing.class_names = [f"class_{i}" for i in range(most + 1)]
    return listing


def _photos(listing: Listing, sources: tuple[Path, ...]) -> list[Path]:
    """Return all images of folders and lists, including listed images that do not exist."""
    photos: set[Path] = set()
    for source in sources:
        if source.is_dir() or not source.is_file():
            photos |= {*photos_of(source)}
            continue
        try:
            lines = read_lines(source)
        except OSError as error:
            raise DatasetError(f"{source}: expected a list of images, could not read it ({error})") from error
        for line in lines:
            if name := image_name_of(line, partial(_is_file, source.parent)):
                photos.add(source.parent / name)
    return sorted(photos)


def _is_file(folder: Path, name: str) -> bool:
    return (folder / name).is_file()


def _rows(listing: Listing, photo: str, path: Path, form: RowForm) -> list[JsonRow]:
    """Return the valid rows of a label file; each invalid row is a finding."""
    try:
        lines = read_lines(path)
    except FileNotFoundError:
        return []
    except (OSError, DatasetError) as error:
        told = error if isinstance(error, DatasetError) else f"{path}: could not be read ({error})"
        listing.find("broken_entry", str(told), photo, file=path)
        return []
    rows: list[JsonRow] = []
    for number, line in enumerate(lines, start=1):
        try:
            rows += [{**row, "line": number} for row in parse_labels(path, line, form)[0]]
        except DatasetError as error:
            text = str(error).replace(f"{path}: line 1:", f"{path}: line {number}:")
            listing.find("broken_entry", text, photo, number, file=path)
    return rows


def _listed(row: JsonRow, photo: int, data: YoloData) -> ListedObject:
    values, kind = row["values"], row["kind"]

    def segmentation(size: Size) -> object:
        return [polygon_px(values, size)]

    def box(size: Size) -> tuple[float, float, float, float]:
        x1, y1, x2, y2 = box_px(values, size)
        return x1, y1, x2, y2

    if kind == "segment":
        return ListedObject(row["line"], photo, row["label"], segmentation)
    has_points = kind == "pose" and data.keypoint_shape is not None
    if has_points and data.keypoint_shape is not None:
        has_points = bool((points_px(values, data.keypoint_shape, (1, 1))[:, 2] > 0).any())
    return ListedObject(row["line"], photo, row["label"], None, box, has_keypoints=has_points)
