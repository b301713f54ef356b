"""Small data that the suites of the trainers share: scenes, and photos of people where the test data is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import Dataset

from live_tensors import LiveTensors, expect_flat
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, CocoDetectionV2
from segpaste.datasets import make_large_scale_jittering, open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import DenseSample

NUM_CLASSES = 80
SIZE = 96


class Jittered(Dataset[DenseSample]):
    """Photos at one size, the same each time."""

    def __init__(self, photos: Dataset[DenseSample]) -> None:
        self.photos = photos
        self.jitter = make_large_scale_jittering((SIZE, SIZE))

    def __len__(self) -> int:
        return len(self.photos)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> DenseSample:
        return self.jitter(self.photos[index], index)


class Kept(Dataset[DenseSample]):
    """Samples that are made once, not in each epoch again."""

    def __init__(self, dataset: SceneDataset) -> None:
        self.samples = [dataset[i] for i in range(len(dataset))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> DenseSample:
        return self.samples[index]


@cache
def scenes() -> Dataset[DenseSample]:
    """Return sixteen rooms."""
    return Kept(SceneDataset(16, SceneConfig(height=SIZE, width=SIZE), seed=0))


def data_folder() -> Path:
    """Return the folder of small annotated photo sets, or skip the test."""
    folder = os.environ.get("SEGPASTE_TEST_DATA")
    if not folder:
        pytest.skip("set SEGPASTE_TEST_DATA=FOLDER to run on real photos")
    return Path(folder)


def dataset_of(name: str) -> Dataset[DenseSample]:
    """Return the dataset called ``scenes``, ``tiny_coco`` or ``coco128_seg``."""
    if name == "scenes":
        return scenes()
    return Jittered(tiny_coco() if name == "tiny_coco" else open_dataset(data_folder() / name))


def tiny_coco() -> CocoDetectionV2:
    """Return photos as their COCO file has them, some with crowds, two without objects."""
    folder = data_folder() / "tiny_coco"
    return CocoDetectionV2(folder / "val2017", folder / "annotations" / "instances_val2017.json")


class CountingPastes(BatchCopyPaste):
    """Keeps how many objects each call pasted, in ``placed``."""

    def __init__(self, config: BatchCopyPasteConfig) -> None:
        super().__init__(config)
        self.placed: list[int] = []

    def forward(self, *args: Any, **options: Any) -> Any:
        out, report = super().forward(*args, **options, return_report=True)
        self.placed.append(int(report.num_placed.sum()))
        return out


def expect_flat_memory(step: Callable[[], object], num_steps: int = 20) -> None:
    """Run a step again and again; if there are enough of them, no tensors may stay alive."""
    alive = LiveTensors()
    for _ in range(num_steps):
        step()
        alive.after_step()
    if num_steps >= 15:
        expect_flat(alive.num_bytes)
