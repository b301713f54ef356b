"""Datasets of the ``datasets`` package as samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.formats.rle import decode_segmentation
from segpaste.datasets.formats.stored_pixels import one_channel
from segpaste.integrations._hub_columns import Objects, image_of, map_of, objects_of_row, undecoded
from segpaste.targets.annotated import Annotated, sample_of
from segpaste.types import IGNORE_INDEX, DenseSample, SemanticMap

_MOST_CLASSES = 2**31 - 1
Transforms = Callable[[DenseSample], DenseSample]


class HubSamples:
    """A map-style dataset of `DenseSample` over a dataset of Hugging Face ``datasets``.

    Columns have the names and contents of the guides of transformers:

    - ``objects``, a record of lists or a list of records: ``bbox`` [x, y, width, height] in pixels and ``category``,
      from 0; with ``segmentation``, COCO polygons or run lengths, the objects have masks, else boxes only. ``iscrowd``
      objects become the crowd mask. A row whose objects are None has none.
    - ``instance_map``, an image whose first channel is the class and whose second is the number of the object, 0 for
      no object.
    - ``semantic_map``, an image of classes.

    Images may also be records of ``bytes`` or ``path``, as with ``Image(decode=False)``.

    Args:
        dataset: dataset with random access, not streamed.
        image: column of the images.
        objects: column of lists of objects.
        instance_map: column of maps of objects, instead of ``objects``.
        semantic_map: column of maps of classes, alone or with one of the others.
        class_names: the name of each class from 0, without gaps; by default those of the feature of ``category``.
        void: value of unlabelled pixels in the maps, 255 by default.
        transforms: function that takes each sample and returns the sample to use instead.

    Raises:
        TypeError: the dataset has no random access.
        ValueError: a column is missing, no column of annotations is named, both ``objects`` and ``instance_map`` are
            given, or a class has no name.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        image: str = "image",
        objects: str | None = None,
        instance_map: str | None = None,
        semantic_map: str | None = None,
        class_names: Sequence[str] | Mapping[int, str] | None = None,
        void: int = IGNORE_INDEX,
        transforms: Transforms | None = None,
    ) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "column_names"):
            raise TypeError(
                f"HubSamples: expected a dataset of the datasets package with random access, got "
                f"{type(dataset).__name__}; load it without streaming"
            )
        named = {"image": image, "objects": objects, "instance_map": instance_map, "semantic_map": semantic_map}
        for role, column in named.items():
            if column is not None and column not in dataset.column_names:
                raise ValueError(
                    f"HubSamples: expected a column among {', '.join(dataset.column_names)} as {role}, got {column!r}"
                )
        if objects is not None and instance_map is not None:
            raise ValueError("HubSamples: expected objects or an instance_map, got both; leave one out")
        if objects is None and instance_map is None and semantic_map is None:
            raise ValueError("HubSamples: expected a column with annotations, got none; give objects=, or a map")
        plain = dataset.with_format(None) if hasattr(dataset, "with_format") else dataset
        self._plain = undecoded(plain, (instance_map, semantic_map))
        self.dataset, self.image, self.void, self.transforms = dataset, image, void, transforms
        self.objects, self.instance_map, self.semantic_map = objects, instance_map, semantic_map
        self._fields = {} if objects is None else _fields_of(dataset, objects)
        found = class_names if class_names is not None else _names_of(self._fields)
        self.class_names = None if found is None else _as_tuple(found)
        if objects is not None:  # the labels are known without reading an image
            columns = dataset.select_columns(objects) if hasattr(dataset, "select_columns") else dataset
            self._objects = columns.with_format(None) if hasattr(columns, "with_format") else columns
            self.instance_labels = self._labels

    def __len__(self) -> int:
        return len(self.dataset)

    def image_id(self, index: int) -> int:
        """Return the id of an image, which is its index."""
        return index

    def _labels(self, index: int) -> list[int]:
        """Return the label of each object that is not a crowd, without reading the image."""
        objects = self._read_objects(self._objects[index], index)
        crowd = objects.get("iscrowd", [False] * len(objects["category"]))
        return [label for label, is_crowd in zip(objects["category"], crowd, strict=True) if not is_crowd]

    def _read_objects(self, row: Mapping[str, Any], index: int) -> Objects:
        return objects_of_row(row[str(self.objects)], tuple(self._fields), _place(index, self.objects))

    @property
    def digest(self) -> str:
        """Fingerprint of the dataset by the package."""
        return str(getattr(self.dataset, "_fingerprint", ""))

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample.

        Raises:
            ValueError: a value is not valid; the message names the row and the column.
        """
        row = self._row(index)
        pixels = image_of(row[self.image], _place(index, self.image))
        image = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        fields: dict[str, Any] = {}
        if self.semantic_map is not None:
            place = _place(index, self.semantic_map)
            classes = one_channel(map_of(row[self.semantic_map], place))
            if classes.ndim == 3:
                raise ValueError(
                    f"{place}: expected one class for each pixel, got {list(classes.shape)}; convert colours to classes"
                )
            fields["semantic_map"] = SemanticMap(self._classes(classes, pixels, place))
        if self.objects is not None:
            sample = _of_objects(image, self._read_objects(row, index), fields, _place(index, self.objects))
        elif self.instance_map is not None:
            place = _place(index, self.instance_map)
            values = map_of(row[self.instance_map], place)
            sample = DenseSample.from_masks(image, *self._instances(values, pixels, place), **fields)
        else:
            sample = _of_objects(image, {"bbox": [], "category": []}, fields, _place(index, None))
        return self.transforms(sample) if self.transforms else sample

    def _row(self, index: int) -> Mapping[str, Any]:
        """Return a row; the package decodes its images, except those of maps."""
        try:
            row: Mapping[str, Any] = self._plain[index]
        except (IndexError, KeyError):  # no such row
            raise
        except Exception as error:  # the errors of decoders depend on the format
            place = _place(index, self._broken_column(index))
            raise ValueError(
                f"{place}: expected values that the datasets package decodes, got {type(error).__name__}: {error}; "
                "filter such rows out, or repair the files"
            ) from error
        return row

    def _broken_column(self, index: int) -> str | None:
        """Return the first column of which a row cannot be read, None if the columns cannot be read one by one."""
        for column in (self.image, self.objects, self.instance_map, self.semantic_map):
            if column is not None and hasattr(self._plain, "select_columns"):
                try:
                    self._plain.select_columns([column])[index]
                except Exception:
                    return column
        return None

    def _classes(self, values: NDArray[Any], image: NDArray[Any], place: str) -> Tensor:
        """Return a map of classes [H, W] int64, with the void value as ignored."""
        if values.shape[:2] != image.shape[:2]:
            raise ValueError(
                f"{place}: expected a map of the size of the image, (height, width) {image.shape[:2]}, got "
                f"{values.shape[:2]}; resize it with nearest neighbours, or filter such rows out"
            )
        given = values[..., 0] if values.ndim == 3 else values
        strange = given[(given != self.void) & ((given < 0) | (given > _MOST_CLASSES))]
        if strange.size:
            raise ValueError(
                f"{place}: expected classes from 0 to {_MOST_CLASSES:,}, got {strange[0]}; give void={strange[0]} if "
                "it means unlabelled, or convert the map"
            )
        classes = torch.from_numpy(given.astype(np.int64))
        return torch.where(classes == self.void, IGNORE_INDEX, classes)

    def _instances(self, values: NDArray[Any], image: NDArray[Any], place: str) -> tuple[Tensor, Tensor]:
        """Return the masks [N, H, W] and labels [N] of an instance map."""
        if values.ndim != 3 or values.shape[2] < 2:
            raise ValueError(
                f"{place}: expected a map with a channel of classes and a channel of objects, got "
                f"{list(values.shape)}; give the column as semantic_map= if it has classes only"
            )
        classes = self._classes(values, image, place)
        numbers = torch.where(classes == IGNORE_INDEX, 0, torch.from_numpy(values[..., 1].astype(np.int64)))
        objects = np.unique(torch.stack([numbers[numbers > 0], classes[numbers > 0]], 1).numpy(), axis=0)
        masks = torch.zeros(len(objects), *numbers.shape, dtype=torch.bool, device="cpu")
        for n, (number, label) in enumerate(objects.tolist()):  # objects of different classes may have the same number
            masks[n] = (numbers == number) & (classes == label)
        return masks, torch.from_numpy(objects[:, 1]).long()


def _place(index: int, column: str | None) -> str:
    return f"HubSamples: row {index}" + ("" if column is None else f", column {column!r}")


def _of_objects(image: Tensor, objects: Objects, fields: dict[str, Any], place: str) -> DenseSample:
    """Return a sample of lists of objects, with masks if they have segmentations, else with boxes only."""
    height, width = image.shape[1:]
    num = len(objects["bbox"])
    boxes = torch.tensor(objects["bbox"], dtype=torch.float32, device="cpu").reshape(num, 4)
    ends = torch.tensor([width, height], dtype=torch.float32, device="cpu")
    boxes = torch.cat([boxes[:, :2].clamp(min=0), torch.minimum(boxes[:, :2] + boxes[:, 2:], ends)], 1)
    labels = torch.tensor(objects["category"], dtype=torch.int64, device="cpu")
    masks = _masks_of(objects["segmentation"], (height, width), place) if "segmentation" in objects else None
    flags = objects.get("iscrowd")  # of all rows or of none, so all samples or none have a crowd mask, as batches need
    is_crowd = torch.tensor([False] * num if flags is None else flags, dtype=torch.bool, device="cpu")
    seen = (boxes[:, 2:] > boxes[:, :2]).all(1) if masks is None else masks.flatten(1).any(1)
    seen |= is_crowd
    given = Annotated(image, boxes[seen], labels[seen], None if masks is None else masks[seen], is_crowd[seen])
    return sample_of(given, with_crowds=flags is not None, **fields)


def _masks_of(segmentations: Sequence[object], size: tuple[int, int], place: str) -> Tensor:
    """Return the masks of segmentations, [N, H, W]."""
    try:
        found = [decode_segmentation(given, size) for given in segmentations]
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        came = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{place}: segmentation: {came}; repair this row, or filter such rows out") from error
    return torch.from_numpy(np.array(found, bool).reshape(len(found), *size))


def _fields_of(dataset: Any, objects: str) -> Mapping[str, Any]:
    """Return the features of the lists of objects by name.

    Raises:
        ValueError: there are no boxes, or no categories.
    """
    if not getattr(dataset, "features", None):
        return {}
    feature = dataset.features[objects]
    fields = feature if isinstance(feature, Mapping) else getattr(feature, "feature", {})
    names = fields if isinstance(fields, Mapping) else {}
    if "category" not in names or "bbox" not in names:
        came = ", ".join(names) or repr(feature)
        raise ValueError(f"HubSamples: expected bbox and category in {objects!r}, got {came:.200}; rename them")
    return names


def _names_of(fields: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the class names of the feature of categories; None if it has none."""
    category = fields.get("category")
    return getattr(getattr(category, "feature", category), "names", None)


def _as_tuple(names: Sequence[str] | Mapping[int, str]) -> tuple[str, ...]:
    """Return the names of the classes from 0 as a tuple."""
    if not isinstance(names, Mapping):
        return tuple(names)
    missing = [label for label in range(len(names)) if label not in names]
    if missing:
        raise ValueError(
            f"HubSamples: class_names: expected a name for each class from 0, got {list(names)!r:.80} without "
            f"{missing[0]}; name it too, or number the categories without gaps"
        )
    return tuple(names[label] for label in range(len(names)))
