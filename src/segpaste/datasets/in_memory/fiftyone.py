"""Datasets of FiftyOne: `from_fiftyone` and `to_fiftyone`.

Objects are `Detection`s of one field; keypoints are in a second field, whose name ends in ``_keypoints``, and belong to
the detection with the same `Instance`. Bounding boxes are relative to the image, masks to the bounding box.
"""

from __future__ import annotations

import io
import keyword
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset

from segpaste._pixels import Size, mask_box
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_annotations import Transforms
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.outlined import AnnotatedImage
from segpaste.datasets.formats.tool_shapes import Point, Shape, class_rows
from segpaste.datasets.in_memory.objects import ToolObject, given_for, image_file, image_keys, objects_of, rgb_of
from segpaste.datasets.in_memory.tool_images import NO_CLASS, ToolTable, cropped_mask, json_value
from segpaste.datasets.views import Samples
from segpaste.extras import require
from segpaste.workspace import write_whole

if TYPE_CHECKING:
    from segpaste.datasets.contract import AnnotatedDataset
    from segpaste.types import KeypointSchema

_POINTS = "_keypoints"
"""End of the name of the field of keypoints, which begins with that of the objects."""
_IMAGE = "image"
"""Field of a sample with the entry of its image."""
_FURTHER = "further"
"""Attribute of a detection with the keys that cannot be attributes."""
_OWN = frozenset({"annotation_id", "iscrowd", "ignore", _FURTHER})
_ORDINARY = frozenset({"id", "label", "bounding_box", "mask", "mask_path", "attributes", "instance", "points"})
_ORDINARY |= frozenset({"closed", "filled", "location", "dimensions", "rotation"})
"""Values of detections and polylines that are no attributes of objects."""
_KEPT = frozenset({"tags", "confidence", "index"})
"""Values that become attributes if they are set."""


def from_fiftyone(samples: Any, field: str | None = None, *, transforms: Transforms | None = None) -> AnnotatedDataset:
    """Return a dataset or view of FiftyOne as a dataset of samples, for pastes, banks, loaders and checks.

    Labels are read now, so the database is not needed afterwards; images are read when they are needed. Detections with
    a mask and filled polylines are objects with masks. Further attributes become ``attributes`` of the entries, and
    the id of a sample is ``fiftyone_id`` of its image's entry. A warning names what is not read, such as open lines.

    Args:
        samples: a `fiftyone.Dataset` or a view of one, of images.
        field: the field of detections or polylines; by default the only one.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Raises:
        MissingPackageError: FiftyOne is not installed.
        TypeError: it is another object.
        DatasetError: its samples are no images, there is no such field, or several and none is named.
    """
    fo = require("fiftyone")
    if not isinstance(samples, fo.core.collections.SampleCollection):
        raise TypeError(f"from_fiftyone: expected a dataset or a view of FiftyOne, got {type(samples).__name__}")
    if samples.media_type not in (None, "image"):
        raise DatasetError(f"FiftyOne: expected samples of images, got {samples.media_type}; select images")
    field = _label_field(fo, samples, field)
    schema = samples.get_field_schema()
    fields = [field, *(name for name in (field + _POINTS, _IMAGE) if name in schema)]
    skeleton = samples.skeletons.get(field + _POINTS) or samples.default_skeleton
    point_names = tuple(skeleton.labels or ()) if skeleton is not None else ()
    table, found = ToolTable("FiftyOne", [], drawn_upright=True), list[str]()
    for sample in samples.select_fields(fields).iter_samples():
        path, metadata = str(sample.filepath), sample.metadata
        known = metadata is not None and metadata.height and metadata.width
        size = (metadata.height, metadata.width) if known else upright_size(Path(path))
        row = json_value(sample[_IMAGE]) if _IMAGE in fields and sample[_IMAGE] is not None else {}
        tags = {"tags": list(sample.tags)} if sample.tags else {}
        row = {**row, **tags, "fiftyone_id": sample.id, "file_name": path, "height": size[0], "width": size[1]}
        shapes = list(_Labels(sample, field, size, point_names, table).shapes())
        found += [shape.label for shape in shapes if shape.label != NO_CLASS]
        table.images.append(AnnotatedImage(row, shapes))
    listed = samples.classes.get(field) or samples.default_classes or None
    entries = {row["name"]: row for row in samples.info.get("categories", ())}
    rows = class_rows(Path("FiftyOne"), found, listed)
    points = {} if skeleton is None or not point_names else _point_keys(skeleton)
    table.categories = [{**points, **json_value(entries.get(row["name"], {})), **row} for row in rows]
    return table.dataset(transforms)


