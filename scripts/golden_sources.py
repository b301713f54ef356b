"""Source strategies for `golden_records`: those of the package by name, a custom one, and a bank in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from golden_inputs import CropSpec, Integers, Spec, staged_crops, target_batch
from numpy.typing import NDArray
from torch import Tensor

from segpaste import BankSource, BatchCopyPasteConfig, IntraBatchSource, PaddedBatchedDenseSample, SourceStrategy
from segpaste.augmentation import LayerRows, Placement, PlacementCounts, PlacementRequest
from segpaste.bank import Crop, Layout

NAMES = ("config", "rows", "crops", "fixed", "other", "pool")
"""Values of `Spec.source`; ``pool`` is a bank that the module draws from, see `MemoryBank`."""


def source_named(spec: Spec, config: BatchCopyPasteConfig) -> SourceStrategy | None:
    """Return the source strategy of a spec: one of `NAMES`, None for that of the config."""
    if spec.source == "rows":
        return IntraBatchSource()
    if spec.source == "crops":
        return BankSource(config.source)
    if spec.source == "other":
        height, width = spec.size
        sizes: dict[str, Any] = {"size": (height - 7, width + 5), "batch": 2, "layout": "rows"}
        return FixedMaps(target_batch(dataclasses.replace(spec, seed=spec.seed + 1000, **sizes)))
    return FixedMaps() if spec.source == "fixed" else None


class FixedMaps:
    """Pastes rows in turn by maps that are counted and not drawn, each axis with a scale of its own.

    Args:
        batch: the rows that are pasted; by default those of the target.
    """

    def __init__(self, batch: PaddedBatchedDenseSample | None = None) -> None:
        self.batch = batch

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        """Carry the first slots that there is room for."""
        source = target if self.batch is None else self.batch
        wanted = eligible if self.batch is None else self.batch.instance_valid
        num, num_layers = target.batch_size, request.config.layers
        index = torch.arange(num * num_layers).view(num, num_layers)
        source_idx = self._turns(num, num_layers, source.batch_size)
        wanted = wanted[source_idx]
        nth = wanted.flatten(1).cumsum(1).view(wanted.shape)
        carried = wanted & (nth <= request.num_free[:, None, None])
        zero = torch.zeros(num, dtype=torch.int64)
        placement = Placement(
            source_idx=source_idx,
            layer_valid=torch.ones(num, num_layers, dtype=torch.bool),
            scale_num=torch.stack([5 + index % 7, 9 - index % 4], -1),
            scale_den=torch.stack([7 + index % 3, 8 - index % 5], -1),
            translate=torch.stack([index * 5 % 23 - 11, index * 7 % 19 - 9], -1),
            hflip=index % 3 == 1,
            carried=carried,
        )
        return source, placement, PlacementCounts(carried.sum((1, 2)), zero, zero, zero)

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """Take the next rows of the batch, for ClassMix."""
        source_idx = self._turns(target.batch_size, request.config.layers, target.batch_size)
        return LayerRows(source_idx, candidates[source_idx])

    def _turns(self, num: int, num_layers: int, num_rows: int) -> Tensor:
        return (torch.arange(num)[:, None] + torch.arange(num_layers) + 1) % max(num_rows, 1)


class MemoryBank:
    """A bank in memory, a `segpaste.InstanceBank`.

    Args:
        counts: crops of each class, which lie in it in an order that is drawn.
        size: (h, w) of a crop.
        seed: of everything.
    """

    metric_depth = False

    def __init__(self, counts: Sequence[int], size: tuple[int, int] = (1, 1), seed: int = 5) -> None:
        num = sum(counts)
        order = Integers(seed).bits(num).argsort(kind="stable")
        crops = staged_crops(Spec(seed, batch=1, crops=CropSpec(num, size, depth=True, normals=True)))
        assert crops is not None
        assert crops.depth is not None
        assert crops.depth_valid is not None
        assert crops.normals is not None
        self.layout = Layout(size, ("provenance", "depth", "normals"))
        self.columns: dict[str, NDArray[Any]] = {
            "image": crops.images[0].numpy(),
            "alpha": crops.alphas[0].numpy(),
            "class_id": np.repeat(np.arange(len(counts)), counts)[order],
            "content_box": np.tile(np.array([0, 0, size[1], size[0]], np.int32), (num, 1)),
            "source_size": np.full((num, 2), 99, np.int32),
            "source_box": np.tile(np.array([0, 0, 9, 9], np.float32), (num, 1)),
            "scale": np.full(num, 0.5, np.float32),
            "image_id": np.arange(num) % 17,
            "annotation_id": np.arange(num),
            "depth": crops.depth[0].numpy(),
            "depth_valid": crops.depth_valid[0].numpy(),
            "normals": crops.normals[0].numpy(),
        }
        self.crop_size, self.version = size, f"golden {seed}"
        self.class_frequencies = tuple(counts)
        self.class_names = tuple(f"class{c}" for c in range(len(counts)))

    def __len__(self) -> int:
        return len(self.columns["class_id"])

    def __getitem__(self, index: int) -> Crop:
        return Crop(**{name: column[index] for name, column in self.columns.items()})

    def crop_class_ids(self) -> NDArray[np.int64]:
        """Return the class of every crop, [N]."""
        return self.columns["class_id"]

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        columns: Iterable[str] | None = None,
        out: dict[str, NDArray[Any]] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Copy some crops, column by column."""
        if out is None:
            out = self.layout.empty(len(indices), self.columns if columns is None else columns)
        for name, values in out.items():
            values[...] = self.columns[name][np.asarray(indices)]
        return out

    def close(self) -> None:
        """Do nothing."""
