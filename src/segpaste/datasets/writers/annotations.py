"""Annotations of a written image as our readers find them, in the form of the ledger; and how splits are opened.

Comparison is exact but for what a format cannot say: the six decimals of YOLO and the first pixel of VOC, which is 1,
see `tolerance_px`, and oriented boxes of YOLO, which have the corners of a rectangular polygon, or enclose their mask
and are no larger than its box.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow, has_segmentation
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.coco.segments import read_segment_ids, segment_positions
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.image_files import open_image
from segpaste.datasets.formats.kept_shapes import entry_points_px
from segpaste.datasets.formats.outlined_images import OutlinedImages
from segpaste.datasets.formats.registry import find_dataset
from segpaste.datasets.formats.sidecar_fields import stored_surfaces
from segpaste.datasets.formats.sidecar_maps import SidecarMaps, find_beside
from segpaste.datasets.formats.voc.files import VocFolder
from segpaste.datasets.formats.yolo.data import read_data
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.formats.yolo.labels import box_px, points_px, polygon_px
from segpaste.datasets.writers.format import View
from segpaste.datasets.writers.ledger import (
    OF_ENTRIES,
    UNCHANGED,
    ExpectedImage,
    Region,
    checksum,
    digest,
    entry_regions,
    further_keys,
    map_digest,
    region_digest,
    sample_regions,
)
from segpaste.datasets.writers.mask_sums import FILLED_BOX, fills_box, measure, segmentation_sum
from segpaste.datasets.writers.xml_texts import header_texts, image_texts, object_texts, written_header
from segpaste.types import DenseSample


def open_split(folder: Path, view: View) -> AnnotatedDataset:
    """Open a split of a written dataset as its users will; a split that its lists do not name, by its folder."""
    found = find_dataset(folder, view.format)
    if view.split in found.splits and (view.format != "yolo" or _is_own(folder, view.split)):
        return found.open(view.split)
    if not view.split:
        return found.open()
    photos = (
        _of_folder(folder, view.split)
        if view.format == "yolo"
        else found.format.open(folder, view.split, ReadOptions())
    )
    return with_beside(folder, photos, view.split)


def with_beside(folder: Path, photos: AnnotatedImages, split: str = "") -> AnnotatedImages:
    """Return a split of a written dataset with the depth, normals and cameras beside its annotations."""
    photos.beside = find_beside(folder, split, photos)
    return photos


def _is_own(folder: Path, split: str) -> bool:
    return len(read_data(folder).splits[split]) == 1


def _of_folder(folder: Path, split: str) -> YoloDataset:
    """Open the images of a YOLO split that shares its key in the data YAML with others, or has none."""
    photos, data = YoloDataset.__new__(YoloDataset), read_data(folder)
    photos.data = replace(data, splits={split: (folder / "images" / split,)})
    photos.split, photos._asked = split, None
    AnnotatedImages.__init__(photos, data.root, data.file)
    return photos


def tolerance_px(view: View, size: tuple[int, int]) -> float:
    """Return by how much a coordinate may differ in a format.

    YOLO has six decimals: half a unit of the last one, twice. VOC counts from 1, and x + 1 - 1 is rounded: two units in
    the last place of the largest coordinate.
    """
    if view.format == "voc":
        return 2 * math.ulp(max(size))
    return 1e-6 * max(size) if view.format == "yolo" else 0.0


def read_regions(
    view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage, folder: Path
) -> list[Region]:
    """Return the annotations of an image in the order of its file; none for label maps, whose values are compared.

    Args:
        view: the format; the samples of one that this module does not know are compared.
        photos: the opened split.
        index: index of the image.
        expected: what it must hold; it tells how an annotation is compared.
        folder: the dataset's folder.

    Raises:
        DatasetError: a file is missing or broken, or the map of panoptic segments is another one.
    """
    if view.format == "label-maps":
        return []
    if view.format == "coco-panoptic":
        return _segments(view, photos, index, expected)
    if view.format == "yolo":
        return _lines(view, photos, index, expected)
    if view.format == "voc":
        return _xml_objects(view, photos, index, expected, folder)
    return _entries(view, photos, index, expected) if view.format in OF_ENTRIES else _instances(view, photos, index)


def _instances(view: View, photos: AnnotatedDataset, index: int) -> list[Region]:
    """Return the instances of a sample, for formats whose files are not compared one by one."""
    sample = photos[index]
    nothing: list[JsonRow] = [{}] * sample.num_instances
    label_of = {name: label for label, name in reversed(list(enumerate(view.names)))}
    regions = sample_regions(view, sample, [], nothing, [])
    return [region._replace(label=label_of.get(photos.class_names[region.label], -1)) for region in regions]


def _entries(view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage) -> list[Region]:
    """Return the entries of an image; a segmentation made by a writer is measured, and must agree with its entry."""
    wanted = expected.views[view.format]
    assert isinstance(photos, CocoDetectionV2)
    label_of = {number: label for label, number in enumerate(photos.category_ids)}
    rows = photos.annotation_rows(index)
    there = entry_regions(rows, label_of, expected.size)
    for i, (row, region) in enumerate(zip(rows, wanted, strict=False)):
        if region.kind in UNCHANGED:
            there[i] = there[i]._replace(box=row.get("bbox"), area=row.get("area"))
            if region.mask == FILLED_BOX and fills_box(row.get("segmentation"), region.box, expected.size):
                there[i] = there[i]._replace(keys=region_digest(row, is_filled=True), mask=FILLED_BOX)
            continue
        if there[i].label < 0:
            continue
        box, area = row.get("bbox"), row.get("area")
        measured = measure(row["segmentation"], expected.size) if has_segmentation(row) else (region.box, region.area)
        if measured != (region.box, region.area):
            box, area = measured
        points = None
        if region.points is not None:
            points = entry_points_px(row)
        kind = "object" if there[i].kind != "kept" else "ignored" if row.get("ignore") else "region"
        mask = segmentation_sum(row["segmentation"]) if region.mask and row.get("segmentation") else 0
        there[i] = Region(there[i].label, kind, box, area, points, digest(further_keys(row)), mask)  # type: ignore[arg-type]
    return there


def _lines(view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage) -> list[Region]:
    """Return the rows of a label file; equal rows of a copied file, of which readers keep one, are not left out."""
    assert isinstance(photos, YoloDataset)
    wanted = expected.views["yolo"]
    if any(region.kind == "line" for region in wanted):
        words = [line.split() for line in photos.label_text(index).splitlines() if line.strip()]
        return [Region(int(float(label)), "line", keys=digest([label, *rest])) for label, *rest in words]
    there = []
    for number, row in enumerate(photos.rows(index)):
        values = row["values"]
        region = Region(row["label"], "object", mask=wanted[number].mask if number < len(wanted) else 0)
        if view.task in ("segment", "obb") and number < len(wanted) and wanted[number].points is not None:
            region = region._replace(points=polygon_px(values, expected.size))
        elif view.task in ("segment", "obb"):
            outline = polygon_px(values, expected.size)
            measured: tuple[list[float], float] = measure([outline], expected.size)
            if view.task == "obb" and number < len(wanted):
                measured = _enclosed(outline, wanted[number], tolerance_px(view, expected.size))
            region = region._replace(box=measured[0], area=measured[1])
        else:
            x1, y1, x2, y2 = box_px(values, expected.size)
            region = region._replace(box=[x1, y1, x2 - x1, y2 - y1])
        if view.task == "pose" and photos.data.keypoint_shape is not None:
            points = points_px(values, photos.data.keypoint_shape, expected.size)
            region = region._replace(points=points.ravel().tolist())
        there.append(region)
    return there


def _enclosed(outline: list[float], region: Region, tolerance: float) -> tuple[list[float], float]:
    """Return box and area of the mask of an oriented box if it encloses them tightly, else those of the corners."""
    corners = np.array(outline).reshape(-1, 2)
    low, high = corners.min(0), corners.max(0)
    sides = np.roll(corners, -1, 0) - corners
    area = abs(sides[0, 0] * sides[1, 1] - sides[0, 1] * sides[1, 0])
    assert region.box is not None
    assert region.area is not None
    x, y, width, height = region.box
    slack = tolerance * (width + height) * 2 + tolerance
    is_rectangle = len(corners) == 4 and abs((sides[0] * sides[1]).sum()) <= slack
    encloses = (low <= (x + tolerance, y + tolerance)).all() and (
        high >= (x + width - tolerance, y + height - tolerance)
    ).all()
    if is_rectangle and encloses and region.area - slack <= area <= width * height + slack:
        return region.box, region.area
    return [*low.tolist(), *(high - low).tolist()], float(area)


def _xml_objects(
    view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage, folder: Path
) -> list[Region]:
    """Return the objects of an XML file of VOC, as they were read when the split was opened."""
    assert isinstance(photos, OutlinedImages)
    stem = Path(expected.file).stem
    if (file := VocFolder(folder, view.split).xml_file(stem)) is None:
        raise DatasetError(f"expected Annotations/{stem}.xml, found none")
    has_objects = any(path.startswith("SegmentationObject/") for path in expected.values)
    wanted, found = (
        header_texts(Path(expected.file).name, expected.size, is_segmented=has_objects),
        written_header(file),
    )
    if wrong := [key for key, text in wanted.items() if found.get(key) != text]:
        raise DatasetError(f"{stem}.xml: expected the {wrong[0]} {wanted[wrong[0]]}, got {found.get(wrong[0])}")
    texts = image_texts(photos.image_row(index), view.split) if expected.texts else {}
    if lost := [key for key, text in expected.texts.items() if texts.get(key) != text]:
        raise DatasetError(f"expected the element {lost[0]!r} in {stem}.xml as it was read, got another, or none")
    label_of = {name: label for label, name in reversed(list(enumerate(view.names)))}
    there = []
    for row in photos.drawn_rows(index):
        kind: Literal["region", "object"] = "region" if row.get("ignore") or row["iscrowd"] else "object"
        keys = digest(object_texts({"attributes": row.get("attributes", {})}))
        label = label_of.get(photos.class_names[row["category_id"] - 1], -1)
        there.append(Region(label, kind, row["bbox"], keys=keys))
    return there


def _segments(view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage) -> list[Region]:
    """Return the segments of a panoptic image; the map of their pixels is compared here."""
    assert isinstance(photos, CocoPanoptic)
    if expected.map_keys not in (None, map_digest(photos.map_row(index))):
        raise DatasetError("expected the keys of its panoptic map as they were read, got others")
    rows = photos.annotation_rows(index)
    label_of = {number: label for label, number in enumerate(photos.category_ids)}
    if expected.segments is None:
        return [Region(label_of[row["category_id"]], "entry", keys=digest(row)) for row in rows]
    path = photos.panoptic_dir / photos.map_row(index)["file_name"]
    numbers = segment_positions(read_segment_ids(path, expected.size), [row["id"] for row in rows])
    if checksum(numbers) != expected.segments:
        raise DatasetError(f"expected the segments in {path.name} as they were read, got others")
    there = []
    for row in rows:
        label = label_of[row["category_id"]]
        kind: Literal["region", "stuff", "object"] = "object"
        if row.get("iscrowd"):
            kind = "region"
        elif label in view.stuff:
            kind = "stuff"
        there.append(Region(label, kind, row["bbox"], row["area"], entry_points_px(row), digest(further_keys(row))))
    return there


def surface_difference(
    view: View, photos: AnnotatedDataset, index: int, sample: DenseSample, expected: ExpectedImage
) -> str | None:
    """Return what the reader finds otherwise of depth, normals and camera than their files have; None if nothing.

    The files are compared one by one; this finds a file that the reader passes over, or reads in another unit or frame.
    Depth as PNG is read in label maps only.
    """
    beside = photos.beside
    normals = (
        stored_surfaces(beside.paths(photos.file_name(index)))
        if isinstance(beside, SidecarMaps)
        else photos.stored_surfaces(index)
    )[2]
    depth, camera = sample.depth, sample.camera_intrinsics
    for name, value in expected.values.items():
        what, there = name.partition("/")[0], None
        if what == "depth" and (name.endswith(".npy") or view.format == "label-maps"):
            metres = None if depth is None else depth.as_subclass(Tensor)[0].numpy()
            if metres is not None and name.endswith(".png"):
                metres = np.rint(metres.astype(np.float64) * 1000).astype(np.uint16)
            there = None if metres is None else checksum(metres)
        elif what == "normals":
            there = None if normals is None else checksum(normals.transpose(1, 2, 0).astype(np.float32))
        elif what == "intrinsics":
            numbers = None if camera is None else [camera.fx, 0, camera.cx, 0, camera.fy, camera.cy, 0, 0, 1]
            there = None if numbers is None else checksum(np.array(numbers, np.float64))
        else:
            continue
        if there != value:
            return f"expected the reader to find {name} as it is, got {'nothing' if there is None else 'other values'}"
    return None


def stored_pixels(path: Path) -> NDArray[Any]:
    """Return the values of a picture as stored, without its palette."""
    with open_image(path) as picture:
        return np.asarray(picture)