def to_fiftyone(
    photos: Samples | Dataset[Any],
    *,
    name: str | None = None,
    field: str = "ground_truth",
    images_dir: str | Path | None = None,
) -> Any:
    """Return a dataset as a new `fiftyone.Dataset`, to look at it in its app: ``fiftyone.launch_app(dataset)``.

    Objects are detections whose masks are exact. Crowd and ignored regions have the attribute ``iscrowd`` or
    ``ignore``. FiftyOne stores labels in its database and shows images from files, so images that are not files, such
    as those with pastes, are written into ``images_dir``. A warning names what is left out, such as depth.

    Args:
        photos: any dataset of samples, see `segpaste.datasets.AnnotatedDataset`.
        name: name of the dataset; by default one that FiftyOne makes. Set its ``persistent`` to keep it.
        field: name of the field of objects.
        images_dir: folder for images that are not files, as PNG; other files there stay.

    Raises:
        MissingPackageError: FiftyOne is not installed.
        DatasetError: the classes have no names, or two have one; or an image is not a file and ``images_dir`` is
            missing. The new dataset is then removed.
        OSError: an image cannot be written.
    """
    fo = require("fiftyone")
    dataset, names = given_for("FiftyOne", photos)
    made = fo.Dataset(name)
    try:
        made.default_classes = names
        if dataset.keypoint_schema is not None:
            made.default_skeleton = _skeleton(fo, dataset.keypoint_schema)
        made.info["categories"] = dataset.categories
        made.save()
        folder = None if images_dir is None else Path(images_dir)
        writer = _Samples(fo, dataset, names, field, folder)
        made.add_samples(map(writer.sample, range(len(dataset))), progress=False, num_samples=len(dataset))
    except BaseException:
        made.delete()
        raise
    return made


