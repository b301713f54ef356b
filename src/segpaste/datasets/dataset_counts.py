"""Counts of an open dataset by class, and of the pixels of semantic maps without objects.

    counts = count_classes(find_dataset("data.yaml").open("train"))
    dict(zip(counts.names, counts.num_objects))

See `segpaste.datasets.class_counts` for what is counted.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from segpaste.datasets.class_counts import ClassCounts, MapCounts, count_annotations, counted
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.types import IGNORE_INDEX, DenseSample


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
    return counted(names, things, objects)


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
