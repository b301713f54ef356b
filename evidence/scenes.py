"""Scenes for training and testing: a long tail to train on, all classes alike to test on, and rooms without objects.

A set is a list of samples in memory, a pure function of its arguments. Seeds of training, validation and test sets
never meet: they begin at different thousands of millions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from segpaste.datasets.scenes import SceneConfig, SceneDataset, render_scene
from segpaste.types import IGNORE_INDEX, DenseSample, Modality
from segpaste.types.check import not_none

STUFF_NAMES = SceneDataset(1).schema.stuff_names
SIZE = (48, 64)
NUM_CLASSES = 6
_FIELDS = (Modality.IMAGE, Modality.INSTANCE, Modality.SEMANTIC)
_FIRST_SEED = {"train": 1_000_000_000, "validation": 2_000_000_000, "test": 3_000_000_000}
_TRIES = 1000  # training sets that are looked at for a seed

Part = Literal["train", "validation", "test"]


def scene_config(ratio: float = 1.0) -> SceneConfig:
    """Return the distribution of the scenes; the first class is drawn ``ratio`` times as often as the last."""
    height, width = SIZE
    return SceneConfig(
        height=height,
        width=width,
        num_objects_range=(4, 8),
        num_classes=NUM_CLASSES,
        long_tail=math.log(ratio) / math.log(NUM_CLASSES),
    )


@lru_cache(maxsize=4)
def training_set(
    seed: int, num_scenes: int, ratio: float, fewest: int, with_depth: bool = False
) -> tuple[SceneDataset, list[DenseSample]]:
    """Return a long-tailed set of which the rarest class has at least ``fewest`` visible instances.

    Sets of too few are passed over: the seeds of scenes are tried in order.
    """
    for number in range(_TRIES):
        first = _FIRST_SEED["train"] + seed * _TRIES + number
        scenes = SceneDataset(num_scenes, scene_config(ratio), first, _fields(with_depth))
        samples = [scenes[i] for i in range(num_scenes)]
        if int(instance_counts(samples)[-1]) >= fewest:
            return scenes, samples
    raise ValueError(
        f"expected {fewest} instances of the rarest class in {num_scenes} scenes, no set of {_TRIES} has them"
    )


@lru_cache(maxsize=4)
def held_out_set(part: Part, num_scenes: int, ratio: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return images [N, 3, H, W] uint8 and class maps [N, H, W] of scenes that no training set has.

    They are the same for every seed of a run. With a ratio of 1 all classes are drawn alike.
    """
    samples = held_out_samples(part, num_scenes, ratio)
    maps = torch.stack([not_none(sample.semantic_map).as_subclass(Tensor) for sample in samples])
    return torch.stack([sample.image.as_subclass(Tensor) for sample in samples]), class_maps(maps)


def held_out_samples(part: Part, num_scenes: int, ratio: float = 1.0, with_depth: bool = False) -> list[DenseSample]:
    """Return the samples of `held_out_set`."""
    scenes = SceneDataset(num_scenes, scene_config(ratio), _FIRST_SEED[part] + (ratio != 1), _fields(with_depth))
    return [scenes[i] for i in range(num_scenes)]


def class_maps(semantic_maps: Tensor) -> Tensor:
    """Return semantic maps [..., H, W] with 0 for all stuff and 1 .. `NUM_CLASSES` for things; ignored pixels stay."""
    table = torch.zeros(256, dtype=torch.int64)
    table[:NUM_CLASSES] = torch.arange(1, NUM_CLASSES + 1)
    table[IGNORE_INDEX] = IGNORE_INDEX
    return table[semantic_maps]


def instance_counts(samples: list[DenseSample]) -> Tensor:
    """Return how many instances of each class are visible, [`NUM_CLASSES`]."""
    return torch.cat([sample.labels for sample in samples]).bincount(minlength=NUM_CLASSES)


def without_objects(scenes: SceneDataset, samples: list[DenseSample]) -> list[DenseSample]:
    """Return the samples with images of the same rooms without their objects: masks and labels stay."""
    found = []
    for i, sample in enumerate(samples):
        empty = render_scene(replace(scenes.scene(i), solids=()), scenes.config, [Modality.IMAGE])
        found.append(replace(sample, image=empty.image))
    return found


def _fields(with_depth: bool) -> tuple[Modality, ...]:
    return (*_FIELDS, Modality.DEPTH) if with_depth else _FIELDS