class _Samples:
    """Samples of FiftyOne, made of those of a dataset."""

    def __init__(
        self, fo: Any, dataset: AnnotatedDataset, names: Sequence[str], field: str, folder: Path | None
    ) -> None:
        self._fo, self._dataset, self._names, self._field, self._folder = fo, dataset, names, field, folder

    def sample(self, index: int) -> Any:
        """Return the sample of an index, whose image is a file."""
        fo, dataset = self._fo, self._dataset
        sample = dataset[index]
        path = image_file(dataset, index, upright=True)
        if path is None:
            path = self._written(index, rgb_of(sample))
        height, width = sample.canvas_size
        found = objects_of(dataset, index, sample)
        instances = [fo.Instance() if one.points else None for one in found]
        pairs = list(zip(found, instances, strict=True))
        fields = {
            self._field: fo.Detections(detections=[self._detection(one, own, (height, width)) for one, own in pairs]),
            _IMAGE: image_keys(dataset, index),
        }
        if dataset.keypoint_schema is not None:
            points = [self._keypoint(one, own, (height, width)) for one, own in pairs if one.points]
            fields[self._field + _POINTS] = fo.Keypoints(keypoints=points)
        metadata = fo.ImageMetadata(width=width, height=height)
        return fo.Sample(filepath=str(path.absolute()), metadata=metadata, **fields)

    def _written(self, index: int, pixels: NDArray[np.uint8]) -> Path:
        """Return the file of an image that is written for FiftyOne."""
        name = self._dataset.file_name(index)
        if self._folder is None:
            raise DatasetError(
                f"to_fiftyone: {name}: expected an image that is a file, since FiftyOne shows files, got pixels; give "
                "images_dir, a folder into which such images are written"
            )
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
        path = self._folder / PurePosixPath(*parts[:-1], f"{index}-{PurePosixPath(parts[-1]).stem}.png")
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        write_whole(path, buffer.getvalue())
        return path

    def _detection(self, one: ToolObject, instance: Any, size: Size) -> Any:
        height, width = size
        box, mask = one.box, None
        if one.mask is not None and (around := mask_box(one.mask)) is not None:
            box, mask = around, one.mask[around[1] : around[3], around[0] : around[2]].copy()
        x1, y1, x2, y2 = box
        values = {"iscrowd": int(one.is_crowd), "ignore": int(one.is_ignored)}
        values |= {} if one.id is None else {"annotation_id": one.id}
        plain = {key: value for key, value in one.attributes.items() if _is_attribute(key)}
        further = {key: value for key, value in one.attributes.items() if key not in plain}
        return self._fo.Detection(
            label=None if one.label is None else self._names[one.label],
            bounding_box=[x1 / width, y1 / height, (x2 - x1) / width, (y2 - y1) / height],
            mask=mask,
            **({} if instance is None else {"instance": instance}),
            **values,
            **plain,
            **({_FURTHER: further} if further else {}),
        )

    def _keypoint(self, one: ToolObject, instance: Any, size: Size) -> Any:
        height, width = size
        places = [((x + 0.5) / width, (y + 0.5) / height) if v else (math.nan, math.nan) for x, y, v in one.points]
        label = None if one.label is None else self._names[one.label]
        return self._fo.Keypoint(label=label, points=places, instance=instance, visibility=[v for *_, v in one.points])


def _is_attribute(key: str) -> bool:
    """Return whether a key can be the name of an attribute of a detection."""
    taken = _ORDINARY | _KEPT | _OWN
    return key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("_") and key not in taken


def _label_field(fo: Any, samples: Any, field: str | None) -> str:
    """Return the name of the field of objects."""
    schema = samples.get_field_schema(ftype=fo.EmbeddedDocumentField)
    kinds = fo.Detections | fo.Polylines
    found = [str(name) for name, kind in schema.items() if issubclass(kind.document_type, kinds)]
    if field is None and len(found) == 1:
        return found[0]
    if field is not None and field in found:
        return field
    words = ", ".join(found) or "none"
    raise DatasetError(
        f"FiftyOne: expected one field of detections or polylines, got {field or words}; name one: {words}"
    )


def _skeleton(fo: Any, schema: KeypointSchema) -> Any:
    edges = [list(pair) for pair in schema.skeleton]
    return fo.KeypointSkeleton(labels=list(schema.names), edges=edges)


def _point_keys(skeleton: Any) -> JsonRow:
    """Return the keys of a category for a skeleton of FiftyOne, whose edges are paths of points counted from 0."""
    pairs = [pair for edge in skeleton.edges or () for pair in pairwise(edge)]
    return {"keypoints": list(skeleton.labels), "skeleton": [[one + 1, other + 1] for one, other in pairs]}


