"""Counts of a dataset by class: objects and images that show them, or the pixels of semantic maps without objects.

    counts = count_classes(find_dataset("data.yaml").open("train"))
    dict(zip(counts.names, counts.num_objects))

The objects are those that can be pasted: no crowds or ignored objects, and only things of panoptic datasets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import TableColumns
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.tables import AnnotationTables
from segpaste.types import IGNORE_INDEX, DenseSample

_TABLES: dict[str, TableColumns] = {
    "images": {},
    "annotations": {"image_id": int},
    "categories": {"id": int, "name": str},
}


@dataclass(frozen=True)
class ClassCounts:
    """Objects of a dataset or bank by class; unknown counts are None.

    Attributes:
        kind: ``dataset``, ``augmented dataset`` or ``bank``.
        names: name of each class.
        num_objects: number of objects of each class.
        num_showing: number of images that show each class.
        num_pasted: number of pasted objects of each class.
        num_photos: number of images that show any object, 0 if not known.
    """

    kind: str
    names: tuple[str, ...]
    num_objects: tuple[int, ...]
    num_showing: tuple[int, ...] | None = None
    num_pasted: tuple[int, ...] | None = None
    num_photos: int = 0

    def photo_fracs(self) -> list[float]:
        """Return the fraction of the images with any object that show each class."""
        assert self.num_showing is not None
        return [num / max(self.num_photos, 1) for num in self.num_showing]


@dataclass(frozen=True)
class MapCounts:
    """Pixels of semantic maps without objects, by class.

    Attributes:
        names: name of each class.
        num_pixels: number of pixels of each class.
        num_showing: number of images that show each class.
        num_photos: number of images.
    """

    names: tuple[str, ...]
    num_pixels: tuple[int, ...]
    num_showing: tuple[int, ...]
    num_photos: int


def count_classes(dataset: AnnotatedDataset) -> ClassCounts | MapCounts:
    """Count the objects of each class; of a dataset with semantic maps only, the pixels, for which all maps are read.

    A dataset that does not list its labels is read completely.
    """
    if isinstance(dataset, CocoDetectionV2 | CocoPanoptic):
        return count_annotations(dataset.annotations_file)
    if not dataset.has_masks and dataset.has_semantic_maps:
        return _map_counts(dataset)
    names, schema = dataset.class_names, dataset.schema
    things = [label for label in range(len(names)) if schema is None or schema.classes.get(label) == "thing"]
    objects = ((label, index, False) for index in range(len(dataset)) for label in dataset.instance_labels(index))
    return _counted(names, things, objects)


def count_annotations(path: Path) -> ClassCounts:
    """Count the objects of a JSON file of COCO instances or panoptic segments, or LVIS; pasted ones also separately."""
    tables = AnnotationTables(AnnotationFile(path), _TABLES)
    rows = tables.categories.rows
    things = [label for label, row in enumerate(rows) if row.get("isthing", 1)]
    is_thing, is_augmented, objects = set(things), False, list[tuple[int, Any, bool]]()
    for row, label, image_id in tables.objects():
        if label in is_thing:
            origin = row.get("segpaste", {})
            is_augmented |= "pasted" in origin
            objects.append((label, image_id, bool(origin.get("pasted"))))
    return _counted([row["name"] for row in rows], things, objects, is_augmented=is_augmented)


def class_pixels(sample: DenseSample) -> dict[int, int]:
    """Count the pixels of each class of a semantic map; empty without a map."""
    if sample.semantic_map is None:
        return {}
    counts = torch.bincount(sample.semantic_map.as_subclass(Tensor).flatten()).tolist()
    return {label: num for label, num in enumerate(counts) if num and label != IGNORE_INDEX}


def _map_counts(dataset: AnnotatedDataset) -> MapCounts:
    pixels, showing = Counter[int](), Counter[int]()
    for index in range(len(dataset)):
        found = class_pixels(dataset[index])
        pixels.update(found)
        showing.update(found.keys())
    names = tuple(dataset.class_names)
    labels = range(len(names))
    return MapCounts(names, tuple(pixels[n] for n in labels), tuple(showing[n] for n in labels), len(dataset))


def _counted(
    names: Sequence[str], things: Sequence[int], objects: Iterable[tuple[int, Any, bool]], *, is_augmented: bool = False
) -> ClassCounts:
    """Count the objects of some classes, given as (class, image, pasted)."""
    num_objects, num_pasted = [0] * len(names), [0] * len(names)
    showing: list[set[Any]] = [set() for _ in names]
    for label, image, is_pasted in objects:
        num_objects[label] += 1
        num_pasted[label] += is_pasted
        showing[label].add(image)
    return ClassCounts(
        "augmented dataset" if is_augmented else "dataset",
        tuple(names[label] for label in things),
        tuple(num_objects[label] for label in things),
        tuple(len(showing[label]) for label in things),
        tuple(num_pasted[label] for label in things) if is_augmented else None,
        len(set().union(*(showing[label] for label in things))),
    )
