"""Datasets of supervision: `from_supervision` and `to_supervision`.

What `Detections` has no field for is in its ``data``, an entry per object: ``annotation_id``, ``iscrowd``, ``ignore``,
``keypoints`` [N, P, 3] and ``attributes``; and in its ``metadata``: ``image``, the entry of the image, and
``categories``, those of the classes. supervision keeps both when detections are selected, split and merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from segpaste._pixels import Size, mask_box
from segpaste.datasets.entries import JsonRow, has_segmentation
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_annotations import Transforms
from segpaste.datasets.formats.image_files import read_head
from segpaste.datasets.formats.outlined import AnnotatedImage
from segpaste.datasets.formats.tool_shapes import Shape
from segpaste.datasets.in_memory.objects import ToolObject, given_for, image_file, image_keys, objects_of, rgb_of
from segpaste.datasets.in_memory.tool_images import ToolTable, cropped_mask, json_value
from segpaste.datasets.views import Samples
from segpaste.extras import require

if TYPE_CHECKING:
    from segpaste.datasets.contract import AnnotatedDataset

_RAW = "coco_raw_segmentation"
"""Key of ``data`` for polygons and run lengths of COCO's files, which supervision keeps where it draws no masks."""
_OWN = frozenset({"class_name", "area", "annotation_id", "iscrowd", "ignore", "keypoints", "attributes", _RAW})
"""Keys of ``data`` that are no attributes of objects."""


def from_supervision(dataset: Any, *, transforms: Transforms | None = None) -> AnnotatedDataset:
    """Return a `supervision.DetectionDataset` as a dataset of samples, for pastes, banks, loaders and checks.

    Annotations are read now, images when they are needed: from their files, or from memory if supervision has them
    there. Further values of ``data``, ``confidence`` and ``tracker_id`` become ``attributes`` of the entries. A
    detection whose mask is empty is an object without a mask.

    Args:
        dataset: the dataset.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Raises:
        MissingPackageError: supervision is not installed.
        TypeError: it is another object.
        DatasetError: a detection has no class, or two classes have one name.
    """
    sv = require("supervision")
    if not isinstance(dataset, sv.DetectionDataset):
        raise TypeError(f"from_supervision: expected a DetectionDataset, got {type(dataset).__name__}")
    in_memory: Mapping[str, Any] = vars(dataset).get("_images_in_memory") or {}
    names, table = [str(name) for name in dataset.classes], ToolTable("supervision", [], drawn_upright=True)
    known: dict[str, JsonRow] = {}
    for path in map(str, dataset.image_paths):
        found = dataset.annotations[path]
        for row in found.metadata.get("categories", ()):
            known.setdefault(row["name"], row)
        size = in_memory[path].shape[:2] if in_memory else _size(Path(path), found.mask)
        row = {**json_value(found.metadata.get("image", {})), "file_name": path, "height": size[0], "width": size[1]}
        point_names = next((row["keypoints"] for row in known.values() if row.get("keypoints")), ())
        shapes = [shape for i in range(len(found)) if (shape := _shape(path, found, i, names, size, point_names))]
        table.images.append(AnnotatedImage(row, shapes))
    table.categories = [{**json_value(known.get(name, {})), "name": name} for name in names]
    if in_memory:
        table.pixels = partial(_pixels_of, in_memory, list(dataset.image_paths))
    return table.dataset(transforms)


def to_supervision(photos: Samples | Dataset[Any]) -> Any:
    """Return a dataset as a `supervision.DetectionDataset`, whose images and detections are read when asked for.

    Images are the files of the dataset if supervision reads the same pixels from all of them; otherwise they are made
    of the samples. Masks are `supervision.CompactMask`. Crowd and ignored regions are detections that ``iscrowd`` and
    ``ignore`` of ``data`` mark; objects without a mask among others have an empty one, as supervision's own. A warning
    names what is left out, such as semantic maps and depth.

    Args:
        photos: any dataset of samples, see `segpaste.datasets.AnnotatedDataset`.

    Raises:
        MissingPackageError: supervision is not installed.
        DatasetError: the classes have no names, or two have one.
    """
    sv = require("supervision")
    dataset, classes = given_for("supervision", photos)
    files = [image_file(dataset, index, upright=True) for index in range(len(dataset))]
    are_files = len({*files}) == len(files) and None not in files
    names = [str(file) for file in files] if are_files else _unique([*map(dataset.file_name, range(len(dataset)))])
    made = sv.DetectionDataset(classes, [], {})
    made.image_paths = names
    reading = partial(_detections, sv, dataset, classes)
    made.annotations = _ReadWhenAsked(names, reading)
    if not are_files:
        made._images_in_memory = _ReadWhenAsked(names, partial(_bgr, dataset))
    return made


