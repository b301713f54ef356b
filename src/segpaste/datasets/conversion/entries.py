"""Entries of one image for a written dataset: those of its file, or made from its sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset, ids_of_instances
from segpaste.datasets.entries import JsonRow, has_segmentation, not_json
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.carried import POINT_KEYS, REGION_KEYS, finite_row
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.kept_shapes import KeptShape, given_shapes
from segpaste.datasets.formats.rle import decode_segmentation, encode_mask, expect_segmentation
from segpaste.datasets.formats.sidecar_fields import stored_surfaces
from segpaste.datasets.formats.sidecar_maps import SidecarMaps
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.writers.coco import tight_xywh
from segpaste.datasets.writers.format import LabelledImage, Unchanged
from segpaste.datasets.writers.ledger import OF_ENTRIES
from segpaste.types import DenseSample

_OWN = REGION_KEYS | POINT_KEYS
"""Keys of an entry with its geometry, of which no number may be missing."""
INVALID_DEPTH = "pixels of invalid depth with a value, written as 0"
ROUNDED_DEPTH = "files of depth with more digits than float32, rounded"
NO_NORMAL = "pixels of normals that are no unit vectors, written as 0"
ROUNDED_NORMALS = "files of normals with more digits than float32, rounded"
CHANGES = frozenset({INVALID_DEPTH, ROUNDED_DEPTH, NO_NORMAL, ROUNDED_NORMALS})
"""Descriptions of values that are written otherwise, with the same meaning, and are no losses."""
BEYOND_FLOAT32 = "pixels of depth beyond float32, which are invalid"


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


def readable_entries(
    photos: AnnotatedDataset, index: int, size: tuple[int, int] | None, lost: Counter[str]
) -> list[JsonRow]:
    """Return the entries of an image's annotations, which are written as they were read.

    NaN and infinite numbers in further keys become null, and are counted.

    Args:
        photos: the dataset.
        index: index of the image.
        size: (H, W) of the image, with which masks are checked; None for entries without one.
        lost: the counts.

    Raises:
        DatasetError: numbers of its geometry are not JSON, or a mask cannot be decoded.
    """
    rows = photos.annotation_rows(index)
    for row in rows:
        _expect_readable(photos, index, row, size)
    return [finite_row(row, "objects", lost, _OWN) for row in rows]


def kept_entries(
    photos: AnnotatedDataset, index: int, rows: Sequence[JsonRow], size: tuple[int, int], *, with_iscrowd: bool
) -> list[JsonRow]:
    """Return the entries of an image's annotations with what readers of COCO need.

    Missing keys, and those without a value, are added; the segmentation of an object that is null is an empty list. An
    ignored region has ``iscrowd`` 1, too, since these readers do not know ``ignore``, and every region has a mask: run
    lengths, since an empty list or a polygon without a pixel stops some of them. It is the mask that our readers give
    it, its filled box if its segmentation has no pixel.
    """
    missing: JsonRow = {"iscrowd": 0} if with_iscrowd else {}
    bare = {row["id"] for row in rows if _is_region(row) and _is_empty(row, size)} if with_iscrowd else set()
    masks = {crowd.annotation_id: crowd.mask for crowd in photos.crowds(index)} if bare else {}
    kept = []
    for row in rows:
        more: JsonRow = {}
        if with_iscrowd and _is_region(row):
            more = {"iscrowd": 1}
            if row["id"] in bare:
                more["segmentation"] = encode_mask(masks[row["id"]])
        elif is_null(row):
            more = {"segmentation": []}
        kept.append({**_filled(missing, _completed(photos, row, size)), **more})
    return kept


def _expect_readable(photos: AnnotatedDataset, index: int, row: JsonRow, size: tuple[int, int] | None) -> None:
    """Raise `DatasetError` for an entry that no reader can open: it is not copied."""
    problem = not_json({key: value for key, value in row.items() if key in _OWN})
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
        shapes = given_shapes(photos, index, sample)
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
    return [by_id.get(annotation_id, {}) for annotation_id in ids_of_instances(photos, index, sample)]


def size_of(photos: AnnotatedDataset, index: int) -> tuple[int, int]:
    """Return the (H, W) of an image as in its entry, else that of its file."""
    row = photos.image_row(index)
    if isinstance(row.get("height"), int) and isinstance(row.get("width"), int):
        return row["height"], row["width"]
    return upright_size(photos.path_of(index))


def image_entry(photos: AnnotatedDataset, index: int, name: str, size: tuple[int, int]) -> JsonRow:
    """Return the entry of an image under its new name; ``size`` is (H, W)."""
    row = {"id": photos.image_id(index), **photos.image_row(index)}
    return {**row, "file_name": name, "width": size[1], "height": size[0]}


def with_stored_normals(photos: AnnotatedDataset, index: int, sample: DenseSample, told: Counter[str]) -> DenseSample:
    """Return a sample of a file with its normals as stored, whose length need not be 1; they are written unchanged.

    Count the values of depth and normals that are written otherwise.
    """
    if isinstance(photos.beside, SidecarMaps):
        depth, metres_per_unit, normals = stored_surfaces(photos.beside.paths(photos.file_name(index)))
    else:
        depth, metres_per_unit, normals = photos.stored_surfaces(index)
    if depth is not None and sample.depth_valid is not None:
        _count_depth(depth, metres_per_unit, sample.depth_valid[0].numpy(), told)
    if sample.normals is None:
        return sample
    if normals is None:
        zero = (sample.normals.as_subclass(Tensor) == 0).all(0)
        told[NO_NORMAL] += int(zero.sum())
        return sample
    told[ROUNDED_NORMALS] += int(_is_rounded(normals))
    return replace(sample, normals=torch.from_numpy(normals.astype(np.float32)))


def _count_depth(stored: NDArray[Any], metres_per_unit: float, valid: NDArray[np.bool_], told: Counter[str]) -> None:
    """Count values [H, W] of depth that are written otherwise: as 0, or rounded."""
    with np.errstate(over="ignore", invalid="ignore"):
        metres = (stored * np.float64(metres_per_unit)).astype(np.float32)
    beyond = np.isfinite(stored) & (stored > 0) & ~(np.isfinite(metres) & (metres > 0))
    told[BEYOND_FLOAT32] += int(beyond.sum())
    told[INVALID_DEPTH] += int(((stored != 0) & ~valid & ~beyond).sum())
    told[ROUNDED_DEPTH] += int(_is_rounded(stored[valid]))


def _is_rounded(stored: NDArray[Any]) -> bool:
    """Return whether float32 does not hold some values."""
    if stored.dtype == np.float32 or stored.dtype.itemsize < 4:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = stored.astype(np.float32).astype(np.float64)
    return bool(((rounded != stored) & np.isfinite(stored)).any())


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
