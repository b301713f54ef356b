"""Entries of one image for a written dataset: those of its file, or made from its sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, JsonRow
from segpaste.datasets.entries import box_of, has_segmentation, not_json
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.instances import clipped_box
from segpaste.datasets.formats.kept_shapes import KeptShape
from segpaste.datasets.formats.references import OF_ANNOTATIONS, refers_to_annotations, renamed
from segpaste.datasets.formats.rle import decode_segmentation, expect_segmentation
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.formats.yolo.labels import exact_box
from segpaste.datasets.writers.coco import encode_mask, tight_xywh
from segpaste.datasets.writers.format import LabelledImage, Unchanged
from segpaste.datasets.writers.ledger import OF_ENTRIES
from segpaste.types import DenseSample


def has_entries(photos: AnnotatedDataset) -> bool:
    """Return whether the annotations of a dataset have entries of their own, with masks or boxes, in COCO's form."""
    return not isinstance(photos, CocoPanoptic) and any(
        _is_entry(row) for row in next((rows for rows in map(photos.annotation_rows, range(len(photos))) if rows), [])
    )


def has_further_fields(photos: AnnotatedDataset) -> bool:
    """Return whether samples have fields that are not in entries; the first image decides, except for COCO's files."""
    if (type(photos) is CocoDetectionV2 and photos.beside is None) or not len(photos):
        return False
    sample = photos[0]
    return any(field is not None for field in (sample.semantic_map, sample.normals, sample.depth_valid))


def kept_entries(photos: AnnotatedDataset, index: int, size: tuple[int, int], *, with_iscrowd: bool) -> list[JsonRow]:
    """Return the entries of an image's annotations as in the file, with what readers of COCO need.

    Missing keys, and those without a value, are added; the segmentation of an object that is null is an empty list. An
    ignored region has ``iscrowd`` 1, too, since these readers do not know ``ignore``, and every region has a mask: run
    lengths, since an empty list or a polygon without a pixel stops some of them. It is the mask that our readers give
    it, its filled box if its segmentation has no pixel.
    """
    missing: JsonRow = {"iscrowd": 0} if with_iscrowd else {}
    rows = photos.annotation_rows(index)
    bare = {row["id"] for row in rows if _is_region(row) and _is_empty(row, size)} if with_iscrowd else set()
    masks = {crowd.annotation_id: crowd.mask for crowd in photos.crowds(index)} if bare else {}
    kept = []
    for row in rows:
        expect_readable_row(photos, index, row, size)
        more: JsonRow = {}
        if with_iscrowd and _is_region(row):
            more = {"iscrowd": 1}
            if row["id"] in bare:
                more["segmentation"] = encode_mask(masks[row["id"]])
        elif is_null(row):
            more = {"segmentation": []}
        kept.append({**_filled(missing, _completed(photos, row, size)), **more})
    return kept


def expect_readable_row(
    photos: AnnotatedDataset, index: int, row: JsonRow, size: tuple[int, int] | None = None
) -> None:
    """Check an entry that is written as it was read: what no reader can open, is not copied.

    Args:
        photos: the dataset.
        index: index of the image.
        row: the entry.
        size: (H, W) of the image, with which its mask is checked; None for entries without one.

    Raises:
        DatasetError: it has numbers that are not JSON, or its mask cannot be decoded.
    """
    problem = not_json(row)
    if problem is None and size is not None and has_segmentation(row):
        try:
            expect_segmentation(row["segmentation"], size)
        except ValueError as error:
            problem = str(error)
    if problem is not None:
        raise DatasetError(
            f"{photos.annotations_file}: annotation {row.get('id')} of image {photos.image_id(index)} "
            f"({photos.file_name(index)}): {problem}; correct or remove it"
        )


def is_null(row: JsonRow) -> bool:
    """Return whether the segmentation of an object is null, which other readers do not take for an empty one."""
    return row.get("segmentation", ()) is None and not _is_region(row)


def _is_empty(row: JsonRow, size: tuple[int, int]) -> bool:
    """Return whether an entry has no segmentation, or one without a pixel, or a broken one."""
    try:
        return not has_segmentation(row) or not decode_segmentation(row["segmentation"], size).any()
    except ValueError:
        return True


def _is_region(row: JsonRow) -> bool:
    return bool(row.get("iscrowd") or row.get("ignore"))


def labelled_image(
    photos: AnnotatedDataset,
    index: int,
    entry: JsonRow,
    sample: DenseSample,
    to: str,
    unchanged: Unchanged | None = None,
) -> LabelledImage:
    """Return an image with the annotations of its sample, each with its entry in the dataset.

    Args:
        photos: the dataset.
        index: index of the image.
        entry: its written entry.
        sample: its sample.
        to: name of the written format.
        unchanged: annotations that are written as they were read.
    """
    by_id = {row["id"]: row for row in photos.annotation_rows(index) if "id" in row}
    crowds = [(crowd, by_id.get(crowd.annotation_id, {})) for crowd in photos.crowds(index)]
    rows = entries_of_instances(photos, index, sample)
    shapes: Sequence[KeptShape] = ()
    if unchanged is None and (sample.instance_masks is None or to == "voc"):
        shapes = given_shapes(photos, index, sample, rows)
    elif unchanged is None and isinstance(photos, YoloDataset) and to in OF_ENTRIES:
        polygons = photos.polygons(index, sample.canvas_size)
        shapes = [KeptShape({"segmentation": [polygons[line]]}) for line in photos.annotation_ids(index)]
    void = photos.void(index)
    return LabelledImage(str(entry["file_name"]), entry, sample, rows, crowds, shapes, unchanged, void=void)


