"""Objects of a sample for other libraries, and the list of what they cannot hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from segpaste._pixels import mask_box
from segpaste.datasets.contract import AnnotatedDataset, Crowd, ids_of_instances
from segpaste.datasets.entries import JsonRow, has_segmentation
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.carried import POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.image_files import read_head
from segpaste.datasets.formats.instances import keypoint_rows
from segpaste.datasets.views import Samples, annotated
from segpaste.types import DenseSample

_MOST_TRIES = 16
Point = tuple[float, float, int]


@dataclass(frozen=True, slots=True)
class ToolObject:
    """Object or region of a sample.

    Attributes:
        label: its class; None for a region without one.
        box: (x1, y1, x2, y2), pixel edges.
        mask: [H, W] bool; None for a box alone.
        id: the id of its annotation; None for a region that is in the crowd mask only.
        is_crowd: True for a crowd region.
        is_ignored: True for an ignored region.
        points: keypoints (x, y, v) in COCO's coordinates, whole numbers at pixel centres; empty without any.
        attributes: further keys of its entry.
    """

    label: int | None
    box: tuple[float, ...]
    mask: NDArray[np.bool_] | None
    id: int | None
    is_crowd: bool = False
    is_ignored: bool = False
    points: Sequence[Point] = ()
    attributes: JsonRow = field(default_factory=dict)


def objects_of(photos: AnnotatedDataset, index: int, sample: DenseSample) -> list[ToolObject]:
    """Return the instances of a sample, its crowd and ignored regions, and its objects without a mask."""
    rows = {row["id"]: _further(row) for row in photos.annotation_rows(index) if "id" in row}
    ids = ids_of_instances(photos, index, sample)
    boxes, labels = sample.boxes.as_subclass(Tensor).tolist(), sample.labels.tolist()
    masks = None if sample.instance_masks is None else sample.instance_masks.numpy(force=True)
    points = None if sample.keypoints is None else [_points(row) for row in keypoint_rows(sample.keypoints)]
    found = []
    for slot, key in enumerate(ids):
        found.append(
            ToolObject(
                labels[slot],
                tuple(boxes[slot]),
                None if masks is None else masks[slot],
                int(key),
                points=() if points is None else points[slot],
                attributes=rows.get(key, {}),
            )
        )
    return found + [_region(crowd, rows.get(crowd.annotation_id, {})) for crowd in _crowds(photos, index, sample)]


def _crowds(photos: AnnotatedDataset, index: int, sample: DenseSample) -> Sequence[Crowd]:
    """Return the regions and the objects without a mask; the crowd mask alone if a transform has moved it."""
    given, nothing = sample.crowd_mask, np.zeros(sample.canvas_size, bool)
    regions = nothing if given is None else given[0].numpy(force=True)
    crowds = photos.crowds(index)
    union = np.zeros(sample.canvas_size, bool)
    for crowd in crowds:
        if crowd.is_in_sample and crowd.mask.shape == union.shape:
            union |= crowd.mask
    if all(crowd.mask.shape == union.shape for crowd in crowds) and np.array_equal(union, regions):
        return crowds
    return [Crowd(-1, -1, False, regions)] if regions.any() else []


def _region(crowd: Crowd, attributes: JsonRow) -> ToolObject:
    is_object = crowd.box is not None
    around = mask_box(crowd.mask) or (0, 0, 0, 0)
    return ToolObject(
        crowd.label if crowd.label >= 0 else None,
        tuple(map(float, around if crowd.box is None else crowd.box)),
        None if is_object else crowd.mask,
        crowd.annotation_id if crowd.label >= 0 else None,
        is_crowd=not is_object and not crowd.is_ignored,
        is_ignored=crowd.is_ignored,
        attributes=attributes,
    )


def _further(row: JsonRow) -> JsonRow:
    """Return the keys of an entry without those of its geometry, and its attributes."""
    own = row.get("attributes")
    further = {key: value for key, value in row.items() if key not in REGION_KEYS | POINT_KEYS}
    return {**{k: v for k, v in further.items() if k != "attributes"}, **own} if isinstance(own, dict) else further


def _points(row: JsonRow) -> list[Point]:
    values = row["keypoints"]
    return list(zip(values[::3], values[1::3], values[2::3], strict=True))


def rgb_of(sample: DenseSample) -> NDArray[np.uint8]:
    """Return the image of a sample, [H, W, 3] uint8.

    Raises:
        DatasetError: it is not uint8.
    """
    image = sample.image.as_subclass(Tensor)
    if image.dtype != torch.uint8:
        raise DatasetError(f"expected images of uint8 for other libraries, got {image.dtype}; leave out the conversion")
    rgb: NDArray[np.uint8] = image.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy(force=True)
    return rgb


def image_keys(photos: AnnotatedDataset, index: int) -> JsonRow:
    """Return the id of an image, and the keys of its entry without its name and size."""
    row = {"id": photos.image_id(index), **photos.image_row(index)}
    return {key: value for key, value in row.items() if key not in ("file_name", "width", "height")}


def image_file(photos: AnnotatedDataset, index: int, *, upright: bool) -> Path | None:
    """Return the file whose pixels are those of a sample; None if there is none.

    Args:
        photos: the dataset.
        index: the index of the sample.
        upright: True if the other library rotates images by their EXIF orientation.
    """
    reader, own = photos.place_of(index)
    found = reader.photo_file(own)
    if found is None or not isinstance(reader, AnnotatedImages) or reader.transforms is not None or reader.any_mode:
        return None
    path, size = found
    head = read_head(path)
    if not head.is_oriented:
        return path
    size = head.upright_size if size is None else size
    is_upright = size == head.upright_size and (size != head.size or reader.is_drawn_upright(own) or head.is_tiff)
    return path if is_upright == upright else None


def given_for(tool: str, photos: Samples | Dataset[Any]) -> tuple[AnnotatedDataset, list[str]]:
    """Return the dataset that ``to_TOOL`` was given, and the names of its classes; warn of what the tool cannot hold.

    Raises:
        DatasetError: two classes have one name, or there are none.
    """
    dataset = annotated(photos)
    names = _names_of(dataset, tool)
    if lost := [*dict.fromkeys(_not_held(dataset))]:
        text = f"to_{tool.lower()}: {tool} does not hold {', '.join(lost)}, which are left out"
        warnings.warn(text, stacklevel=3)
    return dataset, names


def _not_held(photos: AnnotatedDataset) -> Iterator[str]:
    """Yield in words what no library holds; the first samples and the entries of their images tell."""
    for index, sample in islice(_readable(photos), 1):
        fields = {
            "semantic maps": sample.semantic_map,
            "panoptic maps and segments of stuff": sample.panoptic_map,
            "depth": sample.depth,
            "normals": sample.normals,
            "cameras": sample.camera_intrinsics,
            "padding masks": sample.padding_mask,
            "lists of classes of LVIS": photos.federated(index),
        }
        yield from (what for what, value in fields.items() if value is not None)
        rows = photos.shape_rows(index, sample.canvas_size).values()
        if any(has_segmentation(row) and isinstance(row["segmentation"], list) for row in rows):
            yield "polygons (their masks are kept)"
    if photos.tables():
        yield f"the tables {', '.join(photos.tables())}"
    if sorted(row["id"] for row in photos.categories) != list(range(1, len(photos.class_names) + 1)):
        yield "ids of classes"


def _readable(photos: AnnotatedDataset) -> Iterator[tuple[int, DenseSample]]:
    for index in range(min(len(photos), _MOST_TRIES)):
        try:
            yield index, photos[index]
        except DatasetError:
            continue


def _names_of(photos: AnnotatedDataset, tool: str) -> list[str]:
    names = [str(name) for name in photos.class_names]
    if not names and photos.names_classes:
        return names
    if not names or len({*names}) < len(names) or not all(names):
        raise DatasetError(f"{tool}: expected a name for each class, each once, got {names!r:.80}; name the classes")
    return names
