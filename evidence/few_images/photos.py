"""Few real photos: splits of the 18 photos of fruits and nuts, and their samples at the size that is trained on.

The environment variable SEGPASTE_TEST_DATA names the folder that holds `fruits_nuts`, the data of
https://github.com/Tony607/mmdetection_instance_segmentation_demo (MIT).
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from segpaste import CocoDetectionV2
from segpaste.datasets.jitter import RandomResize
from segpaste.types import DenseSample

NUM_CLASSES = 3
TRAIN_SIZE = (128, 160)
TEST_SIZE = (144, 192)
_STORED_SIZE = (240, 320)
_NUM_VALIDATION, _NUM_TEST = 3, 7


@cache
def photos() -> list[DenseSample]:
    """Return all photos, at a size from which jitter takes its windows.

    Raises:
        KeyError: SEGPASTE_TEST_DATA is not set.
    """
    folder = Path(os.environ["SEGPASTE_TEST_DATA"]) / "fruits_nuts"
    dataset = CocoDetectionV2(folder / "images", folder / "trainval.json")
    return [resized(dataset[i], _STORED_SIZE) for i in range(len(dataset))]


def split(seed: int, num_train: int) -> tuple[list[DenseSample], list[DenseSample], list[DenseSample]]:
    """Return photos to train on, to validate on and to test on; those to validate on are the same for all seeds."""
    everything = torch.randperm(len(photos()), generator=torch.Generator().manual_seed(0)).tolist()
    validation, rest = everything[:_NUM_VALIDATION], everything[_NUM_VALIDATION:]
    order = torch.randperm(len(rest), generator=torch.Generator().manual_seed(seed)).tolist()
    if num_train > len(rest) - _NUM_TEST:
        raise ValueError(f"expected at most {len(rest) - _NUM_TEST} photos to train on, got {num_train}")
    picked = [rest[i] for i in order]
    parts = picked[:num_train], validation, picked[-_NUM_TEST:]
    train, valid, test = ([photos()[i] for i in part] for part in parts)
    return train, valid, test


def resized(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """Return a sample of this size, without the fields that only say where there is none."""
    return replace(RandomResize(size, (1.0, 1.0))(sample, 0), crowd_mask=None, padding_mask=None)
