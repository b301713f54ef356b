"""Hand-made inputs of `draw_placement`: any number of targets over one source row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from segpaste.augmentation import PlacementConfig, PlacementRequest
from segpaste.augmentation.schedule import Schedule
from segpaste.augmentation.sources.strategies import LayerSources


def request(
    seeds: Tensor, extent: tuple[int, int] = (13, 9), num_free: int = 9, occupied: Any = ((0, 0, 0, 0),), **config: Any
) -> PlacementRequest:
    num, placement = len(seeds), PlacementConfig(**{"paste_prob": 1.0, "scale_range": (1.0, 1.0), **config})
    return PlacementRequest(
        seeds=seeds,
        extent=torch.tensor(extent).expand(num, 2),
        occupied=torch.tensor(occupied).expand(num, len(occupied), 4),
        num_free=torch.full((num,), num_free),
        canvas_size=extent[::-1],
        config=placement,
        schedule=Schedule(placement),
    )


def sources(num: int, boxes: Any, extent: tuple[int, int] = (13, 9), layers: int = 1) -> LayerSources:
    """The same source row for every layer of every target."""
    return LayerSources(
        source_idx=torch.zeros(num, layers, dtype=torch.int64),
        layer_valid=torch.ones(num, layers, dtype=torch.bool),
        extent=torch.tensor(extent).expand(num, layers, 2),
        boxes=torch.tensor(boxes).expand(num, layers, len(boxes), 4),
        labels=torch.zeros(num, layers, len(boxes), dtype=torch.int64),
        eligible=torch.ones(num, layers, len(boxes), dtype=torch.bool),
    )
