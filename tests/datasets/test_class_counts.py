"""Counts by class of datasets that no command opens: of Python, and scenes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from segpaste.datasets import AnnotatedDataset, SceneConfig, SceneDataset
from segpaste.datasets.class_counts import ClassCounts, MapCounts
from segpaste.datasets.dataset_counts import count_classes
from segpaste.types import DenseSample, Modality, SemanticMap


class Boxes(AnnotatedDataset):
    """Two images of cups, one of them with a lamp."""

    class_names = ("cup", "lamp", "sofa")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> DenseSample:
        masks = torch.zeros(2 + index, 8, 9, dtype=torch.bool)
        for number in range(len(masks)):
            masks[number, 2 * number : 2 * number + 2, 1:4] = True
        labels = torch.tensor([0, 0, 1][: len(masks)])
        return DenseSample.from_masks(torch.zeros(3, 8, 9, dtype=torch.uint8), masks, labels)


class Maps(AnnotatedDataset):
    """Images with semantic maps only."""

    class_names = ("floor", "wall", "door")
    has_masks, has_semantic_maps = False, True

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> DenseSample:
        classes = torch.full((4, 5), index, dtype=torch.int64)
        classes[0, 0] = 255
        none = torch.zeros(0, 4, 5, dtype=torch.bool)
        image = torch.zeros(3, 4, 5, dtype=torch.uint8)
        sample = DenseSample.from_masks(image, none, torch.zeros(0, dtype=torch.int64))
        return replace(sample, semantic_map=SemanticMap(classes))


def test_objects_and_images_of_each_class() -> None:
    counts = count_classes(Boxes())
    assert counts == ClassCounts("dataset", ("cup", "lamp", "sofa"), (4, 1, 0), (2, 1, 0), num_photos=2)
    assert isinstance(counts, ClassCounts)
    assert counts.photo_fracs() == [1, 0.5, 0]


def test_pixels_of_maps_without_objects() -> None:
    assert count_classes(Maps()) == MapCounts(("floor", "wall", "door"), (19, 19, 0), (1, 1, 0), 2)


def test_stuff_is_no_class_of_objects() -> None:
    config = SceneConfig(height=48, width=48)
    scenes = SceneDataset(5, config, 3, modalities=(Modality.INSTANCE,))
    counts = count_classes(scenes)
    assert isinstance(counts, ClassCounts)
    assert counts.names == config.thing_names != tuple(scenes.class_names)
    found = Counter(label for i in range(5) for label in scenes[i].labels.tolist())
    assert counts.num_objects == tuple(found[label] for label in range(len(counts.names)))