class _ReadWhenAsked(Mapping[str, Any]):
    """Values of images by their names, each read when it is asked for; one that was assigned stays."""

    def __init__(self, names: Sequence[str], read: Callable[[int], Any]) -> None:
        self._position = {name: index for index, name in enumerate(names)}
        self._read, self._assigned = read, dict[str, Any]()

    def __len__(self) -> int:
        return len(self._position)

    def __iter__(self) -> Iterator[str]:
        return iter(self._position)

    def __getitem__(self, name: str) -> Any:
        return self._assigned[name] if name in self._assigned else self._read(self._position[name])

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._position:
            raise KeyError(name)
        self._assigned[name] = value


def _unique(names: Sequence[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{index}/{name}" for index, name in enumerate(names)]


def _size(path: Path, masks: Any) -> Size:
    """Return (H, W) of an image file, as its masks have it: on stored pixels, or as supervision shows the image."""
    head = read_head(path)
    is_stored = masks is not None and len(masks) and tuple(masks.shape[1:]) == head.size
    return head.size if is_stored else head.upright_size


def _bgr(dataset: AnnotatedDataset, index: int) -> NDArray[np.uint8]:
    return rgb_of(dataset[index])[..., ::-1].copy()


def _pixels_of(in_memory: Mapping[str, NDArray[Any]], names: Sequence[str], index: int) -> NDArray[Any]:
    pixels = np.asarray(in_memory[names[index]])
    return pixels if pixels.ndim == 2 else pixels[..., 2::-1]


def _detections(sv: Any, dataset: AnnotatedDataset, classes: Sequence[str], index: int) -> Any:
    """Return the objects and regions of a sample."""
    sample = dataset[index]
    found, size = objects_of(dataset, index, sample), sample.canvas_size
    class_id = np.array([one.label or 0 for one in found], np.int64)
    data: dict[str, Any] = {
        "class_name": np.array(classes)[class_id] if classes else np.array([], str),
        "annotation_id": np.array([-1 if one.id is None else one.id for one in found], np.int64),
        "iscrowd": np.array([one.is_crowd for one in found], np.int64),
        "ignore": np.array([one.is_ignored for one in found], np.int64),
        "attributes": _objects([one.attributes for one in found]),
    }
    if sample.keypoint_schema is not None:
        num = sample.keypoint_schema.num_points
        none = [(0, 0, 0)] * num
        data["keypoints"] = np.array([one.points or none for one in found], np.float64).reshape(len(found), num, 3)
    boxes = np.array([one.box for one in found], np.float32).reshape(-1, 4)
    has_masks = sample.instance_masks is not None or any(one.mask is not None for one in found)
    metadata = {"image": image_keys(dataset, index), "categories": dataset.categories}
    return sv.Detections(
        boxes, _compact(sv, found, boxes, size) if has_masks else None, None, class_id, None, data, metadata
    )


def _compact(sv: Any, found: Sequence[ToolObject], boxes: NDArray[np.float32], size: Size) -> Any:
    masks = [np.zeros(size, bool) if one.mask is None else one.mask for one in found]
    return sv.CompactMask.from_dense(np.array(masks, bool).reshape(-1, *size), boxes, size)


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _shape(
    path: str, found: Any, i: int, names: Sequence[str], size: tuple[int, ...], point_names: Sequence[str]
) -> Shape:
    """Return the shape of a detection."""
    where = f"{path}: detection {i}"
    if found.class_id is None:
        raise DatasetError(f"{where}: expected a class_id, got none; set it")
    data = {key: values[i] for key, values in found.data.items()}
    mask = None if found.mask is None else found.mask[i]
    box = mask_box(mask) if mask is not None else None
    x1, y1, x2, y2 = (float(edge) for edge in found.xyxy[i])
    segmentation: Any = []
    if mask is not None and box is not None:
        if mask.shape != size:
            raise DatasetError(f"{where}: expected a mask of {size[0]} x {size[1]} pixels, got {list(mask.shape)}")
        segmentation = cropped_mask(mask[box[1] : box[3], box[0] : box[2]], (box[0], box[1]), (size[0], size[1]))
    elif mask is None and has_segmentation({"segmentation": data.get(_RAW)}):
        segmentation = json_value(data[_RAW])
    attributes = dict(data.get("attributes") or {})
    attributes |= {key: json_value(value) for key, value in data.items() if key not in _OWN}
    for key in ("confidence", "tracker_id"):
        if (values := getattr(found, key)) is not None:
            attributes[key] = json_value(values[i])
    points = None
    if (given := data.get("keypoints")) is not None and point_names:
        points = {name: (x + 0.5, y + 0.5, int(v)) for name, (x, y, v) in zip(point_names, given.tolist(), strict=True)}
    known_as = int(data.get("annotation_id", -1))
    return Shape(
        names[int(found.class_id[i])],
        segmentation,
        (x1, y1, x2, y2),
        None,
        attributes,
        bool(data.get("ignore", 0)),
        points,
        where,
        crowd=bool(data.get("iscrowd", 0)),
        id=None if known_as < 0 else known_as,
    )