def entries_of_instances(photos: AnnotatedDataset, index: int, sample: DenseSample) -> list[JsonRow]:
    """Return the entry of each instance of a sample, empty if the file has none."""
    by_id = {row["id"]: row for row in photos.annotation_rows(index) if "id" in row}
    if not by_id:
        return [{} for _ in range(sample.num_instances)]
    return [by_id.get(annotation_id, {}) for annotation_id in photos.annotation_ids(index)]


def given_shapes(photos: AnnotatedDataset, index: int, sample: DenseSample, rows: Sequence[JsonRow]) -> list[KeptShape]:
    """Return the box of each instance in all its digits, cut to the image; none for an instance with another box.

    Args:
        photos: one split.
        index: index of the image.
        sample: sample of the image; its boxes are float32.
        rows: the entry of each instance; not used for YOLO, whose label files have the numbers.
    """
    size = sample.canvas_size
    if isinstance(photos, YoloDataset):
        if sample.instance_masks is not None:
            return [KeptShape()] * sample.num_instances
        lines = {row["line"]: row["values"] for row in photos.rows(index)}
        given: list[list[float] | None] = [exact_box(lines[n], size) for n in photos.annotation_ids(index)]
    else:
        given = [box_of(row) for row in rows]
    return [
        KeptShape() if box is None else _given_shape(box, size, own)
        for box, own in zip(given, sample.boxes.as_subclass(Tensor).numpy(), strict=True)
    ]


def _given_shape(box: list[float], size: tuple[int, int], own: NDArray[np.float32]) -> KeptShape:
    """Return a box [x, y, width, height] cut to the image of (H, W) if it is that of the sample, else none."""
    x, y, width, height = box
    inside = clipped_box(box, size)
    if inside is None or not np.allclose(np.array(inside), own, rtol=1e-6, atol=0):
        return KeptShape()
    if inside != (x, y, x + width, y + height):
        box = [*inside[:2], inside[2] - inside[0], inside[3] - inside[1]]
    return KeptShape({"bbox": box, "area": box[2] * box[3]})


def size_of(photos: AnnotatedDataset, index: int) -> tuple[int, int]:
    """Return the (H, W) of an image as in its entry, else that of its file."""
    row = photos.image_row(index)
    if isinstance(row.get("height"), int) and isinstance(row.get("width"), int):
        return row["height"], row["width"]
    return upright_size(photos.path_of(index))


def image_entry(photos: AnnotatedDataset, index: int, name: str, size: tuple[int, int]) -> JsonRow:
    """Return the entry of an image under its new name; ``size`` is (H, W)."""
    row = photos.image_row(index)
    return {**row, "file_name": name, "width": size[1], "height": size[0]}


def kept_tables(
    tables: JsonRow, new_names: Mapping[str, str], keeps_annotation_ids: bool
) -> tuple[JsonRow, Counter[str]]:
    """Return the other tables of a file with the new names of images, and what is left out of them.

    Args:
        tables: the tables.
        new_names: written file name of each image. Ids of images do not change.
        keeps_annotation_ids: False if annotations are numbered again.
    """
    names = {old: new for old, new in new_names.items() if old != new}
    short = Counter(PurePosixPath(old).name for old in new_names)
    last = {PurePosixPath(old).name: new for old, new in names.items()}
    names = {word: PurePosixPath(new).name for word, new in last.items() if short[word] == 1} | names
    left_out = Counter(
        {
            f"table '{name}': {OF_ANNOTATIONS}": len(table) if isinstance(table, list | dict) else 1
            for name, table in tables.items()
            if not keeps_annotation_ids and refers_to_annotations(table, name)
        }
    )
    kept = {name: table for name, table in tables.items() if f"table '{name}': {OF_ANNOTATIONS}" not in left_out}
    return {name: renamed(table, names) if names else table for name, table in kept.items()}, left_out


def _completed(photos: AnnotatedDataset, row: JsonRow, size: tuple[int, int]) -> JsonRow:
    missing: dict[str, Any] = {}
    if has_segmentation(row) and None in (row.get("area"), row.get("bbox")):
        try:
            mask = decode_segmentation(row["segmentation"], size)
        except ValueError as error:
            raise DatasetError(f"{photos.annotations_file}: annotation {row.get('id')}: {error}; correct it") from error
        missing |= {"area": int(mask.sum()), "bbox": tight_xywh(mask)}
    elif row.get("area") is None and isinstance(row.get("bbox"), list):
        missing["area"] = row["bbox"][2] * row["bbox"][3]
    return _filled(missing, row)


def _filled(missing: JsonRow, row: JsonRow) -> JsonRow:
    """Return a row with the values that it lacks, or has as null."""
    return {**missing, **{key: value for key, value in row.items() if value is not None or key not in missing}}


def _is_entry(row: Mapping[str, Any]) -> bool:
    return "category_id" in row and "image_id" in row and ("segmentation" in row or "bbox" in row)
