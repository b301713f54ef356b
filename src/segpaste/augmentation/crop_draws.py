"""Which staged crops are pasted into each target, and where.

In compiled code on the CPU this is one custom operator, as `segpaste.augmentation.in_stages` is: its random numbers
would take most of a minute to compile.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste import engine
from segpaste.augmentation import draw_slots
from segpaste.augmentation.draw_scales import SCALE_DEN
from segpaste.augmentation.placement import LayerSources, Placement, PlacementCounts, PlacementRequest, draw_placement
from segpaste.augmentation.placement_config import PlacementConfig
from segpaste.augmentation.schedule import Schedule


class CropTables(NamedTuple):
    """Facts about the staged crops, as tables.

    Attributes:
        usable: [B, K] bool, crops that may be pasted.
        boxes: [B, K, 4] int64.
        class_ids: [B, K] int64.
        scales: [B, K] float32, pixels of the crop for one of its photo; None where scales are relative to the crop.
    """

    usable: Tensor
    boxes: Tensor
    class_ids: Tensor
    scales: Tensor | None


Drawn = tuple[Placement, PlacementCounts]


def draw_crops(request: PlacementRequest, crops: CropTables, num_layers: int, crop_size: tuple[int, int]) -> Drawn:
    """Draw a crop for each layer, uniformly among the usable ones of its target, and place it.

    Args:
        request: of B targets.
        crops: K for each.
        num_layers: L, at most K.
        crop_size: (h, w).

    Returns:
        A placement that names crop k of target b as ``b * K + k``, and what became of each try.
    """
    text = request.text
    if text is None or text.config is not request.config or not torch.compiler.is_compiling():
        return _draw(request, crops, num_layers, crop_size)
    if not engine.pastes_whole(request.seeds.device):
        return _draw(request, crops, num_layers, crop_size)
    given = [request.seeds, request.extent, request.occupied, request.num_free, *request.schedule.tables]
    sizes = [num_layers, *crop_size, *request.canvas_size]
    drawn = _draw_operator(given, list(crops), sizes, text.text)
    return _records(drawn)


def _draw(request: PlacementRequest, crops: CropTables, num_layers: int, crop_size: tuple[int, int]) -> Drawn:
    (batch_size, num_crops), device = crops.usable.shape, crops.usable.device
    priority = draw_slots.random_where(
        crops.usable, request.seeds[:, None], "crop", torch.arange(num_crops, device=device)
    )
    order = priority.argsort(dim=1, descending=True, stable=True)[:, :num_layers]
    rows = torch.arange(batch_size, device=device)[:, None] * num_crops + order
    shrunk = None
    if crops.scales is not None:
        shrunk = (crops.scales * SCALE_DEN).round().to(torch.int64).clamp(min=1).flatten()[rows]
    height, width = crop_size
    sources = LayerSources(
        source_idx=rows,
        layer_valid=crops.usable.gather(1, order),
        extent=torch.tensor([width, height], device=device).expand(*rows.shape, 2),
        boxes=crops.boxes.flatten(0, 1)[rows][:, :, None],
        labels=crops.class_ids.flatten()[rows][..., None],
        eligible=crops.usable.gather(1, order)[..., None],
        canvas_size=crop_size,
        shrunk=shrunk,
    )
    return draw_placement(request, sources)


def _records(drawn: list[Tensor]) -> Drawn:
    num_maps = len(_MAPS)
    return Placement(*drawn[:num_maps]), PlacementCounts(*drawn[num_maps:])


_MAPS, _COUNTS = (tuple(field.name for field in fields(record)) for record in (Placement, PlacementCounts))


@lru_cache(maxsize=64)
def _config_of(text: str) -> PlacementConfig:
    return PlacementConfig.model_validate_json(text)


@torch.library.custom_op("segpaste::draw_crops", mutates_args=())
def _draw_operator(given: list[Tensor], crops: list[Tensor | None], sizes: list[int], text: str) -> list[Tensor]:
    num_layers, crop_height, crop_width, height, width = sizes
    seeds, extent, occupied, num_free, *tables = given
    schedule = Schedule.of(engine.DrawTables(*tables))
    request = PlacementRequest(seeds, extent, occupied, num_free, (height, width), _config_of(text), schedule)
    placement, counts = _draw(request, CropTables(*crops), num_layers, (crop_height, crop_width))  # type: ignore[arg-type]
    drawn = [getattr(placement, name) for name in _MAPS] + [getattr(counts, name) for name in _COUNTS]
    return [tensor.clone(memory_format=torch.contiguous_format) for tensor in drawn]


@_draw_operator.register_fake
def _(given: list[Tensor], crops: list[Tensor | None], sizes: list[int], text: str) -> list[Tensor]:
    seeds, usable, num_layers = given[0], crops[0], sizes[0]
    assert usable is not None
    shape = (len(seeds), num_layers)
    integers, flags = seeds.new_empty(shape), usable.new_empty(shape)
    pairs = [seeds.new_empty(*shape, 2) for _ in range(3)]
    maps = [integers, flags, *pairs, usable.new_empty(shape), usable.new_empty(*shape, 1)]
    return [*maps, *(seeds.new_empty(len(seeds)) for _ in _COUNTS)]
