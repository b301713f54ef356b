"""Small data that the suites of the trainers share: scenes, and photos of people where the test data is there."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.utils.data import Dataset

from segpaste import CocoDetectionV2
from segpaste.datasets import make_large_scale_jittering
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import DenseSample

NUM_CLASSES = 80
SIZE = 96


class Jittered(Dataset[DenseSample]):
    """Photos of tiny_coco at one size, the same each time."""

    def __init__(self, folder: Path) -> None:
        self.photos = CocoDetectionV2(folder / "val2017", folder / "annotations" / "instances_val2017.json")
        self.jitter = make_large_scale_jittering((SIZE, SIZE))

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int) -> DenseSample:
        return self.jitter(self.photos[index], index)


def data_folder() -> Path:
    """Return the folder of small annotated photo sets, or skip the test."""
    folder = os.environ.get("SEGPASTE_TEST_DATA")
    if not folder:
        pytest.skip("set SEGPASTE_TEST_DATA=FOLDER to run on real photos")
    return Path(folder)


def dataset_of(name: str) -> Dataset[DenseSample]:
    """Return the dataset called ``scenes`` or ``tiny_coco``."""
    if name == "scenes":
        return SceneDataset(16, SceneConfig(height=SIZE, width=SIZE), seed=0)
    return Jittered(data_folder() / "tiny_coco")


def expect_flat_memory(step: Callable[[], object], num_steps: int = 20, most_bytes: int = 64 << 20) -> None:
    """Run a step again and again; the peak of memory may not grow by more after the first half."""
    for n in range(num_steps):
        step()
        if n == num_steps // 2:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < most_bytes, f"{grown} bytes more after {num_steps} steps than after half of them"
