"""Datasets of Datumaro: `from_datumaro` and `to_datumaro`.

Annotations of one ``group`` and label are parts of an object. Attributes that segpaste writes besides those of the
entries are ``is_crowd``, which Datumaro uses itself, and ``is_ignored``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from segpaste._pixels import Size, mask_box
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_annotations import Transforms
from segpaste.datasets.formats.outlined import AnnotatedImage
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.formats.tool_shapes import Point, Shape, box_around
from segpaste.datasets.in_memory.objects import ToolObject, given_for, image_file, image_keys, objects_of, rgb_of
from segpaste.datasets.in_memory.tool_images import NO_CLASS, ToolTable, json_value
from segpaste.datasets.views import Samples
from segpaste.extras import require

if TYPE_CHECKING:
    from segpaste.datasets.contract import AnnotatedDataset

_CROWD, _IGNORED = "is_crowd", "is_ignored"
_IMAGE = "image"
"""Attribute of an item with the entry of its image."""


def from_datumaro(dataset: Any, *, subset: str | None = None, transforms: Transforms | None = None) -> AnnotatedDataset:
    """Return a `datumaro.Dataset` as a dataset of samples, for pastes, banks, loaders and checks.

    Annotations are read now, images when they are needed: from their files, or from memory if they are arrays there.
    Masks, polygons, ellipses and rotated boxes are objects with masks; `Bbox` and `Points` belong to the object of
    their group, or are objects without a mask. A warning names what is not read, such as captions and lines.

    Args:
        dataset: the dataset, or a subset of it.
        subset: name of the subset to read; by default all items are read.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Raises:
        MissingPackageError: Datumaro is not installed.
        TypeError: it is another object.
        DatasetError: there is no such subset, an item has no image, or an annotation is broken.
    """
    dm = require("datumaro")
    if not isinstance(dataset, dm.IDataset):
        raise TypeError(f"from_datumaro: expected a datumaro.Dataset, got {type(dataset).__name__}")
    if subset is not None and subset not in dataset.subsets():
        raise DatasetError(f"Datumaro: expected one of the subsets {', '.join(dataset.subsets())}, got {subset!r}")
    items = list(dataset if subset is None else dataset.get_subset(subset))
    categories = _read_categories(dm, dataset.categories())
    table = ToolTable("Datumaro", categories)
    for item in items:
        if not isinstance(item.media, dm.Image):
            raise DatasetError(f"Datumaro: expected an image of item {item.id!r}, got {type(item.media).__name__}")
    paths = [getattr(item.media, "path", None) for item in items]
    are_files = len({*paths}) == len(paths) and None not in paths
    for item, path in zip(items, paths, strict=True):
        if item.media.size is None:
            raise DatasetError(f"{path or item.id}: expected an image, found none or another file; replace it")
        height, width = map(int, item.media.size)
        name = path if are_files else f"{item.subset}/{item.id}"
        given = item.attributes.get(_IMAGE, {"id": item.attributes.get("id")})
        more = {key: value for key, value in item.attributes.items() if key not in (_IMAGE, "id")}
        row = {**json_value(more), **json_value(given), "file_name": name, "height": height, "width": width}
        shapes = list(_shapes(dm, item, categories, (height, width), table.not_read))
        table.images.append(AnnotatedImage(row, shapes))
    if not are_files:
        table.pixels = partial(_pixels_of, [item.media for item in items])
    return table.dataset(transforms)


def to_datumaro(photos: Samples | Dataset[Any], *, subset: str = "default") -> Any:
    """Return a dataset as a `datumaro.Dataset`, whose items are made and whose images are read when asked for.

    Objects are `RleMask`, those without a mask `Bbox`, keypoints `Points` of the same group. Crowd and ignored regions
    have the attribute ``is_crowd`` or ``is_ignored``. The item of an image is named after its file, and is one with the
    file if Datumaro reads the same pixels from it. A warning names what is left out, such as semantic maps and depth.

    Args:
        photos: any dataset of samples, see `segpaste.datasets.AnnotatedDataset`.
        subset: name of the subset of the items.

    Raises:
        MissingPackageError: Datumaro is not installed.
        DatasetError: the classes have no names, or two have one.
    """
    dm = require("datumaro")
    dataset, names = given_for("Datumaro", photos)
    items = _Items(dm, dataset, subset)
    return dm.Dataset.from_iterable(items, categories=_written_categories(dm, dataset, names), media_type=dm.Image)


class _Items(Sequence[Any]):
    """Items of a dataset, each made when it is asked for."""

    def __init__(self, dm: Any, dataset: AnnotatedDataset, subset: str) -> None:
        self._dm, self._dataset, self._subset = dm, dataset, subset
        self._ids = _item_ids([dataset.file_name(index) for index in range(len(dataset))])

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        dataset, place = self._dataset, range(len(self))[index]
        sample = dataset[place]
        path = image_file(dataset, place, upright=False)
        if path is None:
            media = self._dm.Image.from_numpy(partial(_bgr, dataset, place), ext=".png", size=sample.canvas_size)
        else:
            media = self._dm.Image.from_file(str(path), size=sample.canvas_size)
        found = objects_of(dataset, place, sample)
        annotations = [made for group, one in enumerate(found, 1) for made in _annotations(self._dm, one, group)]
        keys = image_keys(dataset, place)
        return self._dm.DatasetItem(
            self._ids[place],
            subset=self._subset,
            media=media,
            annotations=annotations,
            attributes={"id": keys["id"], _IMAGE: keys},
        )


def _item_ids(names: Sequence[str]) -> list[str]:
    """Return file names without leading folders and suffixes; those that would be equal with their suffixes."""
    inside = [PurePosixPath(*(part for part in Path(name).parts if part not in ("/", "..", "."))) for name in names]
    bare = [name.with_suffix("").as_posix() if name.suffix else name.as_posix() for name in inside]
    num = Counter(bare)
    found = [short if num[short] == 1 else name.as_posix() for short, name in zip(bare, inside, strict=True)]
    num = Counter(found)
    return [name if num[name] == 1 else f"{index}/{name}" for index, name in enumerate(found)]


def _bgr(dataset: AnnotatedDataset, index: int) -> NDArray[np.uint8]:
    return rgb_of(dataset[index])[..., ::-1].copy()


def _pixels_of(media: Sequence[Any], index: int) -> NDArray[Any]:
    """Return pixels as RGB, or grey."""
    pixels: NDArray[Any] = media[index].data
    return pixels if pixels.ndim == 2 or pixels.shape[2] < 3 else pixels[..., 2::-1]


def _annotations(dm: Any, one: ToolObject, group: int) -> Iterator[Any]:
    """Yield the mask or box of an object, and its keypoints."""
    attributes = {**one.attributes, _CROWD: one.is_crowd}
    if one.is_ignored:
        attributes[_IGNORED] = True
    facts = {"label": one.label, "id": one.id or 0, "group": group, "attributes": attributes}
    if one.mask is None:
        x1, y1, x2, y2 = one.box
        yield dm.Bbox(x1, y1, x2 - x1, y2 - y1, **facts)
    else:
        runs = encode_mask(one.mask)
        yield dm.RleMask(rle={"size": runs["size"], "counts": runs["counts"].encode()}, **facts)
    if one.points:
        places = [edge for x, y, _ in one.points for edge in (x, y)]
        yield dm.Points(places, [v for *_, v in one.points], **facts)


def _written_categories(dm: Any, dataset: AnnotatedDataset, names: Sequence[str]) -> dict[Any, Any]:
    rows = {str(row["name"]): row for row in dataset.categories}
    labels = dm.LabelCategories.from_iterable((name, rows[name].get("supercategory", "")) for name in names)
    points = dm.PointsCategories()
    for label, name in enumerate(names):
        if rows[name].get("keypoints"):
            points.add(label, rows[name]["keypoints"], rows[name].get("skeleton", ()))
    kinds = dm.AnnotationType
    return {kinds.label: labels, **({kinds.points: points} if len(points) else {})}


def _read_categories(dm: Any, given: Mapping[Any, Any]) -> list[JsonRow]:
    kinds = dm.AnnotationType
    points = given.get(kinds.points)
    rows: list[JsonRow] = []
    for label, category in enumerate(given.get(kinds.label, ())):
        row = {"name": category.name, **({"supercategory": category.parent} if category.parent else {})}
        if points is not None and label in points and points[label].labels:
            row["keypoints"] = list(points[label].labels)
            row["skeleton"] = [list(pair) for pair in sorted(points[label].joints)]
        rows.append(row)
    return rows


def _shapes(dm: Any, item: Any, categories: Sequence[JsonRow], size: Size, not_read: Counter[str]) -> Iterator[Shape]:
    """Yield the shapes of an item; count the annotations that are none."""
    for number, one in enumerate(item.annotations):
        where = f"Datumaro: annotation {number} of item {item.id!r}"
        kind = one.type.name
        if kind not in _SHAPES:
            not_read[_NOT_SHAPES.get(kind, f"annotations of the type {kind}")] += 1
            continue
        attributes = {key: json_value(value) for key, value in one.attributes.items() if key not in (_CROWD, _IGNORED)}
        if getattr(one, "z_order", 0):
            attributes["z_order"] = one.z_order
        if one.object_id >= 0:
            attributes["object_id"] = one.object_id
        is_crowd, is_ignored = (bool(one.attributes.get(key)) for key in (_CROWD, _IGNORED))
        is_known = one.label is not None and one.label < len(categories)
        if not (is_known or is_crowd or is_ignored):
            not_read["annotations without a known label"] += 1
            continue
        row = categories[one.label] if is_known else {"name": NO_CLASS}
        try:
            segmentation, box, points = _SHAPES[kind](one, row, size)
        except ValueError as error:
            raise DatasetError(f"{where}: {error}; correct or remove it") from error
        if points is not None and not row.get("keypoints"):
            not_read["keypoints of classes that name none"] += 1
            continue
        yield Shape(
            row["name"],
            segmentation,
            box,
            one.group or None,
            attributes,
            is_ignored,
            points,
            where,
            crowd=is_crowd,
            id=one.id or None,
        )


Read = tuple[Any, tuple[float, float, float, float] | None, Mapping[str, Point] | None]
"""Segmentation, box and keypoints of a shape."""


def _of_mask(one: Any, row: JsonRow, size: Size) -> Read:
    runs = getattr(one, "rle", None)
    if isinstance(runs, Mapping) and tuple(runs["size"]) == size:
        counts = runs["counts"]
        return {"size": list(size), "counts": counts.decode() if isinstance(counts, bytes) else counts}, None, None
    mask = np.asarray(one.image).astype(bool)
    if mask.shape != size:
        raise ValueError(f"expected a mask of {size[0]} x {size[1]} pixels, got {list(mask.shape)}")
    return (encode_mask(mask) if mask_box(mask) is not None else []), None, None


def _of_outline(one: Any, row: JsonRow, size: Size) -> Read:
    return [np.ravel(one.points if one.type.name == "polygon" else one.as_polygon()).tolist()], None, None


def _of_box(one: Any, row: JsonRow, size: Size) -> Read:
    x1, y1, x2, y2 = map(float, one.points)
    return [], (x1, y1, x2, y2), None


def _of_points(one: Any, row: JsonRow, size: Size) -> Read:
    names, values = row.get("keypoints", ()), [int(v) for v in one.visibility]
    places = [(x + 0.5, y + 0.5) for x, y in zip(one.points[::2], one.points[1::2], strict=True)]
    if names and len(places) != len(names):
        raise ValueError(f"expected {len(names)} keypoints, got {len(places)}")
    points = {name: (*place, v) for name, place, v in zip(names, places, values, strict=bool(names)) if v}
    return [], box_around(place for *place, _ in points.values()) if points else None, points


_SHAPES: Mapping[str, Callable[[Any, JsonRow, Size], Read]] = {
    "mask": _of_mask,
    "polygon": _of_outline,
    "ellipse": _of_outline,
    "rotated_bbox": _of_outline,
    "bbox": _of_box,
    "points": _of_points,
}
"""Function for each type of annotation that is an object or a part of one."""
_NOT_SHAPES = {"label": "labels of whole images", "caption": "captions", "polyline": "lines"}
