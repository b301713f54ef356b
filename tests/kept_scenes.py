"""Scenes that are rendered once in a process, for tests that read them again and again and change none."""

from __future__ import annotations

from typing import Any

from segpaste.datasets.scenes import SceneDataset
from segpaste.types import DenseSample


class KeptScenes(SceneDataset):
    """A `SceneDataset` that keeps its samples; a copy of it for another process begins with none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._samples: dict[int, DenseSample] = {}

    def __getitem__(self, index: int) -> DenseSample:
        if index not in self._samples:
            self._samples[index] = super().__getitem__(index)
        return self._samples[index]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_samples": {}}