class _Labels:
    """Labels of a sample of FiftyOne."""

    def __init__(self, sample: Any, field: str, size: Size, point_names: Sequence[str], table: ToolTable) -> None:
        self._where, self._size, self._names, self._table = str(sample.filepath), size, point_names, table
        labels = sample[field]
        self._labels = [] if labels is None else getattr(labels, labels._LABEL_LIST_FIELD)
        name = field + _POINTS
        points = sample[name] if sample.has_field(name) else None
        self._points = {} if points is None else {one.instance.id: one for one in points.keypoints if one.instance}
        if points is not None:
            table.not_read["keypoints that belong to no detection"] += len(points.keypoints) - len(self._points)

    def shapes(self) -> Iterator[Shape]:
        """Yield the shapes of the labels."""
        for number, one in enumerate(self._labels):
            where = f"{self._where}: label {number}"
            if one.label is None and not (self._value(one, "iscrowd") or self._value(one, "ignore")):
                self._table.not_read["labels without a class"] += 1
                continue
            is_line = hasattr(one, "closed")
            if is_line and not (one.filled or one.closed):
                self._table.not_read["open lines"] += 1
                continue
            segmentation, box = self._outline(one) if is_line else self._drawn(one, where)
            known_as = json_value(self._value(one, "annotation_id"))
            yield Shape(
                one.label or NO_CLASS,
                segmentation,
                box,
                None,
                self._attributes(one),
                bool(self._value(one, "ignore")),
                self._keypoints(one, where),
                where,
                crowd=bool(self._value(one, "iscrowd")),
                id=known_as if type(known_as) is int else None,
            )

    @staticmethod
    def _value(one: Any, name: str) -> Any:
        return one[name] if one.has_field(name) else None

    def _outline(self, one: Any) -> tuple[Any, tuple[float, float, float, float] | None]:
        height, width = self._size
        rings = [[edge for x, y in ring for edge in (x * width, y * height)] for ring in one.points]
        return [ring for ring in rings if len(ring) > 4], None

    def _drawn(self, one: Any, where: str) -> tuple[Any, tuple[float, float, float, float]]:
        """Return the run lengths of a detection's mask, empty without one, and its box."""
        height, width = self._size
        if not one.bounding_box:
            raise DatasetError(f"{where}: expected a bounding box, got none; add it")
        x, y, w, h = one.bounding_box
        box = _exact(x * width), _exact(y * height), _exact((x + w) * width), _exact((y + h) * height)
        mask = one.get_mask()
        if mask is None or not np.any(mask):
            return [], box
        x1, y1, x2, y2 = (round(edge) for edge in box)
        drawn = _resized(np.asarray(mask) != 0, (max(y2 - y1, 1), max(x2 - x1, 1)))
        top, left = max(-y1, 0), max(-x1, 0)
        y1, x1 = max(y1, 0), max(x1, 0)
        return cropped_mask(drawn[top : top + height - y1, left : left + width - x1], (x1, y1), self._size), box

    def _keypoints(self, one: Any, where: str) -> Mapping[str, Point] | None:
        instance = self._value(one, "instance")
        found = None if instance is None else self._points.get(instance.id)
        if found is None or not self._names:
            return None
        if len(found.points) != len(self._names):
            raise DatasetError(f"{where}: expected {len(self._names)} keypoints, got {len(found.points)}; correct them")
        given = self._value(found, "visibility") or [2] * len(self._names)
        height, width = self._size
        points = zip(self._names, found.points, given, strict=True)
        return {
            name: (round(x * width, 5), round(y * height, 5), int(v))
            for name, (x, y), v in points
            if v and not math.isnan(x)
        }

    def _attributes(self, one: Any) -> JsonRow:
        found = {}
        for name in one.field_names:
            value = one[name]
            if name in _KEPT and value not in (None, []):
                found[name] = json_value(list(value) if name == "tags" else value)
            elif name not in _ORDINARY | _KEPT | _OWN and value is not None:
                found[name] = json_value(value)
        found.update(json_value(self._value(one, _FURTHER) or {}))
        return found


def _exact(edge: float) -> float:
    """Return an edge in pixels without the rounding of its quotient."""
    return round(edge, 6)


def _resized(mask: NDArray[np.bool_], size: Size) -> NDArray[np.bool_]:
    """Return a mask in the pixels of its box; one that differs by a pixel keeps its size, as in FiftyOne's imports."""
    if all(abs(one - other) <= 1 for one, other in zip(mask.shape, size, strict=True)):
        return mask
    rows, columns = (
        np.minimum((np.arange(num) + 0.5) * side / num, side - 1).astype(int)
        for num, side in zip(size, mask.shape, strict=True)
    )
    found: NDArray[np.bool_] = mask[rows[:, None], columns]
    return found
